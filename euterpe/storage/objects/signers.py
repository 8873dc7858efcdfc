"""Sign requests to object stores: S3 (AWS Signature Version 4), Azure (SAS or SharedKey) and Google (JWT)."""

import hmac
import json
import re
from base64 import b64decode, b64encode, urlsafe_b64encode
from dataclasses import dataclass, field, replace
from datetime import datetime
from email.utils import format_datetime
from hashlib import sha256
from urllib.parse import unquote

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from euterpe.storage.objects.request import ObjectRequest

_AZURE_VERSION = "2023-11-03"
_SAS = re.compile(r"[^=&#\s]+=[^&#\s]*(?:&[^=&#\s]+=[^&#\s]*)*")
# The standard headers that are signed, in this order. The x-ms-* headers are signed as well.
_AZURE_SIGNED = (
    "content-encoding",
    "content-language",
    "content-length",
    "content-md5",
    "content-type",
    "date",
    "if-modified-since",
    "if-match",
    "if-none-match",
    "if-unmodified-since",
    "range",
)


class SharedAccessSignature:
    def __init__(self, token: str) -> None:
        """Raise ValueError when the token is not a query string."""
        self._query = token.removeprefix("?")
        if not _SAS.fullmatch(self._query):
            raise ValueError("the SAS token is not a query")

    def sign(self, request: ObjectRequest, host: str, now: datetime) -> ObjectRequest:
        del host
        query = f"{request.query}&{self._query}" if request.query else self._query
        return replace(_dated_for_azure(request, now), query=query)


@dataclass(frozen=True)
class AccountKey:
    account: str
    key: bytes = field(repr=False)

    @classmethod
    def decode(cls, account: str, key: str) -> "AccountKey":
        """Raise ValueError when the key is not base64."""
        return cls(account, b64decode(key, validate=True))

    def sign(self, request: ObjectRequest, host: str, now: datetime) -> ObjectRequest:
        del host
        dated = _dated_for_azure(request, now)
        signature = b64encode(hmac.digest(self.key, self._text(dated).encode(), "sha256")).decode()
        return dated.with_headers(authorization=f"SharedKey {self.account}:{signature}")

    def _text(self, request: ObjectRequest) -> str:
        length = {"content-length": str(len(request.body)) if request.body else ""}
        headers = {**request.headers, **length}
        azure_headers = sorted(name for name in headers if name.startswith("x-ms-"))
        return "\n".join(
            (
                request.method,
                *(headers.get(name, "") for name in _AZURE_SIGNED),
                *(f"{name}:{headers[name]}" for name in azure_headers),
                self._resource(request),
            )
        )

    def _resource(self, request: ObjectRequest) -> str:
        parameters = sorted(pair.partition("=") for pair in request.query.split("&") if pair)
        lines = (f"{name}:{unquote(value)}" for name, _, value in parameters)
        return "\n".join((f"/{self.account}{request.path}", *lines))


def _dated_for_azure(request: ObjectRequest, now: datetime) -> ObjectRequest:
    return request.with_headers(date=format_datetime(now, usegmt=True), x_ms_version=_AZURE_VERSION)


_GOOGLE_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
_TOKEN_LIFETIME_S = 3600  # the longest lifetime that Google accepts
_TOKEN_RENEW_S = 300


@dataclass(frozen=True)
class BearerToken:
    token: str = field(repr=False)

    def sign(self, request: ObjectRequest, host: str, now: datetime) -> ObjectRequest:
        del host, now
        return request.with_headers(authorization=f"Bearer {self.token}")


class ServiceAccount:
    """A signer that issues a token per hour and reuses it, because a signature takes a millisecond.

    Google accepts a token that is signed with the key of the service account (a "self-signed JWT"), so no
    token endpoint is ever called. A call of the token endpoint would be a risk: its address is the
    `token_uri` of the key file, and the requester, who sends the key file, could name any host there.
    """

    def __init__(self, key_file: str) -> None:
        """Raise ValueError when the key cannot be read."""
        try:
            parts = json.loads(key_file)
            key = load_pem_private_key(parts["private_key"].encode(), password=None)
            self._key_id, self._email = str(parts["private_key_id"]), str(parts["client_email"])
        except (TypeError, KeyError, AttributeError):  # a field is missing, or the key has a password
            raise ValueError("the service account's key file is malformed") from None
        if not isinstance(key, RSAPrivateKey):
            raise ValueError("the private key is not an RSA key")  # noqa: TRY004  like any other bad key
        self._key = key
        self._token, self._expires_at = "", 0.0

    def sign(self, request: ObjectRequest, host: str, now: datetime) -> ObjectRequest:
        del host
        if now.timestamp() > self._expires_at - _TOKEN_RENEW_S:
            self._token, self._expires_at = (
                self._issue(int(now.timestamp())),
                now.timestamp() + _TOKEN_LIFETIME_S,
            )
        return request.with_headers(authorization=f"Bearer {self._token}")

    def _issue(self, now: int) -> str:
        header = {"typ": "JWT", "alg": "RS256", "kid": self._key_id}
        claims = {
            "iss": self._email,
            "sub": self._email,
            "scope": _GOOGLE_SCOPE,
            "iat": now,
            "exp": now + _TOKEN_LIFETIME_S,
        }
        text = f"{_base64(json.dumps(header).encode())}.{_base64(json.dumps(claims).encode())}"
        return f"{text}.{_base64(self._key.sign(text.encode(), PKCS1v15(), SHA256()))}"


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


_AWS_ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True)
class S3Signer:
    """AWS Signature Version 4, in the `Authorization` header.

    Every header of the request and the SHA-256 of its body are signed, so that the store refuses a body that
    was corrupted in transit.
    """

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(repr=False)
    region: str

    def sign(self, request: ObjectRequest, host: str, now: datetime) -> ObjectRequest:
        token = {"x_amz_security_token": self.session_token} if self.session_token else {}
        dated = request.with_headers(
            x_amz_date=now.strftime("%Y%m%dT%H%M%SZ"),
            x_amz_content_sha256=sha256(request.body).hexdigest(),
            **token,
        )
        return dated.with_headers(authorization=self._authorization(dated, host))

    def _authorization(self, request: ObjectRequest, host: str) -> str:
        headers = {**request.headers, "host": host}
        names = ";".join(sorted(headers))
        time = request.headers["x-amz-date"]
        scope = f"{time[:8]}/{self.region}/s3/aws4_request"
        canonical = "\n".join(
            (
                request.method,
                request.path,
                request.query,
                *(f"{name}:{' '.join(headers[name].split())}" for name in sorted(headers)),
                "",
                names,
                request.headers["x-amz-content-sha256"],
            )
        )
        text = "\n".join((_AWS_ALGORITHM, time, scope, sha256(canonical.encode()).hexdigest()))
        signature = _hmac(self._key(time[:8]), text).hex()
        credential = f"{self.access_key_id}/{scope}"
        return f"{_AWS_ALGORITHM} Credential={credential}, SignedHeaders={names}, Signature={signature}"

    def _key(self, day: str) -> bytes:
        key = f"AWS4{self.secret_access_key}".encode()
        for part in (day, self.region, "s3", "aws4_request"):
            key = _hmac(key, part)
        return key


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")
