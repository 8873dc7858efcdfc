"""POST /internal/worker/{credentials,refresh,rival}: the secrets of a leased job, and its rivals.

A rival is another job that is unfinished, or that succeeded after this attempt began.
"""

import asyncio
from base64 import b64encode
from functools import partial
from ipaddress import ip_address
from typing import Any, cast, get_args

from starlette.requests import Request

from euterpe.api.disconnect import while_connected
from euterpe.api.problems import ProblemCode, Refused, invalid
from euterpe.api.service import Service
from euterpe.api.worker.call import Answer, WorkerCall
from euterpe.api.worker.service import RemoteWorkers
from euterpe.control.leased_secrets import OpenSecrets, Refreshed
from euterpe.control.reported_attempts import LeaseProof
from euterpe.crypto.handover import SUITE, MalformedPublicKey, read_public_key
from euterpe.domain.leased_job import RefreshReason, RefreshResult
from euterpe.store.queue.claims import ClaimedJob

MAX_WAIT_MS = 30_000
LONGEST_REFRESH_ID = 128
LONGEST_KEY = 64
REASONS = get_args(RefreshReason)
_MOST_VERSIONS = 2**53


class SecretEndpoints:
    def __init__(self, service: Service, workers: RemoteWorkers) -> None:
        self._workers, self._secrets, self._reports = workers, workers.secrets, workers.reports
        self._watcher, self._pool, self._sealing_pool = (
            service.watcher,
            service.read_pool,
            service.sealing_pool,
        )

    async def credentials(self, call: WorkerCall) -> Answer:
        """Return the secrets, or null if `have_version` is still the newest version after `wait_ms`."""
        fields, proof = call.fields, call.proof(has_attempt=False)
        public_key = fields.optional_text("public_key", longest=LONGEST_KEY)
        have = fields.whole("have_version", 0, 0, _MOST_VERSIONS)
        wait_ms = fields.whole("wait_ms", 0, 0, MAX_WAIT_MS)
        fields.check()
        if public_key is None:
            self._require_inline(call.request)
        else:
            _check_key(public_key)
        if have:
            version = await self._newer_version(proof, have, wait_ms / 1000)
            if version == have:
                return {"credential_version": version, "sealed": None}
            await call.require_key()  # the key may have been revoked during the wait
        return await self._sealing_pool.run(partial(self._handed_over, proof, public_key))

    async def _newer_version(self, proof: LeaseProof, have: int, wait_s: float) -> int:
        """Return the version as soon as it differs from `have`, or after `wait_s`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_s
        with self._watcher.watch([proof.job_id]) as watch:
            version = (await self._held(proof)).credential_version
            while version == have and not watch.ended and await watch.changed(deadline - loop.time()):
                version = (await self._held(proof)).credential_version
        return version

    async def _held(self, proof: LeaseProof) -> ClaimedJob:
        return await self._pool.run(lambda: self._secrets.held(self._reports.key(proof)))

    def _handed_over(self, proof: LeaseProof, public_key: str | None) -> dict[str, Any]:
        secrets = self._secrets.open(self._reports.key(proof))
        return {"credential_version": secrets.credential_version, **_form(secrets, public_key)}

    def _require_inline(self, request: Request) -> None:
        """Raise unless the operator allows unsealed secrets, and the call came over TLS or loopback."""
        if not (self._workers.settings.gives_inline and _is_private(request)):
            raise Refused(
                ProblemCode.PUBLIC_KEY_REQUIRED,
                "send `public_key`: this server gives credentials sealed to the key of the worker",
            )

    async def refresh(self, call: WorkerCall) -> Answer:
        """Call the requester's refresh URL, unless newer credentials are stored already.

        A call can occupy a thread for 10 s, so each requester may use only a few of the threads. If the
        worker disconnects before a thread is free, the call is not made.
        """
        fields, proof = call.fields, call.proof(has_attempt=False)
        version = fields.whole("credential_version", 0, 0, _MOST_VERSIONS)
        reason = cast(RefreshReason, fields.one_of("reason", REASONS))
        refresh_id = fields.optional_text("refresh_id", longest=LONGEST_REFRESH_ID)
        fields.check()
        job = await self._held(proof)
        if job.credential_version > version:
            return _refresh_answer(self._secrets.refreshed(job, RefreshResult.ADVANCED))
        refresh = self._workers.refresh_pool.run(
            lambda: self._secrets.refresh(self._reports.key(proof), version, reason, refresh_id=refresh_id),
            job.requester_id,
        )
        return _refresh_answer(await while_connected(refresh, call.request.receive))

    async def rival(self, call: WorkerCall) -> Answer:
        proof, other = call.proof(), call.fields.text("other_job_id")
        call.fields.check()
        return {"rival": await self._pool.run(partial(self._is_rival, proof, other))}

    def _is_rival(self, proof: LeaseProof, other_id: str) -> bool | None:
        return self._secrets.is_rival(self._reports.key(proof), other_id)


def _refresh_answer(refreshed: Refreshed) -> Answer:
    return {
        "credential_version": refreshed.credential_version,
        "advanced": refreshed.result is RefreshResult.ADVANCED,
        "promised": refreshed.result is RefreshResult.PROMISED,
        "calls_left": refreshed.calls_left,
    }


def _form(secrets: OpenSecrets, public_key: str | None) -> dict[str, Any]:
    if public_key is None:
        return {"inline": secrets.document()}
    try:
        ciphertext = b64encode(secrets.sealed_to(public_key)).decode()
    except MalformedPublicKey as error:  # the key is a point of low order
        raise invalid("public_key", str(error)) from None
    return {"sealed": {"suite": SUITE, "ciphertext": ciphertext}}


def _check_key(public_key: str) -> None:
    try:
        read_public_key(public_key)
    except MalformedPublicKey as error:
        raise invalid("public_key", str(error)) from None


def _is_private(request: Request) -> bool:
    """Return whether the call came over loopback or over TLS, which a proxy can terminate."""
    forwarded = request.headers.get("x-forwarded-proto")
    if forwarded is not None:
        return forwarded.strip().lower() == "https"
    if request.url.scheme == "https":
        return True
    try:
        return request.client is not None and ip_address(request.client.host).is_loopback
    except ValueError:
        return False
