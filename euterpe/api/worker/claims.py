"""POST /internal/worker/claim: a long poll for jobs.

A waiting worker occupies no thread, because one claim desk answers all waiting workers of the process.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

import structlog
from starlette.requests import ClientDisconnect, Request

from euterpe.api.disconnect import while_connected
from euterpe.api.middleware import context_of
from euterpe.api.problems import ProblemCode, Refused
from euterpe.api.service import Service
from euterpe.api.worker.call import Answer, WorkerCall
from euterpe.api.worker.fields import RequestFields
from euterpe.api.worker.service import RemoteWorkers
from euterpe.client.worker_calls import PROTOCOL
from euterpe.control.claim_desk import ClaimDesk
from euterpe.control.lease_tokens import LeaseClaim
from euterpe.control.waiting_claims import Waiting
from euterpe.domain.canonical import without_callback_queries
from euterpe.domain.errors import FieldError, InvalidSpec
from euterpe.domain.leased_job import Unavailable
from euterpe.domain.text import check_text
from euterpe.domain.units import iso
from euterpe.runtime.retry import draw
from euterpe.store.errors import StoreUnavailable
from euterpe.store.queue.attempt_answers import AttemptKey, EndAnswer
from euterpe.store.queue.claims import ClaimedJob, ClaimRequest

_log = structlog.get_logger(__name__)

DEFAULT_WAIT_MS, MAX_WAIT_MS = 5_000, 30_000
MAX_JOBS, MAX_STREAMS = 100, 16
LONGEST_CLAIM_ID = 128  # the stored id is longer: it begins with the id of the API key's owner
# The wait of a worker can end while the claim desk claims jobs for this worker. Then the server gives this
# claim at most this much more time. After that, the server answers with an error, and the worker repeats the
# claim.
_LAST_ANSWER_S = 5.0
# When the server stops, it asks each waiting worker to claim again after a random pause of up to this time.
_SPREAD_MS = 2_000


class ClaimEndpoint:
    def __init__(self, service: Service, workers: RemoteWorkers) -> None:
        self._pool, self._workers, self._settings = service.read_pool, workers, workers.settings

    async def claim(self, call: WorkerCall) -> Answer:
        request, wait_s = _claim_request(call, self._settings.lease_ms)
        # Without a key that signs lease tokens, claimed jobs could not be given to a worker.
        if not self._workers.tokens.has_fresh_keys:
            await self._pool.run(self._workers.tokens.require_keys)
        desk = self._workers.desk
        waiting = desk.enter(request, waits=wait_s > 0)
        jobs = await self._wait(desk, waiting, wait_s, call.request)
        if not jobs:
            return {
                "claimed": False,
                **({"retry_after_ms": int(_SPREAD_MS * draw())} if desk.is_stopping else {}),
            }
        context_of(call.request).about.update(worker_id=request.worker_id, jobs=len(jobs))
        try:
            await call.require_key()  # the key may have been revoked during the wait
            documents = await self._pool.run(partial(self._documents, jobs, call.requester_id))
        except Exception as error:
            # Keep the jobs of a refused claim that has an id, because the worker repeats this claim. The
            # request may also have arrived twice, and the other copy may have been answered with these jobs.
            if request.claim_id is None or not isinstance(error, Refused | StoreUnavailable):
                await asyncio.gather(*map(asyncio.wrap_future, self._give_back(jobs)), return_exceptions=True)
            raise
        return {**documents[0], "jobs": documents} if request.limit > 1 or len(jobs) > 1 else documents[0]

    async def _wait(
        self, desk: ClaimDesk, waiting: Waiting, wait_s: float, request: Request
    ) -> Sequence[ClaimedJob]:
        loop, answered = asyncio.get_running_loop(), asyncio.Event()
        waiting.jobs.add_done_callback(lambda _: loop.call_soon_threadsafe(answered.set))
        try:
            if await while_connected(_is_set_within(answered, wait_s), request.receive):
                return waiting.jobs.result()
            if desk.leave(waiting):
                return self._nothing(desk)
            if await while_connected(_is_set_within(answered, _LAST_ANSWER_S), request.receive):
                return waiting.jobs.result()
        except (ClientDisconnect, asyncio.CancelledError):
            self._abandon(desk, waiting)
            raise
        self._abandon(desk, waiting)
        raise Unavailable("the database did not answer in time; repeat the claim")

    def _nothing(self, desk: ClaimDesk) -> Sequence[ClaimedJob]:
        if desk.is_failing:
            raise Refused(
                ProblemCode.DATABASE_UNAVAILABLE,
                ProblemCode.DATABASE_UNAVAILABLE.public_detail,
                retry_after_s=2,
            )
        return ()

    def _abandon(self, desk: ClaimDesk, waiting: Waiting) -> None:
        """End the wait of a worker that gets no answer, for example because it has disconnected.

        A claim with an id keeps its jobs, because the worker will repeat or release the claim. The jobs of a
        claim without an id are released, because no worker knows of them.
        """
        if waiting.request.claim_id is not None:
            desk.give_up(waiting)
        elif not desk.leave(waiting):
            waiting.jobs.add_done_callback(self._give_back_late)

    def _give_back_late(self, answer: "Future[Sequence[ClaimedJob]]") -> None:
        if answer.exception() is None:
            self._give_back(answer.result())

    def _give_back(self, jobs: Sequence[ClaimedJob]) -> "list[Future[EndAnswer]]":
        """Release jobs that no worker has received. Their attempts are not charged."""
        for job in jobs:
            _log.info("claim_given_back", job_id=job.job_id, worker_id=job.worker_id)
        keys = [AttemptKey(job.job_id, job.attempt_id, job.claim_version) for job in jobs]
        return [self._workers.reports.give_back(key) for key in keys]

    def _documents(self, jobs: Sequence[ClaimedJob], requester_id: str) -> list[dict[str, Any]]:
        return [self._document(job, requester_id) for job in jobs]

    def _document(self, job: ClaimedJob, requester_id: str) -> dict[str, Any]:
        claim = LeaseClaim(job.job_id, job.attempt_id, job.claim_version)
        return {
            "claimed": True,
            "job_id": job.job_id,
            "attempt_id": job.attempt_id,
            "lease_token": self._workers.tokens.mint(claim, requester_id),
            "stream": job.queue,
            "message_id": f"{job.claim_version - 1}-{job.job_id}",
            "payload": payload_of(job),
            "lease_ttl_seconds": self._settings.lease_ms / 1000,
            "lease_expires_at": iso(job.lease_expires_at),
            "heartbeat_interval_seconds": self._settings.heartbeat_ms / 1000,
            "progress_interval_seconds": self._settings.progress_ms / 1000,
        }


def payload_of(job: ClaimedJob) -> dict[str, Any]:
    """Return the payload of a claimed job, without secrets."""
    # Remove the queries of callback URLs, which earlier releases stored in clear text.
    spec = without_callback_queries(dict(job.spec))
    return {
        "spec": spec,
        "claim_version": job.claim_version,
        "attempt_count": job.attempt_count,
        "max_attempts": job.max_attempts,
        "credential_version": job.credential_version,
        "queue": job.queue,
        "priority": job.priority,
        "group": job.group_id,
        "external_id": spec.get("external_id"),
        "requester_id": job.requester_id,
        "limits": {name: spec.get(name) for name in ("max_source_bytes", "timeout_seconds")},
    }


def stored_claim_id(requester_id: str, claim_id: str) -> str:
    """Return the claim id to store.

    It contains the id of the API key's owner, so other owners cannot get the jobs with the same claim id.
    """
    return f"{requester_id}:{claim_id}"


def _claim_request(call: WorkerCall, lease_ms: int) -> tuple[ClaimRequest, float]:
    """Return the claim, and how long it may wait for a job, in seconds.

    Raise if the worker does not support `PROTOCOL`.
    """
    fields = call.fields
    queues = fields.texts("streams", MAX_STREAMS)
    wait_ms = min(fields.whole("max_wait_ms", DEFAULT_WAIT_MS, 0, 2**53), MAX_WAIT_MS)
    limit = fields.whole("max_jobs", 1, 1, MAX_JOBS)
    claim_id = fields.optional_text("claim_id", longest=LONGEST_CLAIM_ID)
    if fields.has("accepts"):
        fields.texts("accepts", MAX_STREAMS, least=0)
    if fields.has("protocol"):
        _check_protocol(fields.inner("protocol"))
    for queue in queues:
        try:
            check_text("queue", queue, "streams")
        except InvalidSpec as error:
            fields.errors += (FieldError(("streams",), wrong.msg) for wrong in error.errors)
    fields.check()
    stored_id = None if claim_id is None else stored_claim_id(call.requester_id, claim_id)
    return ClaimRequest(call.worker_id, limit, queues, lease_ms, stored_id), wait_ms / 1000


def _check_protocol(spoken: RequestFields) -> None:
    low, high = spoken.whole("min", PROTOCOL, 0, 2**53), spoken.whole("max", PROTOCOL, 0, 2**53)
    spoken.check()
    if not low <= PROTOCOL <= high:
        older = "server" if low > PROTOCOL else "worker"
        raise Refused(
            ProblemCode.PROTOCOL_NOT_SUPPORTED,
            f"this server speaks version {PROTOCOL}, and the worker {low} to {high}: upgrade the {older}",
        )


async def _is_set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return False
    return True
