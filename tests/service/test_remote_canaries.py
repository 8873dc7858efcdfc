"""plaintext-nowhere: no byte between a remote worker and its server shows a secret of a job."""

import base64
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from euterpe.client import Client
from tests.s3 import SECRET_ACCESS_KEY
from tests.service.canaries import find_leaks, mint
from tests.service.installation import Installation
from tests.service.receiver import Answer, credentials_answer
from tests.service.recording_proxy import RecordingProxy, recording_proxy
from tests.service.signed_url_store import signed_url_store

_LEASE = {"EUTERPE_LEASE_TTL_MS": "2000", "EUTERPE_HEARTBEAT_INTERVAL_MS": "400"}
_MINTED = ("wrong key", "expiring token", "malformed answer", "fresh token", "signature")
_SOUND = {"profile": "audio-aac", "max_attempts": 1}
# All calls of a worker except `rival`. A worker calls `rival` only if another job has used the same output
# URL.
_CALLS = {"claim", "credentials", "heartbeat", "advance", "refresh", "complete", "fail", "release"}


@pytest.fixture
def store_url(tmp_path: Path, clip: Path, installation: Installation) -> Iterator[str]:
    with signed_url_store(installation, tmp_path, clip) as url:
        yield url


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_no_body_between_a_remote_worker_and_its_server_shows_a_secret(
    installation: Installation, store_url: str
) -> None:
    """The value `planted` is in the specs and in the names of the outputs, to prove that the search works."""
    secrets, planted = _secrets_of(installation), mint("planted")
    installation.receiver.refresh = _refresh_answers(installation, secrets)
    api = installation.start("api", "--port", "0", **_LEASE)
    server = api.address()
    with recording_proxy(server) as proxy, Client(server, installation.api_key) as client:
        worker = installation.start_remote_worker(proxy.url, EUTERPE_DRAIN_TIMEOUT_MS="0")
        requests = _requests(installation, secrets, store_url, planted)
        job_ids = {name: client.submit(request).job_id for name, request in requests.items()}
        ends = {name: client.wait(job_id, timeout=60) for name, job_id in job_ids.items()}
        released = client.submit(installation.request("long.mp4")).job_id
        assert any(update.status == "processing" for update in client.watch(released))
        assert worker.stop() == 0
        assert client.status(released).status == "queued"
    assert api.stop() == 0
    assert {name: (end.status, end.error and end.error["code"]) for name, end in ends.items()} == {
        "refused, then refreshed": ("succeeded", None),
        "expiring, then refreshed": ("succeeded", None),
        "encrypted": ("succeeded", None),
        "refused": ("dead_letter", "source_forbidden"),
        "not allowed": ("dead_letter", "egress_refused"),
    }
    assert [call.reason for call in installation.receiver.refreshes] == ["forbidden", "forbidden", "expiring"]
    _check_search(proxy, planted)
    assert find_leaks(secrets, proxy.places) == []
    raw_keys = [bytes.fromhex(secrets["HLS key"]), base64.b64decode(secrets["webhook secret"])]
    assert [where for where, content in proxy.places.items() for raw in raw_keys if raw in content] == []


def _secrets_of(installation: Installation) -> dict[str, str]:
    (kek,) = json.loads((installation.folder / "keks.json").read_text())["keys"].values()
    return {
        "API key": installation.api_key.rpartition("_")[2],
        "callback token": installation.receiver.token,
        "webhook secret": installation.receiver.secrets[0].removeprefix("whsec_"),
        "KEK": kek,
        "S3 key": SECRET_ACCESS_KEY,
        "HLS key": token_hex(16),
        **{name: mint(name.replace(" ", "")) for name in _MINTED},
    }


def _refresh_answers(installation: Installation, secrets: Mapping[str, str]) -> Any:
    """Return a requester that first answers with malformed credentials, and later with right ones."""
    malformed = {"type": "s3", "secret_access_key": secrets["malformed answer"]}
    right = installation.s3.document(session_token=secrets["fresh token"])
    answers = iter([malformed, right, right])

    def refresh(_: object) -> Answer:
        return credentials_answer(next(answers))

    return refresh


def _requests(
    installation: Installation, secrets: Mapping[str, str], store_url: str, planted: str
) -> dict[str, dict[str, Any]]:
    soon = (datetime.now(UTC) + timedelta(seconds=50)).isoformat()
    wrong = installation.s3.document(secret_access_key=secrets["wrong key"])
    expiring = installation.s3.document(session_token=secrets["expiring token"], expires_at=soon)
    refreshed = {**_SOUND, "refresh_url": installation.receiver.refresh_url}
    key = {"method": "aes-128", "key_url": "https://keys.example/1", "key": secrets["HLS key"]}
    hls = {"name": "hls", "type": "hls", "video": {"ladder": [90]}, "encryption": key}
    signed = {
        **_SOUND,
        "output": {"urls": {"audio.m4a": f"{store_url}/audio.m4a?X-Amz-Signature={secrets['signature']}"}},
        "status_webhook_url": installation.receiver.hook_url,
    }
    outputs = {"output": {"url": f"s3://media/{planted}/"}}
    return {
        "refused, then refreshed": installation.request(
            "clip.mp4", credentials=wrong, **refreshed, **outputs
        ),
        "expiring, then refreshed": installation.request("clip.mp4", credentials=expiring, **refreshed),
        "encrypted": installation.request("clip.mp4", profile=None, outputs=[hls]),
        "refused": {**signed, "source": _signed(f"{store_url}/refused.mp4", secrets)},
        "not allowed": {**signed, "source": _signed("https://localhost:9/clip.mp4", secrets)},
    }


def _signed(url: str, secrets: Mapping[str, str]) -> dict[str, str]:
    return {"url": f"{url}?X-Amz-Signature={secrets['signature']}"}


def _check_search(proxy: RecordingProxy, planted: str) -> None:
    """Check that the proxy has seen every call and both directions, and that no body was compressed."""
    found = {where.split()[0] for _, where in find_leaks({"planted": planted}, proxy.places)}
    assert found == {"request", "answer"}
    assert set(proxy.calls) >= _CALLS
    everything = b"".join(proxy.places.values())
    assert b'"sealed"' in everything
    assert b"content-encoding" not in everything.lower()
