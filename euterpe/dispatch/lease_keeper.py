"""The dispatcher's lease keeper: one heartbeat extends the leases of all events that are not yet settled."""

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

import structlog

from euterpe.runtime.lease_keeper import LeaseKeeper
from euterpe.store.queue.outbox import ClaimedEvent, Outbox

_log = structlog.get_logger(__name__)


@dataclass(eq=False)
class HeldEvent:
    event: ClaimedEvent
    ends: float  # the end of the lease, by the keeper's clock


class EventLeaseKeeper(LeaseKeeper[HeldEvent]):
    """The events that a dispatcher claimed with `claim` and has not settled yet. Thread-safe."""

    def __init__(
        self, outbox: Outbox, *, lease_ms: int, heartbeat_ms: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__("euterpe-dispatch-heartbeat", interval_s=heartbeat_ms / 1000)
        self._outbox, self._lease_ms, self._clock = outbox, lease_ms, clock

    def claim(self, worker_id: str, limit: int, *, skipped: Collection[str] = ()) -> list[ClaimedEvent]:
        requested_at = self._clock()
        events = self._outbox.claim(worker_id, limit, lease_ms=self._lease_ms, skipped=skipped)
        for event in events:
            self.add(event.event_id, HeldEvent(event, self._end(requested_at)))
        return events

    def forget(self, events: Iterable[ClaimedEvent]) -> None:
        for event in events:
            if held := self._claim_of(event):
                self.remove(event.event_id, held)

    def holds_for(self, event: ClaimedEvent, seconds: float) -> bool:
        """Return whether the lease lasts for `seconds` more, even without another heartbeat."""
        held = self._claim_of(event)
        return held is not None and self._clock() + seconds <= held.ends

    def _claim_of(self, event: ClaimedEvent) -> HeldEvent | None:
        """Return the held claim of an event, or None if this claim was lost.

        The claim is also lost if this dispatcher has claimed the event again later.
        """
        held = self.get(event.event_id)
        return held if held and held.event.claim_version == event.claim_version else None

    def send_heartbeat(self, claims: Sequence[HeldEvent]) -> None:
        requested_at = self._clock()
        kept = self._outbox.heartbeat([held.event for held in claims], lease_ms=self._lease_ms)
        for held in claims:
            held.ends = self._end(requested_at) if held.event.event_id in kept else requested_at

    def _end(self, requested_at: float) -> float:
        """Return the end of a lease by our clock, counted from the request that set the lease.

        In the database the lease ends later, because the database receives the request later.
        """
        return requested_at + self._lease_ms / 1000

    def pause_after(self, error: Exception) -> float:
        _log.warning("heartbeat_failed", error=str(error))
        return self.interval_s
