"""One requester's webhooks to one origin: what waits, what is under way, and what is known of the
receiver."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from urllib.parse import urlsplit

from euterpe.store.origins import KnownOrigin, OriginChange, OriginKey, OriginState
from euterpe.store.outbox import ClaimedEvent

# An answer that takes longer is the receiver's doing, and not the network's.
PATIENCE_S = 0.5
# One that has never answered here: five dead ones of fifty held up the first deliveries of the others for
# a quarter of a second each time that they took the places for trials.
TRIAL_PATIENCE_S = 0.1
# From so many failures in a row on, the circuit breaker is open: the receiver is not dialled before its next
# probe. The probes are 5 s, 10 s, 20 s … 5 min apart.
OPEN_AFTER = 3
_FIRST_PROBE_S, _LONGEST_PROBE_S = 5.0, 300.0
# So many errors in a row, and no success in between, are the receiver's state and not one event's fault.
_REFUSING_AFTER = 5
# Events that wait are sent early after an outage of this length. After a shorter one they come soon
# anyway, and a few events that always time out would be sent again after each success of the others.
_OUTAGE_S = 300.0
# The database may not have what was learned here so recently: it is written within milliseconds.
_UNWRITTEN_S = 2.0
_DEFAULT_PORTS = {"http": 80, "https": 443}


class Standing(Enum):
    UNPROVEN = auto()
    PROVEN = auto()  # its last delivery was answered
    SUSPECT = auto()  # its last one was not


class Heard(Enum):
    """Say what a delivery tells about its destination."""

    ANSWER = auto()
    REFUSAL = auto()  # it answered, with an error
    SILENCE = auto()
    NOTHING = auto()  # it was not asked


@dataclass(frozen=True)
class Waiting:
    event: ClaimedEvent
    since: float

    def has_waited(self, now: float) -> bool:
        return now - self.since >= PATIENCE_S


@dataclass(eq=False)
class Destination:
    key: OriginKey
    standing: Standing = Standing.UNPROVEN
    pace_s: float = 0.0  # how long an answer takes
    next_turn: float = 0.0  # when what is handed back next is to come again
    failures: int = 0  # sends in a row that were not answered
    refusals: int = 0  # answers in a row that were errors
    retry_at: float = 0.0  # when an open circuit lets the next probe through
    failing_since: float = 0.0  # when the first of these happened
    recorded: OriginState | None = None  # what the database says, as far as we know
    heard_at: float = float("-inf")
    waiting: list[Waiting] = field(default_factory=list)
    flights: list["Flight"] = field(default_factory=list)

    def is_plugged(self, now: float) -> bool:
        return any(flight.has_waited(now) for flight in self.flights)

    def is_open(self, now: float) -> bool:
        """Return whether the circuit breaker lets nothing through right now."""
        return self.failures >= OPEN_AFTER and now < self.retry_at

    def next_event(self) -> ClaimedEvent | None:
        """The first whose job has none under way: a job's events go one after the other, in their order."""
        busy = {flight.event.job_id for flight in self.flights}
        free = next((entry.event for entry in self.waiting if entry.event.job_id not in busy), None)
        if free is None:
            return None
        of_its_job = (entry.event for entry in self.waiting if entry.event.job_id == free.job_id)
        return min(of_its_job, key=lambda event: event.sequence)

    def remove(self, events: Iterable[ClaimedEvent]) -> None:
        gone = {id(event) for event in events}
        self.waiting = [entry for entry in self.waiting if id(entry.event) not in gone]

    def learn(self, known: KnownOrigin | None, now: float) -> None:
        """Take over what the database knows, which other dispatchers and earlier runs have written."""
        if self.standing is Standing.PROVEN or now - self.heard_at < _UNWRITTEN_S:
            return
        self.standing, self.failures, self.refusals, self.recorded = Standing.UNPROVEN, 0, 0, None
        if known is None or known.state is OriginState.RECOVERED:
            return
        self.failing_since, self.recorded = now - known.failing_for_ms / 1000, known.state
        if known.state is OriginState.DOWN:
            self.standing, self.failures = Standing.SUSPECT, known.failures
            self.retry_at = now + known.retry_in_ms / 1000
        else:
            self.refusals = known.failures

    def hear(self, heard: Heard, took_s: float, now: float) -> OriginChange | None:
        """Note how a delivery ended; return what is to be written down about the receiver."""
        if heard is Heard.NOTHING:
            return None
        self.heard_at = now
        if heard is not Heard.ANSWER and not self.failures and not self.refusals:
            self.failing_since = now
        if heard is Heard.SILENCE:
            return self._failed(took_s, now)
        if self.standing is Standing.PROVEN:
            self.pace_s = (self.pace_s + took_s) / 2
        else:
            self.pace_s, self.standing, self.next_turn = took_s, Standing.PROVEN, 0.0
        return self._succeeded(now) if heard is Heard.ANSWER else self._refused(now)

    def _failed(self, took_s: float, now: float) -> OriginChange:
        self.pace_s, self.standing = took_s, Standing.SUSPECT
        self.failures += 1
        wait_s = probe_wait_s(self.failures)
        self.retry_at, self.recorded = now + wait_s, OriginState.DOWN
        return self._change(OriginState.DOWN, self.failures, now, wait_s)

    def _refused(self, now: float) -> OriginChange | None:
        self.refusals += 1 + self.failures
        self.failures = 0
        is_new = self.refusals >= _REFUSING_AFTER and self.recorded is None
        if not is_new and self.recorded is not OriginState.DOWN:
            return None
        self.recorded = OriginState.REFUSING
        return self._change(OriginState.REFUSING, self.refusals, now)

    def _succeeded(self, now: float) -> OriginChange | None:
        is_outage = self.failures >= OPEN_AFTER or self.refusals >= _REFUSING_AFTER
        is_long = now - self.failing_since >= _OUTAGE_S
        was, self.recorded, self.failures, self.refusals = self.recorded, None, 0, 0
        if was is None:
            return None
        return self._change(OriginState.RECOVERED if is_outage and is_long else OriginState.HEALTHY, 0, now)

    def _change(self, state: OriginState, failures: int, now: float, retry_in_s: float = 0.0) -> OriginChange:
        failing_for_s = now - self.failing_since
        return OriginChange(self.key, state, failures, int(retry_in_s * 1000), int(failing_for_s * 1000))


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


def probe_wait_s(failures: int) -> float:
    """Return how long a receiver is left alone after this many failures in a row."""
    if failures < OPEN_AFTER:
        return 0.0
    return float(min(_LONGEST_PROBE_S, _FIRST_PROBE_S * 2 ** min(failures - OPEN_AFTER, 10)))


def key_of(event: ClaimedEvent) -> OriginKey:
    return event.requester_id, origin_of(event.url)


def origin_of(url: str) -> str:
    """Return scheme, host and port: neither a path nor a query, a user or a password, which may be secret."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or _DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        return "unreadable:"  # no delivery will get anywhere with it
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}"
