"""Combine the calls of concurrent callers: calls of the same kind and time share a transaction."""

from collections.abc import Sequence

from euterpe.store.engine.combined_writes import CombinedWrites
from euterpe.store.queue_jobs.caller_clock import CallerClock
from euterpe.store.queue_jobs.claims import Reservations, Reserved
from euterpe.store.queue_jobs.publishing import NewQueueJob, Publishing
from euterpe.store.queue_jobs.reports import QueueAttemptEnd, Reports
from euterpe.store.queue_jobs.rows import QueueJobRows


class CombinedCalls:
    """Publish, reserve and end queue jobs. `now_ms` is the time of the call; 0 means the store's clock.

    Calls of different kinds never share a transaction, because a transaction that changes groups for two
    kinds would break the lock order of `groups.py`.
    """

    def __init__(self, rows: QueueJobRows, reports: Reports, clock: CallerClock) -> None:
        self._publishing, self._reservations, self._reports = Publishing(rows), Reservations(rows), reports
        self._clock = clock
        self._publishes = CombinedWrites(self._publish, share=lambda call: call[1])
        self._reserves = CombinedWrites(self._reserve, share=lambda call: call)
        self._ends = CombinedWrites(self._end, share=lambda call: call[1])

    def publish(self, job: NewQueueJob, now_ms: int) -> bool:
        job.check()
        return self._publishes.write((job, now_ms))

    def reserve(self, queue: str, now_ms: int) -> Reserved:
        return self._reserves.write((queue, now_ms))

    def end(self, end: QueueAttemptEnd, now_ms: int) -> int | None:
        end.lease.check()
        return self._ends.write((end, now_ms))

    def _publish(self, calls: Sequence[tuple[NewQueueJob, int]]) -> Sequence[bool]:
        with self._clock.at(calls[0][1]):
            return self._publishing.publish([job for job, _ in calls])

    def _reserve(self, calls: Sequence[tuple[str, int]]) -> Sequence[Reserved]:
        queue, now_ms = calls[0]
        with self._clock.at(now_ms):
            return self._reservations.reserve(queue, len(calls))

    def _end(self, calls: Sequence[tuple[QueueAttemptEnd, int]]) -> Sequence[int | Exception | None]:
        with self._clock.at(calls[0][1]):
            return self._reports.end([end for end, _ in calls])
