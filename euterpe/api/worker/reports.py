"""POST /internal/worker/{heartbeat,advance,complete,fail,release}: reports about attempts."""

import asyncio
import json
import sys
from concurrent.futures import Future
from functools import partial
from typing import Any

from euterpe.api.problems import ProblemCode, Refused
from euterpe.api.service import Service
from euterpe.api.worker.call import LONGEST_TOKEN, Answer, WorkerCall, proof_of, refusal_code
from euterpe.api.worker.claims import LONGEST_CLAIM_ID, stored_claim_id
from euterpe.api.worker.fields import RequestFields
from euterpe.api.worker.reported_errors import job_error
from euterpe.api.worker.service import RemoteWorkers
from euterpe.control.lease_tokens import InvalidLeaseToken
from euterpe.control.reported_attempts import AttemptRefused
from euterpe.domain.leased_job import MAX_WARNINGS, ProgressFigures
from euterpe.domain.states import IN_PROGRESS, JobStatus
from euterpe.domain.units import iso
from euterpe.store.checks import REPORTED_LIMIT
from euterpe.store.queue.attempt_answers import LONGEST_RELEASE_MS, EndAnswer
from euterpe.store.queue.inbox import ExtendedLease

MAX_LEASES = 1_000
MAX_RESULT = 262_144
STATUSES = tuple(status.value for status in IN_PROGRESS[1:])
_RESULT_FIELDS = ("outputs", "timings", "source_info", "warnings")
_MOST_LISTED = 100_000


class ReportEndpoints:
    def __init__(self, service: Service, workers: RemoteWorkers) -> None:
        self._workers, self._reports = workers, workers.reports
        self._inbox, self._pool = service.store.inbox, service.read_pool
        self._lease_ms = workers.settings.lease_ms

    async def heartbeat(self, call: WorkerCall) -> Answer:
        leases = call.fields.mappings("leases", MAX_LEASES)
        is_urgent = call.fields.flag("urgent") or False
        if leases is None:
            beat = self._beat(call.fields, call.requester_id, is_urgent=is_urgent)
            call.fields.check()
            return self._held(await asyncio.wrap_future(beat()))
        _check_lease(call.fields)
        _progress(call.fields)
        beats = [
            self._beat(call.fields.at(number, lease, "leases"), call.requester_id, is_urgent=is_urgent)
            for number, lease in enumerate(leases)
        ]
        call.fields.check()
        answers = await asyncio.gather(
            *(asyncio.wrap_future(beat()) for beat in beats), return_exceptions=True
        )
        return {
            "ok": True,
            "leases": [
                {"job_id": lease["job_id"], **self._lease(answer)}
                for lease, answer in zip(leases, answers, strict=True)
            ],
        }

    def _beat(
        self, fields: RequestFields, requester_id: str, *, is_urgent: bool
    ) -> "partial[Future[ExtendedLease]]":
        """Return the call that submits the heartbeat of one lease."""
        proof = proof_of(fields, requester_id, has_attempt=False)
        progress, timings = _progress(fields)
        return partial(
            self._reports.heartbeat, proof, progress=progress, timings=timings, is_urgent=is_urgent
        )

    def _lease(self, answer: ExtendedLease | BaseException) -> dict[str, Any]:
        """Return the answer for one of several leases. Raise an error that concerns all leases."""
        if isinstance(answer, InvalidLeaseToken | AttemptRefused):
            return {"ok": False, "code": refusal_code(answer)}
        if isinstance(answer, BaseException):
            raise answer
        return self._held(answer)

    def _held(self, lease: ExtendedLease) -> dict[str, Any]:
        return {
            "ok": True,
            "lease_expires_at": iso(lease.lease_expires_at),
            "lease_ttl_seconds": self._lease_ms / 1000,
            "cancel_requested": lease.cancel_requested,
            "credential_version": lease.credential_version,
        }

    async def advance(self, call: WorkerCall) -> Answer:
        fields, proof = call.fields, call.proof()
        status = JobStatus(fields.one_of("status", STATUSES))
        values = {
            "source_info": fields.mapping("source_info"),
            "warnings": fields.mappings("warnings", MAX_WARNINGS),
            "progress": fields.number("progress", 0, 100),
        }
        fields.check()
        given = {name: value for name, value in values.items() if value is not None}
        advanced = await asyncio.wrap_future(self._reports.advance(proof, status, given))
        return {
            "ok": True,
            "status": advanced.status,
            "lease_expires_at": iso(advanced.lease_expires_at),
            "lease_ttl_seconds": self._lease_ms / 1000,
        }

    async def complete(self, call: WorkerCall) -> Answer:
        fields, proof = call.fields, call.proof()
        _check_message(fields)
        result = fields.inner("result")
        outputs = result.mappings("outputs", _MOST_LISTED)
        known = {
            "timings": result.mapping("timings"),
            "source_info": result.mapping("source_info"),
            "warnings": result.mappings("warnings", MAX_WARNINGS),
            "result": result.others(*_RESULT_FIELDS) or None,
        }
        fields.check()
        # A worker must upload a result above `MAX_RESULT` to the storage, as an artifact.
        if len(json.dumps({"outputs": outputs, **known})) > MAX_RESULT:
            raise Refused(ProblemCode.REQUEST_TOO_LARGE, f"`result` may take at most {MAX_RESULT} bytes")
        return _ended(
            await asyncio.wrap_future(self._reports.complete(proof, outputs=outputs or [], **known))
        )

    async def fail(self, call: WorkerCall) -> Answer:
        fields, proof = call.fields, call.proof()
        _check_message(fields)
        inner = fields.inner("error")
        error, stack = job_error(inner, fields), inner.any_text("stack")
        timings = fields.mapping("timings")
        fields.check()
        end = await asyncio.wrap_future(self._reports.fail(proof, error, timings=timings, stack=stack))
        return _ended(end)

    async def release(self, call: WorkerCall) -> Answer:
        fields = call.fields
        claim_id = fields.optional_text("claim_id", longest=LONGEST_CLAIM_ID)
        has_job = claim_id is None or fields.has("job_id")
        _check_lease(fields)
        proof = call.proof() if has_job else None
        reason = job_error(fields.inner("reason"), RequestFields({})) if fields.has("reason") else None
        delay_ms = fields.whole("delay_ms", 0, 0, LONGEST_RELEASE_MS) if fields.has("delay_ms") else None
        timings = fields.mapping("timings")
        fields.check()
        if proof is None:
            return await self._release_claim(stored_claim_id(call.requester_id, claim_id or ""))
        released = self._reports.release(proof, reason, delay_ms=delay_ms, timings=timings)
        return _ended(await asyncio.wrap_future(released))

    async def _release_claim(self, stored_id: str) -> Answer:
        """Release all jobs that a claim got. End the claim's wait first, so that it gets no further jobs."""
        for busy in self._workers.desk.end_claim(stored_id):
            await asyncio.gather(asyncio.wrap_future(_shielded(busy.jobs)), return_exceptions=True)
        keys = await self._pool.run(partial(self._inbox.held_by, stored_id))
        ends = [asyncio.wrap_future(self._reports.give_back(key)) for key in keys]
        for end in await asyncio.gather(*ends, return_exceptions=True):
            if isinstance(end, BaseException) and not isinstance(end, AttemptRefused):
                raise end  # `AttemptRefused` is no error here: the attempt has ended already
        return {"ok": True, "ack": True, "requeued": bool(keys)}


