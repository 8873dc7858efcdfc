"""Model test: all rules of the send scheduler hold in random histories of several requesters."""

from collections import Counter

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from euterpe.dispatch.destination import SLOW_AFTER_S, Health, Outcome, Send
from euterpe.dispatch.send_slots import max_concurrent_sends
from euterpe.store.queue.outbox import ClaimedEvent
from tests.dispatch.scheduler_harness import SchedulerHarness, event


class Histories(RuleBasedStateMachine):
    """Random histories of claims, starts, ends, waits and postponements. Each step checks the invariants."""

    under_way: list[Send]
    waiting: dict[str, ClaimedEvent]

    @initialize(concurrency=st.integers(1, 4), batch=st.integers(1, 5))
    def open(self, concurrency: int, batch: int) -> None:
        self.concurrency, self.batch, self.scheduler = (
            concurrency,
            batch,
            SchedulerHarness(concurrency, batch),
        )
        self.under_way, self.waiting, self.sequences = [], {}, Counter[str]()
        self.last_outcome: dict[tuple[str, str], Outcome] = {}

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
            self.scheduler.add(one)

    @rule()
    def start(self) -> None:
        self.refuse()
        while send := self.scheduler.inner.start_next():
            self.check_share(send)
            one = self.waiting.pop(send.event.event_id)
            of_job = [other.sequence for other in self.waiting.values() if other.job_id == one.job_id]
            assert one.sequence < min(of_job, default=one.sequence + 1)
            self.under_way.append(send)
        self.check_bounds()
        self.check_nothing_waits_without_reason()

    @precondition(lambda self: self.under_way)
    @rule(
        choice=st.integers(0, 99), outcome=st.sampled_from(Outcome), after=st.sampled_from([0.0, 0.01, 0.3])
    )
    def finish(self, choice: int, outcome: Outcome, after: float) -> None:
        send = self.under_way.pop(choice % len(self.under_way))
        self.scheduler.finish([send], outcome, after_s=after)
        if outcome is not Outcome.NOTHING:
            self.last_outcome[send.destination.key] = outcome

    @rule(seconds=st.sampled_from([0.1, 0.5, 1.0, 60.0]))
    def wait(self, seconds: float) -> None:
        self.scheduler.clock.now += seconds

    @rule()
    def hand_back(self) -> None:
        for back in self.scheduler.hand_back():
            assert 1_000 <= back.delay_ms <= 900_000
            for one in back.events:
                del self.waiting[one.event_id]

    @rule()
    def refuse(self) -> None:
        for refusal in self.scheduler.inner.refuse():
            assert refusal.failures >= 3
            for one in refusal.events:
                assert self.health(one) is Health.SUSPECT
                del self.waiting[one.event_id]

    @invariant()
    def check_what_waits(self) -> None:
        change = self.scheduler.inner.next_change()
        assert change is None or 0 < change <= SLOW_AFTER_S
        waiting = len(self.waiting)
        room = self.scheduler.inner.room()
        assert room in (0, self.batch)
        assert room or waiting > self.batch
        assert not room or waiting <= 20 * self.batch
        owners = {one.requester_id for one in self.waiting.values()}
        assert self.scheduler.inner.saturated() <= owners, (
            "a requester without claimed events is never saturated"
        )

    def check_share(self, started: Send) -> None:
        """Assert that, before this send, its requester held fewer slots than the number of free slots."""
        own = [s for s in self.under_way if s.event.requester_id == started.event.requester_id]
        assert len(own) < max_concurrent_sends(self.concurrency) - len(self.under_way)
        if self.health(started.event) is not Health.PROVEN:
            assert len(self.trials(own)) < 4 * self.concurrency - len(self.trials(self.under_way))

    def check_bounds(self) -> None:
        assert len(self.under_way) <= max_concurrent_sends(self.concurrency)
        assert sum(not send.is_detached for send in self.under_way) <= self.concurrency
        jobs = Counter(send.event.job_id for send in self.under_way)
        assert max(jobs.values(), default=0) <= 1

    def check_nothing_waits_without_reason(self) -> None:
        """Assert for each waiting event that a rule forbids its send at this time."""
        now = self.scheduler.clock.now
        prompt = [send for send in self.under_way if not send.is_detached]
        for one in self.waiting.values():
            requester = [s for s in self.under_way if s.event.requester_id == one.requester_id]
            own = [send for send in requester if self.key(send.event) == self.key(one)]
            health = self.health(one)
            is_trial = health is not Health.PROVEN
            trials = len(self.trials(self.under_way))
            reasons = [
                any(send.event.job_id == one.job_id for send in own),
                bool(own) and is_trial,
                any(send.has_waited(now) for send in own),
                len(requester) >= max_concurrent_sends(self.concurrency) - len(self.under_way),
                is_trial and len(self.trials(requester)) >= 4 * self.concurrency - trials,
                health is not Health.SUSPECT and len(prompt) >= self.concurrency,
                health is Health.UNPROVEN and len(self.trials(prompt)) >= max(1, self.concurrency - 1),
            ]
            assert any(reasons), one

    def trials(self, sends: list[Send]) -> list[Send]:
        return [send for send in sends if self.health(send.event) is not Health.PROVEN]

    def key(self, one: ClaimedEvent) -> tuple[str, str]:
        return one.requester_id, f"https://{one.url[8]}.example:443"

    def health(self, one: ClaimedEvent) -> Health:
        outcome = self.last_outcome.get(self.key(one))
        if outcome is None:
            return Health.UNPROVEN
        return Health.SUSPECT if outcome is Outcome.SILENCE else Health.PROVEN


TestHistories = Histories.TestCase
