"""The worker's lease keeper: one heartbeat for all its jobs. It stops attempts of lost or canceled jobs."""

from collections.abc import Sequence

import structlog

from euterpe.runtime.lease_keeper import LeaseKeeper
from euterpe.store.errors import StoreUnavailable
from euterpe.store.store import Store
from euterpe.worker.attempt_control import AttemptControl, CancelRequested, LeaseLost, WorkerStopping

_log = structlog.get_logger(__name__)


class JobLeaseKeeper(LeaseKeeper[AttemptControl]):
    """The lease keeper of a worker. The worker calls `start`, and calls `stop` after the last attempt."""

    def __init__(self, store: Store, *, interval_ms: int) -> None:
        super().__init__("euterpe-lease-keeper", interval_s=interval_ms / 1000)
        self._store = store

    def keep(self, control: AttemptControl) -> None:
        self.add(control.job.job_id, control)

    def drop(self, control: AttemptControl) -> None:
        """Stop extending this lease. If this worker has claimed the job again, keep the later claim."""
        self.remove(control.job.job_id, control)

    def stop_attempts(self) -> None:
        """Signal all attempts to stop and to release their jobs."""
        for control in self.held():
            control.end(WorkerStopping("the worker is stopping"))

    def send_heartbeat(self, claims: Sequence[AttemptControl]) -> None:
        """Send one heartbeat for all attempts that do not hang.

        Signal an attempt to stop if its lease is lost or its job is canceled.
        """
        controls = [control for control in claims if not control.is_hung]
        used = {
            control.job.job_id: changes
            for control in controls
            if (changes := control.meter.changes()) is not None
        }
        beat = self._store.inbox.heartbeat([control.job for control in controls], used=used)
        for control in controls:
            if (written := used.get(control.job.job_id)) is not None:
                control.meter.note_written(written)
            if control.job.job_id not in beat.held:
                control.end(LeaseLost("the job is not ours any more"))
            elif control.job.job_id in beat.cancel_requested:
                control.end(CancelRequested("the job was canceled"))

    def pause_after(self, error: Exception) -> float:
        if isinstance(error, StoreUnavailable):
            _log.warning("heartbeat_failed", error=str(error))
        else:
            _log.error("heartbeat_unexpected_error", exc_info=error)
        # Send the next heartbeat soon after any error, because the leases expire meanwhile.
        return min(1.0, self.interval_s)
