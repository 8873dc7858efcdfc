"""The writes of an attempt to the store: status changes, progress and outcome, all under the fence."""

from collections.abc import Mapping, Sequence
from typing import Any

import structlog

from euterpe.domain.retry import JobError, Requeue
from euterpe.domain.rows import AttemptRow
from euterpe.domain.states import JobStatus
from euterpe.store.errors import StoreUnavailable
from euterpe.store.queue.progress import ProgressReport
from euterpe.store.queue.transition import Transition
from euterpe.store.store import Store
from euterpe.worker.attempt_control import AttemptControl, LeaseLost

_log = structlog.get_logger(__name__)
REPORT_EVERY_S = 1.0


class AttemptRecorder:
    """The recorder of one attempt. `phase` is the last job status that it wrote."""

    def __init__(
        self, store: Store, control: AttemptControl, *, report_every_s: float = REPORT_EVERY_S
    ) -> None:
        self._report_every_s = report_every_s
        self._store, self._control, self._job = store, control, control.job
        self.phase = JobStatus.CLAIMED
        self._reported_at = float("-inf")
        self._reported = -1.0

    def advance(self, target: JobStatus, **extra: Any) -> None:
        """Write the next status. Raise `LeaseLost` when the claim is stale."""
        self._control.check()
        step = Transition.advance(self._job, self.phase, target, extra)
        if not self._control.retry_while_unavailable(
            lambda: self._store.inbox.submit_advance(step).result()
        ) and not self._is_at(target):
            raise LeaseLost("the job is not ours any more")
        self.phase = target

    def report(
        self,
        progress: float,
        *,
        eta_seconds: float | None = None,
        speed: float | None = None,
    ) -> None:
        """Write the progress, unless it has not moved since the last report, or that report is too recent.

        Write nothing while the database is unavailable.
        """
        now, percent = self._control.clock(), round(min(100.0, max(0.0, progress)), 2)
        if now < self._reported_at + self._report_every_s or percent <= self._reported:
            return
        self._reported_at, self._reported = now, percent
        report = ProgressReport(self._job, percent, eta_seconds, speed)
        try:
            held = self._store.progress.write([report])
        except StoreUnavailable as error:
            _log.warning("progress_not_written", error=str(error))
            return
        if not held:
            raise LeaseLost("the job is not ours any more")

    def prove_ownership(self) -> None:
        """Extend the lease, or raise `LeaseLost` if the claim is stale.

        The uploader calls this method before each object becomes visible.
        """
        self._control.check()
        beat = self._control.retry_while_unavailable(lambda: self._store.inbox.heartbeat([self._job]))
        if self._job.job_id not in beat.held:
            raise LeaseLost("the job is not ours any more")

    def fail(self, error: JobError, timings: Mapping[str, Any]) -> bool:
        """Record the failure. If the claim is stale, write only to the log.

        Return whether the job is queued again.
        """
        decision = self._control.retry_while_unavailable(
            lambda: self._store.inbox.fail(self._job, error, timings=timings)
        )
        _log.info(
            "attempt_failed",
            code=error.code,
            phase=error.phase,
            message=error.message,
            decision=type(decision).__name__ if decision else "stale",
        )
        return isinstance(decision, Requeue)

    def release(self, timings: Mapping[str, Any], delay_ms: int = 0, reason: JobError | None = None) -> None:
        """Release the job without a charge. It can be claimed again after `delay_ms`."""
        release = self._store.inbox.release
        held = self._control.retry_while_unavailable(
            lambda: release(self._job, delay_ms=delay_ms, reason=reason, timings=timings)
        )
        _log.info("job_released", held=held)

    def attempts(self) -> Sequence[AttemptRow]:
        """Return the job's attempts, oldest first. The current attempt is the last one."""
        return self._control.retry_while_unavailable(lambda: self._store.jobs.attempts(self._job.job_id))

    def _is_at(self, target: JobStatus) -> bool:
        """Return whether an earlier try of the write was committed.

        If the connection was lost during COMMIT, only the row in the database shows this.
        """
        row = self._control.retry_while_unavailable(lambda: self._store.jobs.get(self._job.job_id))
        return bool(row.claim_version == self._job.claim_version and row.status == target)
