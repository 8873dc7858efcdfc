"""The heartbeats of a remote worker: one call extends the leases of all its jobs and sends their progress."""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import replace
from typing import Any
from weakref import WeakSet

import structlog

from euterpe.client import worker_answers, worker_calls
from euterpe.client.requests import ApiRequest, ApiResponse
from euterpe.client.worker_calls import Beat
from euterpe.domain.errors import EuterpeError
from euterpe.domain.leased_job import ProgressFigures, Unavailable
from euterpe.worker.remote.held_lease import HeldLease
from euterpe.worker.remote.server_connection import ServerConnection, parsed, success

_log = structlog.get_logger(__name__)
Timings = Mapping[str, Any] | None


class BeatSender:
    """Send heartbeats, and apply the answers to the leases. Thread-safe.

    A `Beat` is the entry of one lease in a heartbeat. An early heartbeat is sent before the next regular
    heartbeat, to report progress.
    """

    def __init__(self, connection: ServerConnection, worker_id: str, *, clock: Callable[[], float]) -> None:
        self._connection, self._worker_id, self._clock = connection, worker_id, clock
        self._lock = threading.Lock()
        self._reporting: WeakSet[HeldLease] = WeakSet()  # the leases whose progress may be sent early
        self._early = threading.Lock()  # locked from the start of an early heartbeat until its answer

    def add(self, lease: HeldLease) -> None:
        """Allow early heartbeats with the progress of this lease."""
        with self._lock:
            self._reporting.add(lease)

    def drop(self, lease: HeldLease) -> None:
        """Send no more progress of an attempt that is about to end."""
        with self._lock:
            self._reporting.discard(lease)

    def send(self, leases: Sequence[tuple[HeldLease, Timings]], *, is_urgent: bool = False) -> None:
        """Send one heartbeat for all leases that are not lost. Raise `Unavailable` if no answer comes.

        A heartbeat is urgent if an attempt waits for its answer.
        """
        living = [(lease, timings) for lease, timings in leases if not lease.is_lost]
        if not living:
            return
        sent_at = self._clock()
        held = [lease for lease, _ in living]
        beats = [lease.beat(timings, sent_at) for lease, timings in living]
        try:
            call = self._call(held, beats, is_urgent=is_urgent)
            self._take(self._connection.send(call), held, beats, sent_at)
        except Unavailable:
            self._report_expiries(held)
            raise

    def note_progress(self, lease: HeldLease, progress: ProgressFigures) -> None:
        """Keep the progress for the next heartbeat. Send an early heartbeat if the progress is due."""
        lease.note_progress(progress)
        if lease.is_progress_due(self._clock()) and self._early.acquire(blocking=False):
            self._send_early()

    def _send_early(self) -> None:
        """Send an early heartbeat, and do not wait for the answer. Release `_early` at the end."""
        sent_at = self._clock()
        with self._lock:
            leases = [lease for lease in self._reporting if lease.is_progress_due(sent_at)]
        if not leases:
            self._early.release()
            return
        beats = [lease.beat(None, sent_at) for lease in leases]

        def take(future: "Future[ApiResponse]") -> None:
            try:
                self._take(success(future.result()), leases, beats, sent_at)
            except (EuterpeError, CancelledError) as error:
                _log.debug("progress_not_sent", error=str(error))
            finally:
                self._early.release()

        self._connection.start(self._call(leases, beats)).add_done_callback(take)

    def _call(
        self, leases: Sequence[HeldLease], beats: Sequence[Beat], *, is_urgent: bool = False
    ) -> ApiRequest:
        call = worker_calls.heartbeat(self._worker_id, beats, is_urgent=is_urgent)
        # Limit the time of a try, so that a second try still fits into the shortest lease.
        shortest_s = min(lease.ttl_s for lease in leases)
        return replace(call, timeout_s=min(call.timeout_s, shortest_s / 3))

    def _take(
        self, answer: ApiResponse, leases: Sequence[HeldLease], beats: Sequence[Beat], sent_at: float
    ) -> None:
        answers = parsed(answer, lambda known: worker_answers.beaten(known, beats))
        received_at = self._clock()
        for lease, known in zip(leases, answers, strict=True):
            lease.take(known, sent_at=sent_at, received_at=received_at)

    def _report_expiries(self, leases: Sequence[HeldLease]) -> None:
        for held in leases:
            if held.has_run_out(self._clock()):
                _log.warning("lease_ran_out", job_id=held.lease.job_id)
