"""All the rules for what starts next at once, against random histories."""

from collections import Counter

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from euterpe.dispatch.destinations import PATIENCE_S, Flight, Heard, Standing
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
        self.last_heard: dict[str, Heard] = {}

    @rule(to=st.sampled_from("abcdef"), job=st.sampled_from("jk"), count=st.integers(1, 6))
    def claim(self, to: str, job: str, count: int) -> None:
        for _ in range(count):
            self.sequences[to + job] += 1
            one = event(self.sequences[to + job], to=to, job=to + job)
            self.waiting[one.event_id] = one
            self.tower.add(one)

    @rule()
    def start(self) -> None:
        flights = self.tower.start_all()
        for flight in flights:
            one = self.waiting.pop(flight.event.event_id)
            of_job = [other.sequence for other in self.waiting.values() if other.job_id == one.job_id]
            assert one.sequence < min(of_job, default=one.sequence + 1)
        self.flying += flights
        self.check_bounds()
        self.check_nothing_waits_without_reason()

    @precondition(lambda self: self.flying)
    @rule(choice=st.integers(0, 99), heard=st.sampled_from(Heard), after=st.sampled_from([0.0, 0.01, 0.3]))
    def land(self, choice: int, heard: Heard, after: float) -> None:
        flight = self.flying.pop(choice % len(self.flying))
        self.tower.land([flight], heard, after_s=after)
        if heard is not Heard.NOTHING:
            self.last_heard[flight.event.url[8]] = heard

    @rule(seconds=st.sampled_from([0.1, 0.5, 1.0, 60.0]))
    def wait(self, seconds: float) -> None:
        self.tower.clock.now += seconds

    @rule()
    def hand_back(self) -> None:
        for back in self.tower.hand_back():
            assert 1_000 <= back.delay_ms <= 900_000
            for one in back.events:
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

    def check_bounds(self) -> None:
        aside = sum(flight.is_aside for flight in self.flying)
        assert aside <= 4 * self.concurrency
        assert len(self.flying) - aside <= self.concurrency
        jobs = Counter(flight.event.job_id for flight in self.flying)
        assert max(jobs.values(), default=0) <= 1

    def check_nothing_waits_without_reason(self) -> None:
        """Nothing more could start: each destination that has something to send is held by a rule."""
        now = self.tower.clock.now
        main = [flight for flight in self.flying if not flight.is_aside]
        trials = [flight for flight in main if self.standing(flight.event) is not Standing.PROVEN]
        for one in self.waiting.values():
            own = [flight for flight in self.flying if flight.event.url[8] == one.url[8]]
            standing = self.standing(one)
            reasons = [
                any(flight.event.job_id == one.job_id for flight in own),
                bool(own) and standing is not Standing.PROVEN,
                any(flight.has_waited(now) for flight in own),
                standing is not Standing.SUSPECT and len(main) >= self.concurrency,
                standing is Standing.UNPROVEN and len(trials) >= max(1, self.concurrency - 1),
                standing is Standing.SUSPECT and len(self.flying) - len(main) >= 4 * self.concurrency,
            ]
            assert any(reasons), one

    def standing(self, one: ClaimedEvent) -> Standing:
        heard = self.last_heard.get(one.url[8])
        return {None: Standing.UNPROVEN, Heard.ANSWER: Standing.PROVEN}.get(heard, Standing.SUSPECT)


TestHistories = Histories.TestCase
