"""Scheduler of webhook sends. A slow or dead destination does not delay sends to the other destinations.

Requesters are served round robin, and so are the destinations of a requester. A destination gets only one
send at a time until it answers for the first time. The same limit applies after an unanswered send, until the
destination answers again. Events that cannot be sent soon are postponed in the outbox. Events for a
destination with an open circuit breaker are refused without a send.

The scheduler does no I/O, and reads the time from `clock`. Its callers hold a lock.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from euterpe.dispatch.destination import (
    SLOW_AFTER_S,
    TRIAL_SLOW_AFTER_S,
    Destination,
    Health,
    Outcome,
    QueuedEvent,
    RequesterQueue,
    Send,
    origin_key_of,
)
from euterpe.dispatch.send_slots import SendCounts, SendSlots
from euterpe.store.queue.origins import KnownOrigin, OriginChange, OriginKey
from euterpe.store.queue.outbox import ClaimedEvent

# Limits on waiting events, in batches. If more than `_MAX_WAITING` batches wait, events that cannot be sent
# soon are postponed at once. Claims skip a requester that has `_MAX_WAITING_OF_ONE` batches of events that
# cannot be sent soon.
_MAX_WAITING, _MAX_WAITING_OF_ONE = 20, 4
# Postponed events are due again after 1 s to 15 min. The events of a stuck destination become due one after
# another, so that they are not all claimed again and again.
_SPACING_S = 1.0
_LONGEST_WAIT_S = 900.0


@dataclass(frozen=True)
class Postponement:
    """Events of one destination that are to be postponed in the outbox."""

    events: list[ClaimedEvent]
    delay_ms: int
    origin: str


@dataclass(frozen=True)
class Refusal:
    """Events that are not sent now because the circuit breaker of their receiver is open."""

    events: list[ClaimedEvent]
    failures: int


class SendScheduler:
    def __init__(
        self,
        concurrency: int,
        batch: int,
        clock: Callable[[], float],
        *,
        max_attempts: int = 12,
        most_known: int = 10_000,
        most_known_of_a_requester: int = 200,
    ) -> None:
        self._concurrency, self._batch, self._clock = concurrency, batch, clock
        self._max_attempts, self._most_known = max_attempts, most_known
        self._most_known_of_a_requester = most_known_of_a_requester
        self._slots = SendSlots(concurrency)
        self._requesters: dict[str, RequesterQueue] = {}  # requesters in the order of their last use
        self._active: dict[str, RequesterQueue] = {}  # requesters with waiting events
        self._sends: list[Send] = []
        self._starts = 0

    # -- input: claimed events

    def unproven_destinations(self, events: Iterable[ClaimedEvent]) -> set[OriginKey]:
        """Return the destinations that are not `PROVEN`. The caller must read their stored state."""
        keys = {origin_key_of(event) for event in events}
        return {key for key in keys if (d := self._known(key)) is None or d.health is not Health.PROVEN}

    def add(
        self,
        events: Iterable[ClaimedEvent],
        unproven: Iterable[OriginKey] = (),
        known: Mapping[OriginKey, KnownOrigin] | None = None,
    ) -> None:
        """Add claimed events. `known` is the stored state of the `unproven` destinations, if it was read."""
        now, not_loaded = self._clock(), set(unproven)
        for event in events:
            requester = self._requester(event.requester_id)
            destination = requester.destination(event)
            if destination.key in not_loaded and known is not None:
                destination.load_known(known.get(destination.key), now)
                not_loaded.discard(destination.key)
            destination.waiting.append(QueuedEvent(event, now))
            requester.activate(destination)
            self._active.setdefault(event.requester_id, requester)
        self._forget_some()

    def room(self) -> int:
        """Return how many events to claim now: a whole batch or 0.

        Return 0 if more than a batch of the waiting events can be sent soon, or if too many events wait.
        Events that cannot be sent soon do not count toward that batch, so that they do not stop the claims of
        other events.
        """
        now, load = self._clock(), SendCounts(self._sends)
        ready = sum(min(len(d.waiting), self._sendable(d, load, now)) for d in self._waiting_ones())
        return self._batch if ready <= self._batch and not self._is_crowded() else 0

    def saturated(self) -> frozenset[str]:
        """Return the requesters that claims must skip, because too many of their events cannot be sent soon.

        The limit for one requester is four batches of such events, or the free room if that is smaller. So
        the events of one requester cannot stop the claims of all other requesters.
        """
        now, load = self._clock(), SendCounts(self._sends)
        held = {
            requester_id: sum(
                len(d.waiting) - self._sendable(d, load, now) for d in requester.active.values()
            )
            for requester_id, requester in self._active.items()
        }
        free = max(0, _MAX_WAITING * self._batch - sum(held.values()))
        most = max(1, min(_MAX_WAITING_OF_ONE * self._batch, free))
        return frozenset(requester_id for requester_id, count in held.items() if count >= most)

    # -- output: sends, refusals and postponements

    def start_next(self) -> Send | None:
        """Start the next send and return it. Return None if no send may start."""
        now = self._clock()
        for send in self._sends:
            send.is_detached = send.is_detached or send.has_waited(now)
        load = SendCounts(self._sends)
        # The requester that was served longest ago comes first. In a plain queue of requesters, a requester
        # with few events would join at the end and wait for a send of every other requester.
        by_turn = sorted(self._active.items(), key=lambda item: item[1].last_start)
        for requester_id, requester in by_turn:
            if not self._slots.has_room_for(requester_id, load):
                continue
            for destination in requester.active.values():
                if not self._slots.may_start(destination, load, now):
                    continue
                event = destination.next_event()
                if event and not self._is_refused(destination, event, now):
                    return self._start(requester, destination, event, now)
        return None

    def finish(self, send: Send, outcome: Outcome) -> OriginChange | None:
        """Record the outcome of a send. If the receiver's stored state must change, return the change."""
        destination, now = send.destination, self._clock()
        self._sends.remove(send)
        destination.sends.remove(send)
        return destination.note_outcome(outcome, now - send.started, now)

    def refuse(self) -> list[Refusal]:
        """Remove and return the events for receivers whose circuit breaker is open.

        Keep the events on their last attempt: the circuit breaker never refuses the last attempt of an event.
        """
        now, refusals = self._clock(), []
        for destination in self._waiting_ones():
            waiting = (entry.event for entry in destination.waiting)
            if events := [event for event in waiting if self._is_refused(destination, event, now)]:
                self._take_out(destination, events)
                refusals.append(Refusal(events, destination.failures))
        return refusals

    def hand_back(self) -> list[Postponement]:
        """Remove and return events that cannot be sent soon, if they waited long or too many events wait."""
        now, load, is_crowded = self._clock(), SendCounts(self._sends), self._is_crowded()
        surplus = ((d, d.waiting[self._sendable(d, load, now) :]) for d in self._waiting_ones())
        return [
            self._postpone(destination, entries, now)
            for destination, entries in surplus
            if entries and (is_crowded or entries[0].has_waited(now))
        ]

    def clear(self) -> list[ClaimedEvent]:
        """Remove and return all waiting events."""
        waiting = []
        for destination in self._waiting_ones():
            events = [entry.event for entry in destination.waiting]
            self._take_out(destination, events)
            waiting += events
        return waiting

    def next_change(self) -> float | None:
        """Return the seconds until a send begins to count as slow, or until an event has waited too long.

        Return None if neither will happen.
        """
        if not self._active:
            return None
        now = self._clock()
        moments = [send.started + send.slow_after_s for send in self._sends]
        moments += [
            e.since + SLOW_AFTER_S for destination in self._waiting_ones() for e in destination.waiting
        ]
        return min((left for moment in moments if (left := moment - now) > 0), default=None)

    # -- helpers

    def _known(self, key: OriginKey) -> Destination | None:
        requester_id, origin = key
        requester = self._requesters.get(requester_id)
        return None if requester is None else requester.known(origin)

    def _requester(self, requester_id: str) -> RequesterQueue:
        found = self._requesters.pop(requester_id, None) or RequesterQueue(
            requester_id, most_known=self._most_known_of_a_requester
        )
        self._requesters[requester_id] = found
        return found

    def _forget_some(self) -> None:
        """Forget idle requesters, least recently used first, while too many destinations are known."""
        surplus = sum(map(len, self._requesters.values())) - self._most_known
        idle = iter([old for old, requester in self._requesters.items() if requester.is_idle()])
        while surplus > 0 and (oldest := next(idle, None)) is not None:
            surplus -= len(self._requesters.pop(oldest))

    def _waiting_ones(self) -> list[Destination]:
        return [
            destination for requester in self._active.values() for destination in requester.active.values()
        ]

    def _is_refused(self, destination: Destination, event: ClaimedEvent, now: float) -> bool:
        return destination.is_open(now) and event.attempt_count < self._max_attempts

    def _start(
        self, requester: RequesterQueue, destination: Destination, event: ClaimedEvent, now: float
    ) -> Send:
        is_suspect = destination.health is Health.SUSPECT
        slow_after_s = TRIAL_SLOW_AFTER_S if destination.health is Health.UNPROVEN else SLOW_AFTER_S
        send = Send(event, destination, now, slow_after_s, is_detached=is_suspect)
        destination.sends.append(send)
        self._sends.append(send)
        destination.remove([event])
        requester.take_turn(destination)
        self._starts += 1
        requester.last_start = self._starts
        if not requester.active:
            del self._active[destination.key[0]]
        return send

    def _take_out(self, destination: Destination, events: list[ClaimedEvent]) -> None:
        destination.remove(events)
        requester_id, _ = destination.key
        requester = self._requesters[requester_id]
        requester.settle(destination)
        if not requester.active:
            self._active.pop(requester_id, None)

    def _is_crowded(self) -> bool:
        return sum(len(d.waiting) for d in self._waiting_ones()) > _MAX_WAITING * self._batch

    def _sendable(self, destination: Destination, load: SendCounts, now: float) -> int:
        """Return how many waiting events will be sent within `SLOW_AFTER_S` at the receiver's current pace.

        Return 0 if the requester has no free slot. Then `room` does not count the requester's events, so that
        these events do not prevent further claims.
        """
        if destination.health is not Health.PROVEN or destination.waits_for_slow_send(now):
            return 0
        if not self._slots.has_room_for(destination.key[0], load):
            return 0
        in_time = SLOW_AFTER_S * self._concurrency
        everything = len(destination.waiting)
        return everything if destination.pace_s * everything <= in_time else int(in_time / destination.pace_s)

    def _postpone(self, destination: Destination, entries: list[QueuedEvent], now: float) -> Postponement:
        events = [entry.event for entry in entries]
        self._take_out(destination, events)
        again = min(max(now + _SPACING_S, destination.next_turn), now + _LONGEST_WAIT_S)
        destination.next_turn = again + self._spacing_s(destination, now) * len(events)
        return Postponement(events, int((again - now) * 1000), destination.key[1])

    def _spacing_s(self, destination: Destination, now: float) -> float:
        if destination.health is not Health.PROVEN:
            return _SPACING_S
        waited = max((now - send.started for send in destination.sends), default=0.0)
        return min(max(destination.pace_s, waited) / self._concurrency, _SPACING_S)
