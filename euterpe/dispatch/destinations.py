"""Which delivery starts next, so that a slow or dead destination does not hold up the others.

A destination is one requester's webhooks to one origin: a requester can only slow down itself. Until it has
answered, and again once it has not, it gets one delivery at a time. A delivery that has waited for long steps
aside, where it is in nobody's way. What cannot be sent soon is handed back to the outbox, so that claims get
to what is behind it.

Decisions only: the time comes from the clock that is given, and threads take turns outside.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from urllib.parse import urlsplit

from euterpe.store.outbox import ClaimedEvent

# An answer that takes longer is the receiver's doing, and not the network's.
PATIENCE_S = 0.5
# One that has never answered here: five dead ones of fifty held up the first deliveries of the others for
# a quarter of a second each time that they took the seats for trials.
TRIAL_PATIENCE_S = 0.1
# As many again may wait aside, for each delivery that may be under way.
_ASIDE = 4
# Batches in hand, before what cannot be sent soon is handed back at once.
_IN_HAND = 20
# What is handed back comes again in a second at the earliest, and so far apart that to claim a queue again
# and again that stands still costs little; but within a quarter of an hour, as after the longest backoff.
_SPACING_S = 1.0
_LONGEST_WAIT_S = 900.0
_REMEMBERED = 10_000


class Standing(Enum):
    UNPROVEN = auto()
    PROVEN = auto()  # its last delivery was answered
    SUSPECT = auto()  # its last one was not


class Heard(Enum):
    """What a delivery tells of its destination."""

    ANSWER = auto()
    SILENCE = auto()
    NOTHING = auto()  # it was not asked


def most_under_way(concurrency: int) -> int:
    """With those that wait aside."""
    return concurrency + _ASIDE * concurrency


@dataclass(frozen=True)
class Waiting:
    event: ClaimedEvent
    since: float

    def has_waited(self, now: float) -> bool:
        return now - self.since >= PATIENCE_S


@dataclass(eq=False)
class Destination:
    key: tuple[str, str]
    standing: Standing = Standing.UNPROVEN
    pace_s: float = 0.0  # how long an answer takes
    next_turn: float = 0.0  # when what is handed back next is to come again
    waiting: list[Waiting] = field(default_factory=list)
    flights: list["Flight"] = field(default_factory=list)

    def is_plugged(self, now: float) -> bool:
        return any(flight.has_waited(now) for flight in self.flights)

    def next_event(self) -> ClaimedEvent | None:
        """The first whose job has none under way: a job's events go one after the other, in their order."""
        busy = {flight.event.job_id for flight in self.flights}
        free = next((entry.event for entry in self.waiting if entry.event.job_id not in busy), None)
        if free is None:
            return None
        of_its_job = (entry.event for entry in self.waiting if entry.event.job_id == free.job_id)
        return min(of_its_job, key=lambda event: event.sequence)


@dataclass(eq=False)
class Flight:
    """A delivery under way."""

    event: ClaimedEvent
    destination: Destination
    started: float
    patience_s: float
    is_aside: bool

    def has_waited(self, now: float) -> bool:
        return now - self.started >= self.patience_s


@dataclass(frozen=True)
class HandBack:
    events: list[ClaimedEvent]
    delay_ms: int


