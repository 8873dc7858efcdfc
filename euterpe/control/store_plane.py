"""The control plane of a worker in the same process: each call is a call of the store."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from euterpe.control.refresher import Refresher
from euterpe.domain.leased_job import (
    End,
    Heartbeat,
    HeartbeatAnswer,
    JobSecrets,
    LeasedJob,
    ProgressFigures,
    RefreshReason,
    RefreshResult,
    StaleClaim,
)
from euterpe.domain.retry import JobError
from euterpe.domain.states import JobStatus
from euterpe.store.engine.ids import is_id
from euterpe.store.engine.wakeup import Listener, Topic
from euterpe.store.errors import Conflict
from euterpe.store.queue.attempt_answers import (
    AttemptEnd,
    AttemptKey,
    Completion,
    FailedAttempt,
    ReleasedAttempt,
)
from euterpe.store.queue.inbox import ClaimedJob
from euterpe.store.queue.progress import ProgressReport
from euterpe.store.queue.transition import Transition
from euterpe.store.store import Store


class StorePlane:
    """A `ControlPlane` over the store. `listener` wakes the worker for new jobs; `close` closes it."""

    heartbeat_interval_s: float | None = None  # None: the worker uses the settings of this process

    def __init__(
        self,
        store: Store,
        refresher: Refresher,
        worker_id: str,
        *,
        queues: Sequence[str] = ("default",),
        lease_ms: int = 60_000,
        listener: Listener | None = None,
    ) -> None:
        self.store, self._refresher = store, refresher
        self.worker_id, self.queues, self._lease_ms = worker_id, tuple(queues), lease_ms
        self._listener = listener or store.database.listen(Topic.INBOX)

    def claim(self, limit: int, *, wait_s: float) -> Sequence[LeasedJob]:
        jobs = self.store.inbox.claim(self.worker_id, limit, queues=self.queues, lease_ms=self._lease_ms)
        if not jobs:
            self.wait(wait_s)
        return [leased(job) for job in jobs]

    def wait(self, seconds: float) -> None:
        self._listener.wait(seconds)

    def wake(self) -> None:
        self._listener.wake()

    def heartbeat(self, beats: Sequence[Heartbeat]) -> HeartbeatAnswer:
        used = {beat.job.job_id: beat.timings for beat in beats if beat.timings is not None}
        result = self.store.inbox.heartbeat([_claim(beat.job) for beat in beats], used=used)
        return HeartbeatAnswer(result.held, result.cancel_requested)

    def prove(self, job: LeasedJob, *, refers: bool) -> bool:  # noqa: ARG002  a heartbeat costs little here
        return job.job_id in self.heartbeat([Heartbeat(job)]).held

    def advance(
        self, job: LeasedJob, source: JobStatus, target: JobStatus, values: Mapping[str, Any]
    ) -> bool:
        claim = _claim(job)
        step = Transition.advance(claim, source, target, values)
        return self.store.inbox.submit_advance(step).result() or self._is_at(claim, target)

    def _is_at(self, claim: ClaimedJob, target: JobStatus) -> bool:
        """Return whether an earlier try of the same write was committed.

        If the connection was lost during COMMIT, only the row in the database shows whether COMMIT succeeded.
        """
        row = self.store.jobs.get(claim.job_id)
        return bool(row.claim_version == claim.claim_version and row.status == target)

    def report(self, job: LeasedJob, progress: ProgressFigures) -> bool:
        figures = (progress.percent, progress.eta_seconds, progress.speed)
        return bool(self.store.progress.write([ProgressReport(_claim(job), *figures)]))

    def succeed(
        self, job: LeasedJob, outputs: Sequence[Mapping[str, Any]], timings: Mapping[str, Any]
    ) -> bool:
        end = self._end(Completion(key=_key(job), outputs=outputs, timings=timings))
        return end is End.SUCCEEDED

    def fail(self, job: LeasedJob, error: JobError, timings: Mapping[str, Any]) -> End:
        return self._end(FailedAttempt(key=_key(job), error=error, timings=timings))

    def release(self, job: LeasedJob, *, reason: JobError | None, timings: Mapping[str, Any]) -> End:
        return self._end(ReleasedAttempt(key=_key(job), reason=reason, timings=timings))

    def _end(self, end: AttemptEnd) -> End:
        """Record the end of an attempt. A repeated call gets the first answer."""
        (answer,) = self.store.attempt_ends.end([end])
        return End.of(answer.outcome)

    def secrets(self, job: LeasedJob) -> JobSecrets:
        claim = _claim(job)
        with _stale_claims():
            storage, version = self.store.credentials.open(claim)
            return JobSecrets(version, storage, self.store.hls_keys.open(claim))

    def refresh(self, job: LeasedJob, credential_version: int, reason: RefreshReason) -> RefreshResult:
        with _stale_claims():
            return self._refresher.refresh(_claim(job), credential_version, reason)

    def is_rival(self, job: LeasedJob, other_id: str) -> bool | None:
        if not is_id(other_id):  # anyone with write access to the object store may have written this id
            return None
        with _stale_claims():
            return self.store.jobs.is_rival(job.job_id, job.claim_version, other_id)

    def close(self) -> None:
        self._listener.close()


def leased(job: ClaimedJob) -> LeasedJob:
    """Return the job in the form that a worker uses."""
    return LeasedJob(
        job_id=job.job_id,
        attempt_id=job.attempt_id,
        worker_id=job.worker_id,
        claim_version=job.claim_version,
        lease_ms=job.lease_ms,
        attempt_count=job.attempt_count,
        max_attempts=job.max_attempts,
        queue=job.queue,
        spec=job.spec,
        handle=job,
    )


def _claim(job: LeasedJob) -> ClaimedJob:
    return cast(ClaimedJob, job.handle)


def _key(job: LeasedJob) -> AttemptKey:
    return AttemptKey(job.job_id, job.attempt_id, job.claim_version)


@contextmanager
def _stale_claims() -> Iterator[None]:
    try:
        yield
    except Conflict as error:
        raise StaleClaim(str(error)) from error
