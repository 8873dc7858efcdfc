"""The dispatcher's lease keeper: one heartbeat for all claimed events, each until it is settled."""

import threading
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import structlog

from euterpe.store.queue.outbox import ClaimedEvent, Outbox

_log = structlog.get_logger(__name__)


@dataclass
class HeldEvent:
    event: ClaimedEvent
    ends: float  # the end of the lease, in `time.monotonic`


class EventLeaseKeeper:
    """A thread that extends the leases of the events that were claimed through it. Thread-safe."""

    def __init__(self, outbox: Outbox, *, lease_ms: int, heartbeat_ms: int) -> None:
        self._outbox, self._lease_ms, self._heartbeat_s = outbox, lease_ms, heartbeat_ms / 1000
        self._guard = threading.Lock()
        # An event that was lost and claimed again is held under its latest claim.
        self._held: dict[str, HeldEvent] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="euterpe-dispatch-heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def claim(self, worker_id: str, limit: int, *, skipped: Collection[str] = ()) -> list[ClaimedEvent]:
        asked = time.monotonic()
        events = self._outbox.claim(worker_id, limit, lease_ms=self._lease_ms, skipped=skipped)
        with self._guard:
            self._held.update((event.event_id, HeldEvent(event, self._end(asked))) for event in events)
        return events

    def forget(self, events: Iterable[ClaimedEvent]) -> None:
        with self._guard:
            for event in events:
                if self._hold(event):
                    del self._held[event.event_id]

    def holds_for(self, event: ClaimedEvent, seconds: float) -> bool:
        """Return whether the lease certainly lasts for this time, even if no heartbeat succeeds."""
        with self._guard:
            hold = self._hold(event)
            return hold is not None and time.monotonic() + seconds <= hold.ends

    def beat(self) -> None:
        with self._guard:
            events = [hold.event for hold in self._held.values()]
        if not events:
            return
        asked = time.monotonic()
        kept = self._outbox.heartbeat(events, lease_ms=self._lease_ms)
        with self._guard:
            for event in events:
                if hold := self._hold(event):
                    hold.ends = self._end(asked) if event.event_id in kept else asked

    def _hold(self, event: ClaimedEvent) -> HeldEvent | None:
        hold = self._held.get(event.event_id)
        return hold if hold and hold.event.claim_version == event.claim_version else None

    def _end(self, asked: float) -> float:
        """Return the end of a lease on our clock, from before the request: the database counts from later."""
        return asked + self._lease_ms / 1000

    def _loop(self) -> None:
        while not self._stopping.wait(self._heartbeat_s):
            try:
                self.beat()
            except Exception as error:  # noqa: BLE001  the next heartbeat may succeed
                _log.warning("heartbeat_failed", error=str(error))
