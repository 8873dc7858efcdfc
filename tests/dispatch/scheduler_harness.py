"""A send scheduler for tests. A test sets the scheduler's clock, and decides when each send ends."""

from euterpe.dispatch.destination import Outcome, Send
from euterpe.dispatch.scheduler import Postponement, SendScheduler
from euterpe.store.queue.outbox import ClaimedEvent

DEADLINE_S = 10.0  # the deadline of a delivery


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def event(sequence: int, *, to: str = "a", job: str | None = None, requester: str = "r1") -> ClaimedEvent:
    return ClaimedEvent(
        event_id=f"{to}-{job}-{sequence}",
        job_id=job or f"{to}{sequence}",
        requester_id=requester,
        sequence=sequence,
        type="job.claimed",
        body="{}",
        url=f"https://{to}.example/hook?id={sequence}",
        claim_version=1,
        attempt_count=1,
        worker_id="d1",
    )


def events(count: int, *, to: str = "a", first: int = 1) -> list[ClaimedEvent]:
    """Return events of different jobs."""
    return [event(number, to=to) for number in range(first, first + count)]


class SchedulerHarness:
    """A scheduler (`inner`) with its clock, and helpers that start and end its sends."""

    def __init__(self, concurrency: int = 5, batch: int = 10, **limits: int) -> None:
        self.clock = Clock()
        self.inner = SendScheduler(concurrency, batch, self.clock, **limits)

    def add(self, *added: ClaimedEvent) -> None:
        self.inner.add(added)

    def start_all(self) -> list[Send]:
        sends = []
        while send := self.inner.start_next():
            sends.append(send)
        return sends

    def finish(self, sends: list[Send], outcome: Outcome = Outcome.ANSWER, *, after_s: float = 0.0) -> None:
        self.clock.now += after_s
        for send in sends:
            self.inner.finish(send, outcome)

    def note_outcome(self, to: str, outcome: Outcome = Outcome.ANSWER, *, after_s: float = 0.001) -> None:
        """Start and end a send to a destination that has no waiting events."""
        self.add(event(1_000_000, to=to))
        (send,) = self.start_all()
        self.finish([send], outcome, after_s=after_s)

    def hand_back(self) -> list[Postponement]:
        return self.inner.hand_back()


def ids(sends: list[Send]) -> list[str]:
    return [send.event.event_id for send in sends]
