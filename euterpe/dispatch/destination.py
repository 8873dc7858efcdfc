"""Destinations: one requester's webhooks to one origin, with their queue, sends and circuit breaker."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from urllib.parse import urlsplit

from euterpe.store.queue.origins import KnownOrigin, OriginChange, OriginKey, OriginState
from euterpe.store.queue.outbox import ClaimedEvent

# If an answer takes longer than this, the cause is a slow receiver and not the network.
SLOW_AFTER_S = 0.5
# This limit replaces `SLOW_AFTER_S` for a receiver whose health is `UNPROVEN`. A send to such a receiver is a
# trial. This limit is shorter, because dead receivers occupy the slots for trials. With the longer limit, and
# five dead receivers of fifty, the first delivery to each of the other 45 receivers waited for 0.25 s.
TRIAL_SLOW_AFTER_S = 0.1
# The circuit breaker opens after this many failures in a row. Until the next test send (probe), the receiver
# gets only events on their last attempt. The probes are 5 s, 10 s, 20 s … 5 min apart.
OPEN_AFTER = 3
_FIRST_PROBE_S, _LONGEST_PROBE_S = 5.0, 300.0
# After this many error answers in a row the receiver counts as refusing. A success resets the count, so a
# receiver that refuses only a few of its events does not count as refusing.
_REFUSING_AFTER = 5
# After an outage of at least this length, waiting events are sent early. After a shorter outage, the waiting
# events are due soon anyway. Without this limit, a few events that always time out would be sent again after
# each success of other events.
_OUTAGE_S = 300.0
# For this time after an outcome, the stored state does not replace the state in memory, because the stored
# state can be older than the outcome. Normally an outcome is stored within milliseconds.
_UNWRITTEN_S = 2.0
_DEFAULT_PORTS = {"http": 80, "https": 443}


class Health(Enum):
    UNPROVEN = auto()
    PROVEN = auto()  # the last delivery was answered
    SUSPECT = auto()  # the last delivery was not answered


class Outcome(Enum):
    """The result of a delivery, which determines the health of the destination."""

    ANSWER = auto()
    REFUSAL = auto()  # the receiver answered with an error
    SILENCE = auto()
    NOTHING = auto()  # no request was sent


@dataclass(frozen=True)
class QueuedEvent:
    event: ClaimedEvent
    since: float

    def has_waited(self, now: float) -> bool:
        return now - self.since >= SLOW_AFTER_S


@dataclass(eq=False)
class Destination:
    """The waiting events, the sends under way and the health of one destination."""

    key: OriginKey
    health: Health = Health.UNPROVEN
    pace_s: float = 0.0  # moving average of the answer times
    next_turn: float = 0.0  # the time at which the next postponed event will be due again
    # The number of consecutive sends that were not answered.
    failures: int = 0
    refusals: int = 0  # the number of consecutive answers that were errors
    retry_at: float = 0.0  # the time at which an open circuit breaker allows the next probe
    failing_since: float = 0.0  # the time at which the current run of failures and refusals began
    recorded: OriginState | None = None  # the stored state that this process has last read or written
    last_outcome_at: float = float("-inf")
    waiting: list[QueuedEvent] = field(default_factory=list)
    sends: list["Send"] = field(default_factory=list)

    def waits_for_slow_send(self, now: float) -> bool:
        return any(send.has_waited(now) for send in self.sends)

    def is_open(self, now: float) -> bool:
        """Return whether the circuit breaker forbids a send now."""
        return self.failures >= OPEN_AFTER and now < self.retry_at

    def next_event(self) -> ClaimedEvent | None:
        """Return the next event to send, or None if each waiting job has a send under way.

        Choose the first waiting job that has no send under way, and return its event with the lowest
        sequence.
        """
        busy = {send.event.job_id for send in self.sends}
        free = next((entry.event for entry in self.waiting if entry.event.job_id not in busy), None)
        if free is None:
            return None
        of_its_job = (entry.event for entry in self.waiting if entry.event.job_id == free.job_id)
        return min(of_its_job, key=lambda event: event.sequence)

    def remove(self, events: Iterable[ClaimedEvent]) -> None:
        gone = {id(event) for event in events}
        self.waiting = [entry for entry in self.waiting if id(entry.event) not in gone]

    def load_known(self, known: KnownOrigin | None, now: float) -> None:
        """Load the stored state, which other dispatchers and earlier runs have written.

        Keep the state in memory if the destination is proven, or if the stored state can be older than the
        last outcome.
        """
        if self.health is Health.PROVEN or now - self.last_outcome_at < _UNWRITTEN_S:
            return
        self.health, self.failures, self.refusals, self.recorded = Health.UNPROVEN, 0, 0, None
        if known is None or known.state is OriginState.RECOVERED:
            return
        self.failing_since, self.recorded = now - known.failing_for_ms / 1000, known.state
        if known.state is OriginState.DOWN:
            self.health, self.failures = Health.SUSPECT, known.failures
            self.retry_at = now + known.retry_in_ms / 1000
        else:
            self.refusals = known.failures

    def note_outcome(self, outcome: Outcome, took_s: float, now: float) -> OriginChange | None:
        """Record the outcome of a delivery. If the receiver's stored state must change, return the change."""
        if outcome is Outcome.NOTHING:
            return None
        self.last_outcome_at = now
        if outcome is not Outcome.ANSWER and not self.failures and not self.refusals:
            self.failing_since = now
        if outcome is Outcome.SILENCE:
            return self._failed(took_s, now)
        if self.health is Health.PROVEN:
            self.pace_s = (self.pace_s + took_s) / 2
        else:
            self.pace_s, self.health, self.next_turn = took_s, Health.PROVEN, 0.0
        return self._succeeded(now) if outcome is Outcome.ANSWER else self._refused(now)

    def _failed(self, took_s: float, now: float) -> OriginChange:
        self.pace_s, self.health = took_s, Health.SUSPECT
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
class Send:
    """The HTTP request of a delivery, while it is under way."""

    event: ClaimedEvent
    destination: Destination
    started: float
    slow_after_s: float
    is_detached: bool

    def has_waited(self, now: float) -> bool:
        return now - self.started >= self.slow_after_s


