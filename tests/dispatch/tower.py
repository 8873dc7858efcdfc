"""Destinations in the hands of a test: a clock that it moves, and flights that land when it says so."""

from euterpe.dispatch.destination import Flight, Heard
from euterpe.dispatch.destinations import Destinations, HandBack
from euterpe.store.outbox import ClaimedEvent

LONG_S = 10.0  # a delivery's deadline


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
    """Each of a job of its own."""
    return [event(number, to=to) for number in range(first, first + count)]


class Tower:
    """Destinations, their clock, and the flights that the test is in charge of."""

    def __init__(self, concurrency: int = 5, batch: int = 10, **limits: int) -> None:
        self.clock = Clock()
        self.destinations = Destinations(concurrency, batch, self.clock, **limits)

    def add(self, *added: ClaimedEvent) -> None:
        self.destinations.add(added)

    def start_all(self) -> list[Flight]:
        flights = []
        while flight := self.destinations.start_next():
            flights.append(flight)
        return flights

    def land(self, flights: list[Flight], heard: Heard = Heard.ANSWER, *, after_s: float = 0.0) -> None:
        self.clock.now += after_s
        for flight in flights:
            self.destinations.land(flight, heard)

    def hear(self, to: str, heard: Heard = Heard.ANSWER, *, after_s: float = 0.001) -> None:
        """One delivery to a destination that nothing waits for."""
        self.add(event(1_000_000, to=to))
        (flight,) = self.start_all()
        self.land([flight], heard, after_s=after_s)

    def hand_back(self) -> list[HandBack]:
        return self.destinations.hand_back()


def ids(flights: list[Flight]) -> list[str]:
    return [flight.event.event_id for flight in flights]
