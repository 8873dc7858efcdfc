"""The writes of an attempt to its control plane: status changes, progress and outcome, under the fence."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog

from euterpe.domain.leased_job import End, ProgressFigures, Unavailable
from euterpe.domain.retry import JobError
from euterpe.domain.states import JobStatus
from euterpe.worker.attempt_control import AttemptControl, LeaseLost
from euterpe.worker.control_plane import ControlPlane
from euterpe.worker.outage_log import OutageLog

_log = structlog.get_logger(__name__)
REPORT_EVERY_S = 1.0


class AttemptRecorder:
    """The recorder of one attempt. `phase` is the last job status that it wrote."""

    def __init__(
        self, plane: ControlPlane, control: AttemptControl, *, report_every_s: float = REPORT_EVERY_S
    ) -> None:
        self._report_every_s = report_every_s
        self._plane, self._control, self._job = plane, control, control.job
        self.phase = JobStatus.CLAIMED
        self._outages = OutageLog("progress_not_written")
        self._reported_at = float("-inf")
        self._reported = -1.0

    def advance(self, target: JobStatus, **extra: Any) -> None:
        """Write the next status. Raise `LeaseLost` when the claim is stale."""
        self._control.check()
        self._write(lambda: self._plane.advance(self._job, self.phase, target, extra))
        self.phase = target

    def succeed(self, outputs: Sequence[Mapping[str, Any]], timings: Mapping[str, Any]) -> None:
        """Record the success of the attempt. Raise `LeaseLost` when the claim is stale."""
        self._control.check()
        self._write(lambda: self._plane.succeed(self._job, outputs, timings))
        self.phase = JobStatus.SUCCEEDED

    def _write(self, write: Callable[[], bool]) -> None:
        if not self._control.retry_while_unavailable(write):
            raise LeaseLost("the job is not ours any more")

    def report(
        self,
        progress: float,
        *,
        eta_seconds: float | None = None,
        speed: float | None = None,
    ) -> None:
        """Write the progress if it has increased, and if the last report is old enough.

        Write nothing while the control plane is unavailable.
        """
        now, percent = self._control.clock(), round(min(100.0, max(0.0, progress)), 2)
        if now < self._reported_at + self._report_every_s or percent <= self._reported:
            return
        self._reported_at, self._reported = now, percent
        try:
            held = self._plane.report(self._job, ProgressFigures(percent, eta_seconds, speed))
        except Unavailable as error:
            self._outages.failed(error)
            return
        self._outages.ended()
        if not held:
            raise LeaseLost("the job is not ours any more")

    def prove_ownership(self, *, refers: bool) -> None:
        """Raise `LeaseLost` if the claim is stale. Return only when the claim is certainly valid.

        The uploader calls this method before each object becomes visible. `refers` is true if the object
        refers to other objects.
        """
        self._control.check()
        self._write(lambda: self._plane.prove(self._job, refers=refers))

    def fail(self, error: JobError, timings: Mapping[str, Any]) -> End:
        """Record the failure. If the claim is stale, write only to the log."""
        end = self._control.retry_while_unavailable(lambda: self._plane.fail(self._job, error, timings))
        _log.info(
            "attempt_failed",
            code=error.code,
            phase=error.phase,
            message=error.message,
            end=end.value,
        )
        return end

    def release(self, timings: Mapping[str, Any], reason: JobError | None = None) -> End:
        """Release the job without a charge, unless the job has used up its releases for this reason."""
        end = self._control.retry_while_unavailable(
            lambda: self._plane.release(self._job, reason=reason, timings=timings)
        )
        if reason is not None:
            _log.warning("attempt_not_charged", code=reason.code, message=reason.message, end=end.value)
        _log.info("job_released", held=end is not End.STALE)
        return end
