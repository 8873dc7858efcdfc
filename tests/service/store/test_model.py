"""A Hypothesis state machine that compares the inbox with its model, on every engine."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import sqlalchemy as sa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from euterpe.crypto.local_key_ring import LocalKeyRing
from euterpe.domain.error_codes import ErrorCode, RetryClass
from euterpe.domain.retry import Backoff, JobError
from euterpe.domain.states import FINISHED, IN_PROGRESS, JobStatus, Lane
from euterpe.store.queue.enqueue import Accepted
from euterpe.store.queue.inbox import ClaimedJob
from euterpe.store.queue.transition import Transition
from euterpe.store.store import Store
from euterpe.store.tables import inbox_jobs, job_attempts, job_outbox_events
from tests.clock import SettableClock
from tests.engines import empty
from tests.store.attempts import fail_job, release_job
from tests.store.jobs import PATH, new_job
from tests.store.model import Model, ModelJob

LEASE_MS = 5_000
QUEUES = ("a", "b")
ERRORS = {kind: JobError(ErrorCode.ENCODE_FAILED, "message", "phase", kind) for kind in RetryClass}


@dataclass
class Held:
    """A claim, and the status of the job as its worker knows it."""

    job: ClaimedJob
    status: JobStatus = JobStatus.CLAIMED


class InboxMachine(RuleBasedStateMachine):
    open_store: Callable[[SettableClock], Store]

    def __init__(self) -> None:
        super().__init__()
        self.clock = SettableClock()
        self.store = type(self).open_store(self.clock)
        self.model = Model()
        self.held: list[Held] = []

    def teardown(self) -> None:
        self.store.close()

    # -- requesters, operators and time

    @rule(
        queue=st.sampled_from(QUEUES),
        group=st.sampled_from([None, None, "g", "h"]),
        limit=st.integers(1, 2),
        priority=st.sampled_from([0, 50, 100]),
        delay=st.sampled_from([0, 0, 500, 20_000]),
        max_attempts=st.integers(1, 3),
    )
    def enqueue(
        self, *, queue: str, group: str | None, limit: int, priority: int, delay: int, max_attempts: int
    ) -> None:
        now = self.clock.now_ms
        job = new_job(
            queue=queue,
            group_id=group,
            group_limit=limit,
            priority=priority,
            not_before=now + delay,
            max_attempts=max_attempts,
        )
        (answer,) = self.store.enqueue.many([job])
        assert isinstance(answer, Accepted)
        modelled = ModelJob(job.job_id, queue, group, priority, max_attempts, now, now + delay)
        self.model.enqueue(modelled, now, limit)

    @rule(ms=st.sampled_from([1, 400, LEASE_MS, LEASE_MS + 1, 1_000_000]))
    def time_passes(self, ms: int) -> None:
        self.clock.advance(ms)

    @rule(queue=st.sampled_from(QUEUES), paused=st.booleans())
    def pause(self, queue: str, paused: bool) -> None:
        if paused:
            self.store.control.pause(queue)
            self.model.paused.add(queue)
        else:
            self.store.control.resume(queue)
            self.model.paused.discard(queue)

    @precondition(lambda self: self.model.jobs)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from(list(self.model.jobs.values())))
        if job.status in FINISHED:
            return
        self.store.control.cancel(job.job_id)
        if job.status is JobStatus.QUEUED:
            self.model.cancel_queued(job)
        else:
            job.canceling = True

    @precondition(lambda self: any(j.status is JobStatus.FAILED for j in self.model.jobs.values()))
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        failed = [j for j in self.model.jobs.values() if j.status is JobStatus.FAILED]
        job = data.draw(st.sampled_from(failed))
        if job.attempts < job.max_attempts:
            self.store.control.retry(job.job_id)
            self.model.retry(job, self.clock.now_ms)

    # -- workers, with valid and with stale claims

    @rule(queues=st.permutations(QUEUES), limit=st.integers(1, 4))
    def claim(self, queues: list[str], limit: int) -> None:
        self.sweep()
        expected = [(job.queue, job.priority) for job in self.model.claimable(tuple(queues), limit)]
        claimed = self.store.inbox.claim("w1", limit, queues=queues, lease_ms=LEASE_MS)
        assert [(job.queue, job.priority) for job in claimed] == expected
        for job in claimed:
            self.model.claim(self.model.jobs[job.job_id], self.clock.now_ms + LEASE_MS)
            self.held.append(Held(job))

    @rule()
    def sweep(self) -> None:
        now = self.clock.now_ms
        self.model.promote(now)
        expired = self.model.expired(now)
        self.store.inbox.sweep()
        for job in expired:
            job.version += 1
            if job.canceling:
                self.model.fail(job)
            elif job.attempts >= job.max_attempts:
                self.model.fail(job, dead_letter=True)
            else:
                available_at = self.store.jobs.get(job.job_id).available_at
                full = Backoff().base_ms << (job.attempts - 1)
                assert now + full // 2 <= available_at <= now + full
                self.model.requeue(job, now, available_at)

    @precondition(lambda self: any(job.lane is Lane.LEASED for job in self.model.jobs.values()))
    @rule(limit=st.integers(1, 4))
    def workers_stall_and_others_take_over(self, limit: int) -> None:
        """Run several rules in an order that random choices would seldom produce."""
        self.time_passes(LEASE_MS + 1)
        self.sweep()
        self.time_passes(1_000_000)
        self.claim(list(QUEUES), limit)

    @rule()
    def heartbeat(self) -> None:
        beat = self.store.inbox.heartbeat([held.job for held in self.held], lease_ms=LEASE_MS)
        alive = [
            job
            for held in self.held
            if (job := self._owned(held))
            and job.lease_ends is not None
            and job.lease_ends >= self.clock.now_ms
        ]
        assert beat.held == {job.job_id for job in alive}, "one-owner"
        assert beat.cancel_requested == {job.job_id for job in alive if job.canceling}
        for job in alive:
            job.lease_ends = self.clock.now_ms + LEASE_MS

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def advance(self, data: st.DataObject) -> None:
        self._advance(data.draw(st.sampled_from(self.held)))

    @precondition(lambda self: self.held)
    @rule()
    def everybody_advances(self) -> None:
        """Advance all jobs, including jobs of workers whose claims became stale long ago."""
        for held in self.held:
            self._advance(held)

    def _advance(self, held: Held) -> None:
        if held.status is JobStatus.SUCCEEDED:
            return
        target = PATH[PATH.index(held.status) + 1]
        written = self.store.inbox.advance([Transition.advance(held.job, held.status, target)])
        job = self._owned(held)
        assert bool(written) is (job is not None), "fenced-writes"
        if job is not None:
            job.move(target)
            held.status = target
            job.lease_ends = self.clock.now_ms + LEASE_MS if target in IN_PROGRESS else None
            self.model.admit()

    @precondition(lambda self: self.held)
    @rule(data=st.data(), kind=st.sampled_from(RetryClass))
    def fail(self, data: st.DataObject, kind: RetryClass) -> None:
        held = data.draw(st.sampled_from(self.held))
        answer = fail_job(self.store, held.job, ERRORS[kind])
        job = self._owned(held)
        assert (answer is not None) is (job is not None), "fenced-writes"
        if job is None or answer is None:
            return
        spent = job.attempts >= job.max_attempts
        if job.canceling:
            assert answer.status is JobStatus.FAILED
            self.model.fail(job)
        elif spent or kind is RetryClass.UNRECOVERABLE:
            assert answer.status is JobStatus.DEAD_LETTER
            self.model.fail(job, dead_letter=True)
        elif kind is RetryClass.PERMANENT:
            assert answer.status is JobStatus.FAILED
            self.model.fail(job)
        else:
            assert answer.status is JobStatus.QUEUED
            assert answer.next_attempt_at is not None
            self.model.requeue(job, self.clock.now_ms, answer.next_attempt_at)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        held = data.draw(st.sampled_from(self.held))
        job = self._owned(held)
        assert release_job(self.store, held.job) is (job is not None), "fenced-writes"
        if job is None:
            return
        if job.canceling:
            self.model.fail(job)
        else:
            job.attempts -= 1
            self.model.requeue(job, self.clock.now_ms)

    def _owned(self, held: Held) -> ModelJob | None:
        job = self.model.jobs[held.job.job_id]
        owned = job.version == held.job.claim_version and job.status in IN_PROGRESS
        return job if owned else None

    # -- invariants after every step

    @invariant()
    def every_row_is_as_the_model_says(self) -> None:
        with self.store.database.snapshot() as connection:
            rows = {row.job_id: row for row in connection.execute(sa.select(inbox_jobs))}
        assert rows.keys() == self.model.jobs.keys(), "accepted-is-durable"
        for job_id, job in self.model.jobs.items():
            row = rows[job_id]
            assert (row.status, row.lane) == (job.status, job.lane), "valid-transitions"
            assert (row.claim_version, row.attempt_count) == (job.version, job.attempts), "budget"
            assert row.lease_expires_at == job.lease_ends, "no-lease-at-rest"
            assert (row.cancel_requested_at is not None) is job.canceling or job.status in FINISHED
            assert row.available_at == job.available_at
            assert row.event_sequence == len(job.events)

    @invariant()
    def every_transition_has_one_event_in_order(self) -> None:
        wanted = sa.select(job_outbox_events.c.job_id, job_outbox_events.c.type, job_outbox_events.c.sequence)
        events: dict[str, list[tuple[int, str]]] = {}
        with self.store.database.snapshot() as connection:
            for row in connection.execute(wanted):
                events.setdefault(row.job_id, []).append((row.sequence, row.type))
        for job_id, job in self.model.jobs.items():
            expected = [(number + 1, f"job.{status}") for number, status in enumerate(job.events)]
            assert sorted(events.get(job_id, [])) == expected, "event-per-transition"

    @invariant()
    def an_attempt_is_open_exactly_while_a_worker_owns_its_job(self) -> None:
        still_open = sa.select(job_attempts.c.job_id).where(job_attempts.c.ended_at.is_(None))
        with self.store.database.snapshot() as connection:
            rows = sorted(connection.execute(still_open).scalars())
        assert rows == sorted(j.job_id for j in self.model.jobs.values() if j.lane is Lane.LEASED)


def run_machine(url: str, ring: LocalKeyRing, budget: settings) -> None:
    def open_store(clock: SettableClock) -> Store:
        empty(url)
        return Store(url, ring, clock=clock, sweep_every_ms=0)

    class Machine(InboxMachine):
        pass

    Machine.open_store = staticmethod(open_store)
    run_state_machine_as_test(Machine, settings=budget)


def test_the_inbox_behaves_as_its_model(url: str, ring: LocalKeyRing) -> None:
    run_machine(url, ring, settings(max_examples=30, stateful_step_count=30, print_blob=True))


@pytest.mark.soak
def test_the_inbox_behaves_as_its_model_for_long(url: str, ring: LocalKeyRing) -> None:
    run_machine(url, ring, settings(max_examples=1_500, stateful_step_count=60, print_blob=True))