def _shielded(answer: "Future[Any]") -> "Future[None]":
    """Return a future that is done when `answer` is done. Canceling this future does not cancel `answer`."""
    ended: Future[None] = Future()

    def end(_: "Future[Any]") -> None:
        if ended.set_running_or_notify_cancel():
            ended.set_result(None)

    answer.add_done_callback(end)
    return ended


def _progress(fields: RequestFields) -> tuple[ProgressFigures | None, dict[str, Any] | None]:
    """Return the progress and the timings of a heartbeat."""
    percent = fields.number("progress", 0, 100)
    eta, speed = _figure(fields, "eta_seconds"), _figure(fields, "speed")
    progress = None if percent is None else ProgressFigures(percent, eta, speed)
    return progress, fields.mapping("timings")


def _figure(fields: RequestFields, name: str) -> float | None:
    """Return a figure that ffmpeg printed, or None if it is too large.

    A compromised ffmpeg can print any figure. If the API refused the whole heartbeat because of this figure,
    the leases of other jobs would expire.
    """
    value = fields.number(name, 0, sys.float_info.max)
    return value if value is not None and value < REPORTED_LIMIT else None


def _check_lease(fields: RequestFields) -> None:
    """Check the types of a lease's fields, and accept missing fields.

    For example, the release of a whole claim names no lease.
    """
    fields.optional_text("job_id")
    fields.optional_text("attempt_id")
    fields.optional_text("lease_token", longest=LONGEST_TOKEN)


def _check_message(fields: RequestFields) -> None:
    """Check only the types of `stream` and `message_id`, because the lease token identifies the claim.

    The contract also allows an object, `stream: {name, message_id}`.
    """
    if isinstance(fields.raw("stream"), dict):
        fields.inner("stream").optional_text("name")
        fields.inner("stream").optional_text("message_id")
    else:
        fields.optional_text("stream")
    fields.optional_text("message_id")


def _ended(end: EndAnswer) -> Answer:
    return {
        "ok": True,
        "ack": True,
        "status": end.status,
        "outcome": end.outcome,
        "requeued": end.requeued,
        "dlq": end.dlq,
        "charged": end.outcome != "released",
        "next_attempt_at": None if end.next_attempt_at is None else iso(end.next_attempt_at),
    }
