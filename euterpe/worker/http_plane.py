"""The control plane of a remote worker, over HTTP (`docs/contract-workers.md`)."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar
from uuid import UUID, uuid4

import structlog

from euterpe.client import worker_answers, worker_calls
from euterpe.client.requests import ApiRequest, ApiResponse
from euterpe.client.worker_answers import AttemptEnd, Claimed
from euterpe.client.worker_calls import Lease
from euterpe.crypto.errors import KeyProviderUnavailable
from euterpe.crypto.handover import CannotOpen, credentials_info, new_private_key, open_with, public_key_text
from euterpe.domain.leased_job import (
    End,
    Heartbeat,
    HeartbeatAnswer,
    JobSecrets,
    LeasedJob,
    ProgressFigures,
    RefreshReason,
    RefreshResult,
    Unavailable,
)
from euterpe.domain.retry import JobError
from euterpe.domain.states import JobStatus
from euterpe.worker.remote.beat_sender import BeatSender
from euterpe.worker.remote.claim_poll import ClaimedAt, ClaimPoll
from euterpe.worker.remote.held_lease import Clock, HeldLease, boot_clock
from euterpe.worker.remote.server_connection import ServerConnection
from euterpe.worker.remote.server_errors import AttemptOver, ServerUnavailable

_log = structlog.get_logger(__name__)
R = TypeVar("R")
# `prove` raises an error after this many heartbeats whose answers came too late.
_PROOFS = 2


class HttpPlane:
    """A `ControlPlane` over HTTP. Thread-safe, but only one thread may claim.

    The worker's key pair for sealed credentials is made here, and never stored.
    """

    def __init__(
        self,
        connection: ServerConnection,
        *,
        worker_id: str,
        queues: Sequence[str] = ("default",),
        clock: Clock = boot_clock,
        claims: ClaimPoll | None = None,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._connection, self._worker_id, self._clock = connection, worker_id, clock
        self._wall_clock = wall_clock
        self._claims = claims or ClaimPoll(connection, worker_id, queues, clock=clock)
        self._private_key = new_private_key()
        self._public_key = public_key_text(self._private_key)
        self._beats = BeatSender(connection, worker_id, clock=clock)
        self.heartbeat_interval_s: float | None = None  # the value in the server's answer to the last claim

    # -- claims

    def claim(self, limit: int, *, wait_s: float) -> Sequence[LeasedJob]:
        claimed = self._claims.claim(limit, wait_s)
        if claimed is None:
            return ()
        jobs = [self._leased_job(job, claimed) for job in claimed.answer.jobs]
        return self._renewed(jobs) if claimed.was_repeated else jobs

    def wait(self, seconds: float) -> None:
        self._claims.release_abandoned()
        self._claims.wait(seconds)

    def wake(self) -> None:
        self._claims.wake()

    def close(self) -> None:
        self._claims.release_abandoned(abandoned_s=0.0)
        self._connection.close()

    # -- heartbeats

    def heartbeat(self, beats: Sequence[Heartbeat]) -> HeartbeatAnswer:
        """Extend the leases. A job is held until the server says that it is lost.

        During an outage that is longer than a lease, attempts continue, because this worker may be able to
        revive their leases afterwards.
        """
        self._beats.send([(_held(beat.job), beat.timings) for beat in beats])
        self._claims.release_abandoned()
        jobs = {beat.job.job_id: _held(beat.job) for beat in beats}
        return HeartbeatAnswer(
            held=frozenset(job_id for job_id, lease in jobs.items() if not lease.is_lost),
            cancel_requested=frozenset(job_id for job_id, lease in jobs.items() if lease.cancel_requested),
        )

    def prove(self, job: LeasedJob, *, refers: bool) -> bool:
        """Return whether the claim is certainly valid now, so that a file may be published.

        If `refers` is true, the file refers to other files, and a new heartbeat is sent first. For any other
        file, the last heartbeat is enough, because no published file refers to it yet. An HLS ladder has
        thousands of these other files: the segments.
        """
        held = _held(job)
        if not refers and held.may_publish(self._clock()):
            return True
        for _ in range(_PROOFS):
            self._beats.send([(held, None)], is_urgent=True)
            # An accepted heartbeat proves the claim until a fixed time after the heartbeat was sent. The
            # answer may come after this time, because the time limit of the request does not
            # count the time for which the machine was suspended.
            if held.is_lost or held.may_publish(self._clock()):
                return not held.is_lost
        raise ServerUnavailable("the answers to heartbeats come too late to publish a file")

    def holds_until(self, job: LeasedJob) -> float:
        """Return the time until which no other worker can own the job, by the clock of this control plane."""
        return _held(job).holds_until

    def report(self, job: LeasedJob, progress: ProgressFigures) -> bool:
        """Keep the progress for the next heartbeat. Return False if the job is known to be lost."""
        held = _held(job)
        self._beats.note_progress(held, progress)
        return not held.is_lost

    # -- the steps of an attempt

    def advance(
        self, job: LeasedJob, source: JobStatus, target: JobStatus, values: Mapping[str, Any]
    ) -> bool:
        del source  # the server reads the status itself, and accepts a repeated step
        return self._write(job, worker_calls.advance(self._worker_id, _lease(job), target, values))

    def succeed(
        self, job: LeasedJob, outputs: Sequence[Mapping[str, Any]], timings: Mapping[str, Any]
    ) -> bool:
        self._beats.drop(_held(job))
        result = {"outputs": list(outputs), "timings": timings}
        return self._write(job, worker_calls.complete(self._worker_id, _lease(job), result))

    def fail(self, job: LeasedJob, error: JobError, timings: Mapping[str, Any]) -> End:
        call = worker_calls.fail(self._worker_id, _lease(job), _document(error), timings)
        return self._end(job, call, charged=True)

    def release(self, job: LeasedJob, *, reason: JobError | None, timings: Mapping[str, Any]) -> End:
        document = None if reason is None else _document(reason)
        call = worker_calls.release(self._worker_id, _lease(job), document, timings)
        return self._end(job, call, charged=False)

    # -- secrets

    def secrets(self, job: LeasedJob) -> JobSecrets:
        call = worker_calls.credentials(self._worker_id, _lease(job), self._public_key)
        sealed = self._ask(job, call, worker_answers.sealed_secrets)
        ahead_s = 0.0 if sealed.answered_at is None else self._wall_clock() - sealed.answered_at
        info = credentials_info(job.job_id, job.attempt_id, sealed.credential_version)
        try:
            secrets = worker_answers.opened_secrets(open_with(self._private_key, sealed.ciphertext, info))
        except (CannotOpen, ValueError) as error:
            # The job is not at fault, so the attempt is not charged: something between the worker and the
            # server changed the public key or the answer.
            _log.error("handover_failed", job_id=job.job_id, error=str(error))
            raise KeyProviderUnavailable(str(error)) from None
        return JobSecrets(sealed.credential_version, secrets.storage, secrets.hls_keys, ahead_s)

    def refresh(self, job: LeasedJob, credential_version: int, reason: RefreshReason) -> RefreshResult:
        call = worker_calls.refresh(
            self._worker_id, _lease(job), credential_version, reason, refresh_id=str(uuid4())
        )
        answer = self._ask(job, call, worker_answers.refreshed)
        if answer.advanced or answer.credential_version > credential_version:
            return RefreshResult.ADVANCED
        if answer.promised:
            return RefreshResult.PROMISED
        return RefreshResult.REFUSED if answer.calls_left == 0 else RefreshResult.FAILED

    def is_rival(self, job: LeasedJob, other_id: str) -> bool | None:
        # Anyone with write access to the object store can write any text as this id.
        if not _is_uuid(other_id):
            return None
        call = worker_calls.rival(self._worker_id, _lease(job), other_id)
        return self._ask(job, call, worker_answers.rivalled)

    # -- parts

    def _leased_job(self, job: Claimed, at: ClaimedAt) -> LeasedJob:
        held = HeldLease(job, sent_at=at.sent_at, received_at=at.received_at)
        self._beats.add(held)
        self.heartbeat_interval_s = job.heartbeat_interval_s
        return LeasedJob(
            job_id=job.lease.job_id,
            attempt_id=job.lease.attempt_id,
            worker_id=self._worker_id,
            claim_version=job.claim_version,
            lease_ms=int(job.lease_ttl_s * 1000),
            attempt_count=job.attempt_count,
            max_attempts=job.max_attempts,
            queue=job.lease.stream,
            spec=job.spec,
            handle=held,
        )

    def _renewed(self, jobs: Sequence[LeasedJob]) -> Sequence[LeasedJob]:
        """Renew the leases of jobs that an earlier request claimed. Return the jobs that are not lost.

        Without this renewal, the leases could expire before the first regular heartbeat.
        """
        with suppress(Unavailable):
            self._beats.send([(_held(job), None) for job in jobs])
        return [job for job in jobs if not _held(job).is_lost]

    def _write(self, job: LeasedJob, call: ApiRequest) -> bool:
        """Send a write that renews or ends the lease. Return False for a stale claim."""
        sent_at = self._clock()
        try:
            self._ask(job, call, worker_answers.accepted)
        except AttemptOver as over:
            return over.outcome == "succeeded"
        _held(job).renew(sent_at=sent_at, received_at=self._clock())
        return True

    def _end(self, job: LeasedJob, call: ApiRequest, *, charged: bool) -> End:
        def read(answer: ApiResponse) -> AttemptEnd:
            return worker_answers.ended(answer, charged=charged)

        self._beats.drop(_held(job))
        try:
            answer = self._ask(job, call, read)
        except AttemptOver as over:
            return End.of(over.outcome)
        if answer.outcome is not None and (end := End.of(answer.outcome)) is not End.STALE:
            return end
        if not answer.requeued:
            return End.FAILED
        return End.REQUEUED if answer.charged else End.RELEASED

    def _ask(self, job: LeasedJob, call: ApiRequest, read: Callable[[ApiResponse], R]) -> R:
        try:
            return self._connection.ask(call, read)
        except AttemptOver as over:
            _held(job).lose(over.code)
            raise


def _held(job: LeasedJob) -> HeldLease:
    if not isinstance(job.handle, HeldLease):
        raise TypeError("the job was claimed from another control plane")
    return job.handle


def _lease(job: LeasedJob) -> Lease:
    return _held(job).lease


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def _document(error: JobError) -> Mapping[str, Any]:
    return {**error.document(), "retry_class": error.retry_class.value}
