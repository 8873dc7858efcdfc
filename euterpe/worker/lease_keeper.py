"""The worker's lease keeper: one heartbeat for all its jobs. It stops attempts of lost or canceled jobs."""

from collections.abc import Sequence

import structlog

from euterpe.domain.leased_job import Heartbeat, Unavailable
from euterpe.runtime.lease_keeper import LeaseKeeper
from euterpe.worker.attempt_control import AttemptControl, CancelRequested, LeaseLost, WorkerStopping
from euterpe.worker.control_plane import ControlPlane
from euterpe.worker.outage_log import OutageLog

_log = structlog.get_logger(__name__)


class JobLeaseKeeper(LeaseKeeper[AttemptControl]):
    """The lease keeper of a worker. The worker calls `start`, and calls `stop` after the last attempt.

    `interval_ms` is the time between heartbeats, unless the control plane asks for another.
    """

    def __init__(self, plane: ControlPlane, *, interval_ms: int) -> None:
        super().__init__("euterpe-lease-keeper", interval_s=interval_ms / 1000)
        self._plane = plane
        self._outages = OutageLog("heartbeat_failed")

    def keep(self, control: AttemptControl) -> None:
        self.add(control.job.job_id, control)
        self.interval_s = self._plane.heartbeat_interval_s or self.interval_s

    def drop(self, control: AttemptControl) -> None:
        """Stop extending this lease. A later claim of the same job by this worker is not affected."""
        self.remove(control.job.job_id, control)

    def stop_attempts(self) -> None:
        """Signal all attempts to stop and to release their jobs."""
        for control in self.held():
            control.end(WorkerStopping("the worker is stopping"))

    def send_heartbeat(self, claims: Sequence[AttemptControl]) -> None:
        """Send one heartbeat for all attempts, except those that hang.

        Signal an attempt to stop if its lease is lost or its job is canceled.
        """
        controls = [control for control in claims if not control.is_hung]
        beats = [Heartbeat(control.job, control.meter.changes()) for control in controls]
        answer = self._plane.heartbeat(beats)
        self._outages.ended()
        for control, beat in zip(controls, beats, strict=True):
            if beat.timings is not None:
                control.meter.note_written(beat.timings)
            if control.job.job_id not in answer.held:
                control.end(LeaseLost("the job is not ours any more"))
            elif control.job.job_id in answer.cancel_requested:
                control.end(CancelRequested("the job was canceled"))

    def pause_after(self, error: Exception) -> float:
        if isinstance(error, Unavailable):
            self._outages.failed(error)
        else:
            _log.error("heartbeat_unexpected_error", exc_info=error)
        # Send the next heartbeat soon after any error, because the failed heartbeat has not extended the
        # leases.
        return min(1.0, self.interval_s)
