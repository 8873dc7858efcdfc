"""The answers of a server to a remote worker, for scripted servers."""

import base64
import json
import threading
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

from euterpe.crypto.handover import SUITE, credentials_info, read_public_key, seal_to
from tests.client.scripted_server import Answer, Reply, Request

JOB, OTHER = "0199a7c4-5b1e-7000-8000-000000000001", "0199a7c4-5b1e-7000-8000-000000000002"
ATTEMPT = "0199a7c4-5b1e-7000-8000-0000000000a1"
EMPTY = Answer(200, {"claimed": False})
OK = Answer(200, {"ok": True, "ack": True})


def job(job_id: str = JOB, **changes: Any) -> dict[str, Any]:
    """Return a claimed job, in the form in which a claim returns it."""
    payload = {
        "spec": {"source": {"url": "s3://in/a.mov"}, "timeout_seconds": 60},
        "claim_version": 5,
        "attempt_count": 1,
        "max_attempts": 3,
        "credential_version": 1,
        "a_newer_field": True,
    }
    return {
        "claimed": True,
        "job_id": job_id,
        "attempt_id": ATTEMPT,
        "lease_token": f"elt1.{job_id}",
        "stream": "eu",
        "message_id": f"4-{job_id}",
        "payload": payload,
        "lease_ttl_seconds": 60,
        "heartbeat_interval_seconds": 15,
        "progress_interval_seconds": 5,
        "lease_expires_at": "2030-01-31T12:00:00.000Z",
        "a_newer_field": {"x": 1},
        **changes,
    }


def jobs(*job_ids: str) -> Answer:
    rows = [job(job_id) for job_id in job_ids]
    return Answer(200, {**rows[0], "jobs": rows})


def beats(request: Request, **changes: Any) -> Answer:
    """Answer a heartbeat: every lease is held. `changes` replaces fields of the answer."""
    row = {"ok": True, "lease_expires_at": "2030-01-31T12:00:00.000Z", "cancel_requested": False, **changes}
    return Answer(200, {"leases": [{"job_id": sent["job_id"], **row} for sent in request.json["leases"]]})


def lost(request: Request, code: str = "lease_lost") -> Answer:
    return beats(request, ok=False, code=code)


def sealed(request: Request, secrets: object, version: int = 3, **changes: Any) -> Answer:
    """Answer a request for credentials. Seal the credentials as the server does."""
    sent = request.json
    key: X25519PublicKey = read_public_key(sent["public_key"])
    info = credentials_info(sent["job_id"], sent["attempt_id"], version)
    ciphertext = base64.b64encode(seal_to(key, json.dumps(secrets).encode(), info)).decode()
    document = {"credential_version": version, "sealed": {"suite": SUITE, "ciphertext": ciphertext}}
    return Answer(200, {**document, **changes})


class Late:
    """A reply that is delayed until `release`. The event `arrived` is set when the request arrives."""

    def __init__(self, reply: Any) -> None:
        self._reply = reply
        self.arrived, self._may_go = threading.Event(), threading.Event()

    def __call__(self, request: Request) -> Reply:
        self.arrived.set()
        assert self._may_go.wait(20)
        reply: Reply = self._reply(request) if callable(self._reply) else self._reply
        return reply

    def release(self) -> None:
        self._may_go.set()