def probe_wait_s(failures: int) -> float:
    """Return the seconds until the next send to a receiver that failed `failures` times in a row."""
    if failures < OPEN_AFTER:
        return 0.0
    return float(min(_LONGEST_PROBE_S, _FIRST_PROBE_S * 2 ** min(failures - OPEN_AFTER, 10)))


def origin_key_of(event: ClaimedEvent) -> OriginKey:
    return event.requester_id, origin_of(event.url)


def origin_of(url: str) -> str:
    """Return scheme, host and port. Leave out path, query, user and password, because they may be secret."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or _DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        return "unreadable:"  # every delivery to this URL fails
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}"


class RequesterQueue:
    """The destinations of one requester, at most `most_known`, in the order in which they are served."""

    def __init__(self, requester_id: str, *, most_known: int) -> None:
        self._requester_id, self._most_known = requester_id, most_known
        self._known: dict[str, Destination] = {}  # destinations in the order of their last use
        # The sequence number of this requester's last send. All requesters share one sequence.
        self.last_start = 0
        self.active: dict[str, Destination] = {}  # destinations with waiting events, in the order of service

    def destination(self, event: ClaimedEvent) -> Destination:
        """Return the destination of an event.

        If too many destinations are known, forget the idle destination that was used longest ago.
        """
        origin = origin_of(event.url)
        found = self._known.pop(origin, None) or Destination((self._requester_id, origin))
        self._known[origin] = found
        if len(self._known) > self._most_known:
            idle = (old for old, d in self._known.items() if not d.waiting and not d.sends and d is not found)
            self._known.pop(next(idle, ""), None)
        return found

    def known(self, origin: str) -> Destination | None:
        return self._known.get(origin)

    def is_idle(self) -> bool:
        return not self.active and not any(d.sends for d in self._known.values())

    def __len__(self) -> int:
        """Return the number of known destinations."""
        return len(self._known)

    def activate(self, destination: Destination) -> None:
        self.active.setdefault(destination.key[1], destination)

    def take_turn(self, destination: Destination) -> None:
        """Move a destination behind the other destinations, or make it inactive if no event waits for it."""
        del self.active[destination.key[1]]
        if destination.waiting:
            self.active[destination.key[1]] = destination

    def settle(self, destination: Destination) -> None:
        """Make a destination inactive if no event waits for it."""
        if not destination.waiting:
            self.active.pop(destination.key[1], None)