class Destinations:
    def __init__(self, concurrency: int, batch: int, clock: Callable[[], float]) -> None:
        self._concurrency, self._batch, self._clock = concurrency, batch, clock
        # One is kept for those that answer, however many others there are to try.
        self._on_trial = max(1, concurrency - 1)
        self._known: dict[tuple[str, str], Destination] = {}
        self._active: dict[tuple[str, str], Destination] = {}  # something waits; whose turn it is comes first
        self._flights: list[Flight] = []

    def add(self, events: Iterable[ClaimedEvent]) -> None:
        now = self._clock()
        for event in events:
            destination = self._destination(event)
            destination.waiting.append(Waiting(event, now))
            self._active.setdefault(destination.key, destination)

    def room(self) -> int:
        """How many to claim now: whole batches, so that one is there when the one before has gone out. What
        cannot be sent soon takes no room from the others."""
        now = self._clock()
        ready = sum(min(len(d.waiting), self._sendable(d, now)) for d in self._active.values())
        return self._batch if ready <= self._batch and not self._is_crowded() else 0

    def start_next(self) -> Flight | None:
        now = self._clock()
        self._step_aside(now)
        for destination in self._active.values():
            if self._may_start(destination, now) and (event := destination.next_event()):
                return self._start(destination, event, now)
        return None

    def land(self, flight: Flight, heard: Heard) -> None:
        destination, took = flight.destination, self._clock() - flight.started
        self._flights.remove(flight)
        destination.flights.remove(flight)
        if heard is Heard.NOTHING:
            return
        if heard is Heard.SILENCE:
            destination.pace_s, destination.standing = took, Standing.SUSPECT
        elif destination.standing is Standing.PROVEN:
            destination.pace_s = (destination.pace_s + took) / 2
        else:
            destination.pace_s, destination.standing, destination.next_turn = took, Standing.PROVEN, 0.0

    def hand_back(self) -> list[HandBack]:
        """Takes out what has waited for long, and cannot be sent soon."""
        now, is_crowded = self._clock(), self._is_crowded()
        surplus = ((d, d.waiting[self._sendable(d, now) :]) for d in list(self._active.values()))
        return [
            self._postpone(destination, entries, now)
            for destination, entries in surplus
            if entries and (is_crowded or entries[0].has_waited(now))
        ]

    def clear(self) -> list[ClaimedEvent]:
        """Takes out everything that waits."""
        waiting = [entry.event for d in self._active.values() for entry in d.waiting]
        for destination in self._active.values():
            destination.waiting = []
        self._active = {}
        return waiting

    def next_change(self) -> float | None:
        """After how many seconds something may start, or is to be handed back, because of the time alone."""
        if not self._active:
            return None
        now = self._clock()
        moments = [flight.started + flight.patience_s for flight in self._flights]
        moments += [
            e.since + PATIENCE_S for destination in self._active.values() for e in destination.waiting
        ]
        return min((left for moment in moments if (left := moment - now) > 0), default=None)

    def _destination(self, event: ClaimedEvent) -> Destination:
        key = (event.requester_id, _origin(event.url))
        destination = self._known.pop(key, None) or Destination(key)
        self._known[key] = destination  # at the end: used last
        if len(self._known) > _REMEMBERED:
            idle = (old for old, d in self._known.items() if not d.waiting and not d.flights and old != key)
            del self._known[next(idle)]
        return destination

    def _step_aside(self, now: float) -> None:
        room = self._room_aside()
        late = [flight for flight in self._flights if not flight.is_aside and flight.has_waited(now)]
        for flight in late[:room]:
            flight.is_aside = True

    def _room_aside(self) -> int:
        return _ASIDE * self._concurrency - sum(flight.is_aside for flight in self._flights)

    def _may_start(self, destination: Destination, now: float) -> bool:
        if len(destination.flights) >= self._bound(destination, now):
            return False
        if destination.standing is Standing.SUSPECT:
            return self._room_aside() > 0
        under_way = [flight for flight in self._flights if not flight.is_aside]
        if len(under_way) >= self._concurrency:
            return False
        trials = sum(flight.destination.standing is not Standing.PROVEN for flight in under_way)
        return destination.standing is Standing.PROVEN or trials < self._on_trial

    def _bound(self, destination: Destination, now: float) -> int:
        is_trusted = destination.standing is Standing.PROVEN and not destination.is_plugged(now)
        return self._concurrency if is_trusted else 1

    def _start(self, destination: Destination, event: ClaimedEvent, now: float) -> Flight:
        # It is likely to be silent again: it waits aside from the start.
        is_aside = destination.standing is Standing.SUSPECT
        patience_s = TRIAL_PATIENCE_S if destination.standing is Standing.UNPROVEN else PATIENCE_S
        flight = Flight(event, destination, now, patience_s, is_aside)
        destination.flights.append(flight)
        self._flights.append(flight)
        destination.waiting = [entry for entry in destination.waiting if entry.event is not event]
        del self._active[destination.key]
        if destination.waiting:
            self._active[destination.key] = destination  # behind the others
        return flight

    def _is_crowded(self) -> bool:
        return sum(len(d.waiting) for d in self._active.values()) > _IN_HAND * self._batch

    def _sendable(self, destination: Destination, now: float) -> int:
        """How many can be counted on to go out within `PATIENCE_S`."""
        if destination.standing is not Standing.PROVEN or destination.is_plugged(now):
            return 0
        in_time = PATIENCE_S * self._concurrency
        everything = len(destination.waiting)
        return everything if destination.pace_s * everything <= in_time else int(in_time / destination.pace_s)

    def _postpone(self, destination: Destination, entries: list[Waiting], now: float) -> HandBack:
        destination.waiting = destination.waiting[: -len(entries)]
        if not destination.waiting:
            del self._active[destination.key]
        again = min(max(now + _SPACING_S, destination.next_turn), now + _LONGEST_WAIT_S)
        destination.next_turn = again + self._spacing_s(destination, now) * len(entries)
        return HandBack([entry.event for entry in entries], int((again - now) * 1000))

    def _spacing_s(self, destination: Destination, now: float) -> float:
        if destination.standing is not Standing.PROVEN:
            return _SPACING_S
        waited = max((now - flight.started for flight in destination.flights), default=0.0)
        return min(max(destination.pace_s, waited) / self._concurrency, _SPACING_S)


def _origin(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return url  # no delivery will get anywhere with it
    return f"{parts.scheme}://{parts.netloc}".lower()
