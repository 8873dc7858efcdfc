"""The dispatcher's lease keeper: one heartbeat extends the leases of all events that are not settled yet."""

import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import structlog

from euterpe.runtime.lease_keeper import LeaseKeeper
from euterpe.store.queue.outbox import ClaimedEvent, Outbox

_log = structlog.get_logger(__name__)


@dataclass(eq=False)
class HeldEvent:
    event: ClaimedEvent
    ends: float  # the end of the lease, in `time.monotonic`


class EventLeaseKeeper:
    """A thread that extends the leases of the events that were claimed through it. Thread-safe."""

    def __init__(self, outbox: Outbox, *, lease_ms: int, heartbeat_ms: int) -> None:
        self._outbox, self._lease_ms, self._interval_s = outbox, lease_ms, heartbeat_ms / 1000
        self._keeper = LeaseKeeper[HeldEvent](
            "euterpe-dispatch-heartbeat",
            self._heartbeat,
            interval_s=self._interval_s,
            on_error=self._log_failure,
        )

    def start(self) -> None:
        self._keeper.start()

    def stop(self) -> None:
        self._keeper.stop()

    def beat(self) -> None:
        self._keeper.beat()

    def claim(self, worker_id: str, limit: int, *, skipped: Collection[str] = ()) -> list[ClaimedEvent]:
        asked = time.monotonic()
        events = self._outbox.claim(worker_id, limit, lease_ms=self._lease_ms, skipped=skipped)
        for event in events:
            self._keeper.add(event.event_id, HeldEvent(event, self._end(asked)))
        return events

    def forget(self, events: Iterable[ClaimedEvent]) -> None:
        for event in events:
            if held := self._held(event):
                self._keeper.remove(event.event_id, held)

    def holds_for(self, event: ClaimedEvent, seconds: float) -> bool:
        """Return whether the lease lasts for `seconds` more, even if no heartbeat succeeds."""
        held = self._held(event)
        return held is not None and time.monotonic() + seconds <= held.ends

    def _held(self, event: ClaimedEvent) -> HeldEvent | None:
        """Return the held claim of an event, or None if it was lost, also to a later claim of ours."""
        held = self._keeper.get(event.event_id)
        return held if held and held.event.claim_version == event.claim_version else None

    def _heartbeat(self, held: Sequence[HeldEvent]) -> None:
        asked = time.monotonic()
        kept = self._outbox.heartbeat([one.event for one in held], lease_ms=self._lease_ms)
        for one in held:
            one.ends = self._end(asked) if one.event.event_id in kept else asked

    def _end(self, asked: float) -> float:
        """Return the lease's end, counted from before the request: never later than in the database."""
        return asked + self._lease_ms / 1000

    def _log_failure(self, error: Exception) -> float:
        _log.warning("heartbeat_failed", error=str(error))
        return self._interval_s
