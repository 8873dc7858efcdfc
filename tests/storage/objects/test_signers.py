"""Tests that request signers make the same signatures as obstore, which the clouds accept."""

import json
from base64 import urlsafe_b64decode
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import obstore
import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from obstore.store import AzureStore, S3Store

from euterpe.storage.objects.request import ObjectRequest, encode_path, encode_query
from euterpe.storage.objects.signers import AccountKey, S3Signer, ServiceAccount, SharedAccessSignature
from tests.net.servers import Server
from tests.storage.conftest import Serve
from tests.storage.fake_stores import Call, Reply, calls
from tests.storage.keys import key_file

if TYPE_CHECKING:
    from obstore.store import AzureConfig, S3Config

KEY = "a b/ü%20~x*[]{}!$&'(),;=@:+#^|.mp4"
BEGUN = b"<R><Bucket>out</Bucket><Key>k</Key><UploadId>u/+=&amp;</UploadId></R>"
DONE = b'<R><Location>x</Location><Bucket>b</Bucket><Key>k</Key><ETag>"abc-3"</ETag></R>'
NOW = datetime(2026, 11, 19, 7, 8, 17, tzinfo=UTC)


def accept_everything(call: Call) -> Reply:
    if call.method == "POST":
        return Reply(200, {"etag": '"p"'}, BEGUN if "uploads" in call.query else DONE)
    return Reply(200, {"etag": '"p"', "last-modified": "Wed, 21 Oct 2015 07:28:00 GMT"})


def send_every_kind(store: S3Store | AzureStore) -> None:
    """Send every kind of request that Euterpe sends."""
    obstore.head(store, KEY)
    obstore.put(store, KEY, b"hello", attributes={"Content-Type": "video/mp4"}, mode="create")
    obstore.put(store, KEY, b"hello", mode={"e_tag": '"old"'})
    writer = obstore.open_writer(store, KEY, buffer_size=5 << 20)
    writer.write(bytes(6 << 20))
    writer.close()


def headers_without(call: Call, *names: str) -> dict[str, str]:
    added = {"authorization", "host", "accept", "user-agent", *names}
    return {name: value for name, value in call.headers.items() if name not in added}


def request_of(call: Call, *names: str) -> ObjectRequest:
    path, _, query = call.target.partition("?")
    return ObjectRequest(call.method, path, query, headers_without(call, *names), call.body)


@pytest.fixture
def server(serve: Serve) -> Server:
    return serve(accept_everything)


@pytest.mark.parametrize("token", [None, "s3ssion/+="])
def test_s3_requests_are_signed_as_obstore_signs_them(server: Server, token: str | None) -> None:
    config: S3Config = {
        "access_key_id": "AKIAMINE",
        "secret_access_key": "s3cret/+",
        "region": "eu-central-1",
    }
    if token:
        config["session_token"] = token
    config["endpoint"] = f"http://{server.pair}"
    send_every_kind(S3Store("out", config=config, client_options={"allow_http": True}))
    signer = S3Signer("AKIAMINE", "s3cret/+", token, "eu-central-1")
    sent = calls(server)
    assert len(sent) >= 6
    for call in sent:
        now = datetime.strptime(call.headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        added_by_signer = ("x-amz-date", "x-amz-content-sha256", "x-amz-security-token", "content-length")
        signed = signer.sign(request_of(call, *added_by_signer), call.headers["host"], now)
        assert signed.headers["authorization"] == call.headers["authorization"]
        assert signed.headers.get("x-amz-security-token") == token


@pytest.mark.parametrize("field", ["path", "query"])
def test_our_urls_are_spelt_as_obstore_spells_those_of_s3(server: Server, field: str) -> None:
    config: S3Config = {"endpoint": f"http://{server.pair}", "skip_signature": True}
    send_every_kind(S3Store("out", config=config, client_options={"allow_http": True}))
    paths = {call.target.partition("?")[0] for call in calls(server)}
    queries = {call.query for call in calls(server)}
    if field == "path":
        assert paths == {f"/out/{encode_path(KEY)}"}
    else:
        assert encode_query(uploadId="u/+=&", partNumber="1") in queries


def test_azure_requests_are_signed_as_obstore_signs_them(server: Server) -> None:
    config: AzureConfig = {
        "account_name": "account",
        "account_key": "a2V5",
        "endpoint": f"http://{server.pair}",
    }
    send_every_kind(AzureStore("out", config=config, client_options={"allow_http": True}))
    signer = AccountKey.decode("account", "a2V5")
    sent = calls(server)
    assert len(sent) >= 6
    for call in sent:
        now = parsedate_to_datetime(call.headers["date"])
        signed = signer.sign(request_of(call, "date", "x-ms-version", "content-length"), "host", now)
        assert signed.headers["authorization"] == call.headers["authorization"]


def test_a_shared_access_signature_is_sent_as_it_was_given() -> None:
    token = "sv=2026&sig=a%2Bb%3D"
    for given in (token, f"?{token}"):
        signer = SharedAccessSignature(given)
        assert signer.sign(ObjectRequest("GET", "/a"), "host", NOW).target == f"/a?{token}"
        assert (
            signer.sign(ObjectRequest("PUT", "/a", "comp=block"), "host", NOW).target
            == f"/a?comp=block&{token}"
        )


@pytest.mark.parametrize("token", ["s3cret", "sig=a b", "sig=a#b", "=a", "a=b&&c=d", ""])
def test_what_is_no_query_is_no_shared_access_signature(token: str) -> None:
    with pytest.raises(ValueError, match="not a query"):
        SharedAccessSignature(token)


def test_a_service_account_signs_a_token_of_an_hour_and_renews_it_in_time() -> None:
    signer = ServiceAccount(key_file())
    tokens = [
        signer.sign(ObjectRequest("GET", "/a"), "host", at(s)).headers["authorization"]
        for s in (0, 3000, 3400)
    ]
    assert tokens[0] == tokens[1] != tokens[2]
    header, claims, signature = tokens[2].removeprefix("Bearer ").split(".")
    assert decode_part(header) == {"typ": "JWT", "alg": "RS256", "kid": "k"}
    payload = decode_part(claims)
    assert (payload["iss"], payload["sub"], payload["exp"] - payload["iat"]) == ("w@p", "w@p", 3600)
    key = load_pem_private_key(json.loads(key_file())["private_key"].encode(), None)
    assert isinstance(key, RSAPrivateKey)
    signed = f"{header}.{claims}".encode()
    key.public_key().verify(urlsafe_b64decode(signature + "=="), signed, PKCS1v15(), SHA256())


def encrypted_key() -> str:
    key = load_pem_private_key(json.loads(key_file())["private_key"].encode(), None)
    password = BestAvailableEncryption(b"secret")
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, password).decode()


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        "7",
        "",
        '{"private_key": 7}',
        json.dumps({"private_key": "no key", "private_key_id": "k", "client_email": "w@p"}),
        json.dumps({"private_key": encrypted_key(), "private_key_id": "k", "client_email": "w@p"}),
    ],
)
def test_a_service_account_that_cannot_be_read_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  the message does not matter
        ServiceAccount(text)


def at(seconds: int) -> datetime:
    return datetime.fromtimestamp(NOW.timestamp() + seconds, UTC)


def decode_part(part: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(urlsafe_b64decode(part + "=="))
    return found
