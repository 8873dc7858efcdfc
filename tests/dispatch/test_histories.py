"""All the rules for what starts next at once, against random histories of several requesters."""

from collections import Counter

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from euterpe.dispatch.destination import PATIENCE_S, Flight, Heard, Standing
from euterpe.dispatch.places import most_under_way
from euterpe.store.outbox import ClaimedEvent
from tests.dispatch.tower import Tower, event


class Histories(RuleBasedStateMachine):
    """Anything may happen in any order; what must hold, holds after each step."""

    flying: list[Flight]
    waiting: dict[str, ClaimedEvent]

    @initialize(concurrency=st.integers(1, 4), batch=st.integers(1, 5))
    def open(self, concurrency: int, batch: int) -> None:
        self.concurrency, self.batch, self.tower = concurrency, batch, Tower(concurrency, batch)
        self.flying, self.waiting, self.sequences = [], {}, Counter[str]()
        self.last_heard: dict[tuple[str, str], Heard] = {}

    @rule(
        requester=st.sampled_from(["r1", "r1", "r2", "r3"]),
        to=st.sampled_from("abcdef"),
        job=st.sampled_from("jk"),
        count=st.integers(1, 6),
    )
    def claim(self, requester: str, to: str, job: str, count: int) -> None:
        for _ in range(count):
            job_id = requester + to + job
            self.sequences[job_id] += 1
            one = event(self.sequences[job_id], to=to, job=job_id, requester=requester)
            self.waiting[one.event_id] = one
            self.tower.add(one)

    @rule()
    def start(self) -> None:
        self.refuse()
        while flight := self.tower.destinations.start_next():
            self.check_share(flight)
            one = self.waiting.pop(flight.event.event_id)
            of_job = [other.sequence for other in self.waiting.values() if other.job_id == one.job_id]
            assert one.sequence < min(of_job, default=one.sequence + 1)
            self.flying.append(flight)
        self.check_bounds()
        self.check_nothing_waits_without_reason()

    @precondition(lambda self: self.flying)
    @rule(choice=st.integers(0, 99), heard=st.sampled_from(Heard), after=st.sampled_from([0.0, 0.01, 0.3]))
    def land(self, choice: int, heard: Heard, after: float) -> None:
        flight = self.flying.pop(choice % len(self.flying))
        self.tower.land([flight], heard, after_s=after)
        if heard is not Heard.NOTHING:
            self.last_heard[flight.destination.key] = heard

    @rule(seconds=st.sampled_from([0.1, 0.5, 1.0, 60.0]))
    def wait(self, seconds: float) -> None:
        self.tower.clock.now += seconds

    @rule()
    def hand_back(self) -> None:
        for back in self.tower.hand_back():
            assert 1_000 <= back.delay_ms <= 900_000
            for one in back.events:
                del self.waiting[one.event_id]

    @rule()
    def refuse(self) -> None:
        for refusal in self.tower.destinations.refuse():
            assert refusal.failures >= 3
            for one in refusal.events:
                assert self.standing(one) is Standing.SUSPECT
                del self.waiting[one.event_id]

    @invariant()
    def check_what_waits(self) -> None:
        change = self.tower.destinations.next_change()
        assert change is None or 0 < change <= PATIENCE_S
        in_hand = len(self.waiting)
        room = self.tower.destinations.room()
        assert room in (0, self.batch)
        assert room or in_hand > self.batch
        assert not room or in_hand <= 20 * self.batch
        owners = {one.requester_id for one in self.waiting.values()}
        assert self.tower.destinations.saturated() <= owners, "who has nothing in hand is always claimed for"

    def check_share(self, started: Flight) -> None:
        """A requester starts a send only while it holds fewer places than are free."""
        own = [f for f in self.flying if f.event.requester_id == started.event.requester_id]
        assert len(own) < most_under_way(self.concurrency) - len(self.flying)
        if self.standing(started.event) is not Standing.PROVEN:
            assert len(self.trials(own)) < 4 * self.concurrency - len(self.trials(self.flying))

    def check_bounds(self) -> None:
        assert len(self.flying) <= most_under_way(self.concurrency)
        assert sum(not flight.is_aside for flight in self.flying) <= self.concurrency
        jobs = Counter(flight.event.job_id for flight in self.flying)
        assert max(jobs.values(), default=0) <= 1

    def check_nothing_waits_without_reason(self) -> None:
        """Nothing more could start: each destination that has something to send is held by a rule."""
        now = self.tower.clock.now
        prompt = [flight for flight in self.flying if not flight.is_aside]
        for one in self.waiting.values():
            requester = [f for f in self.flying if f.event.requester_id == one.requester_id]
            own = [flight for flight in requester if self.key(flight.event) == self.key(one)]
            standing = self.standing(one)
            is_trial = standing is not Standing.PROVEN
            trials = len(self.trials(self.flying))
            reasons = [
                any(flight.event.job_id == one.job_id for flight in own),
                bool(own) and is_trial,
                any(flight.has_waited(now) for flight in own),
                len(requester) >= most_under_way(self.concurrency) - len(self.flying),
                is_trial and len(self.trials(requester)) >= 4 * self.concurrency - trials,
                standing is not Standing.SUSPECT and len(prompt) >= self.concurrency,
                standing is Standing.UNPROVEN and len(self.trials(prompt)) >= max(1, self.concurrency - 1),
            ]
            assert any(reasons), one

    def trials(self, flights: list[Flight]) -> list[Flight]:
        return [flight for flight in flights if self.standing(flight.event) is not Standing.PROVEN]

    def key(self, one: ClaimedEvent) -> tuple[str, str]:
        return one.requester_id, f"https://{one.url[8]}.example:443"

    def standing(self, one: ClaimedEvent) -> Standing:
        heard = self.last_heard.get(self.key(one))
        if heard is None:
            return Standing.UNPROVEN
        return Standing.SUSPECT if heard is Heard.SILENCE else Standing.PROVEN


TestHistories = Histories.TestCase
