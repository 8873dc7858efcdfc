"""A Hypothesis state machine that compares a queue with its model, on every engine."""

from collections.abc import Callable

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

from euterpe.queue import NotActive, Paused, Queue, ReservedJob, TokenMismatch
from euterpe.store.engine.database import Database
from euterpe.store.tables import queue_jobs
from tests.clock import SettableClock
from tests.engines import empty
from tests.queue.conftest import NAME, Lease, lease
from tests.queue.model import BACKOFF_MS, TIMEOUT_MS, Model, ModelJob


class QueueMachine(RuleBasedStateMachine):
    url: str

    def __init__(self) -> None:
        super().__init__()
        empty(self.url)
        self.clock = SettableClock()
        self.queue = Queue(self.url, clock=self.clock)
        self.database = Database(self.url)
        self.model = Model()
        self.claims: list[ReservedJob] = []
        self.published = 0

    def teardown(self) -> None:
        self.queue.close()
        self.database.close()

    @rule(
        group=st.sampled_from([None, "g", "h"]),
        limit=st.integers(0, 2),
        delay=st.sampled_from([0, 0, 500, 20_000]),
        max_attempts=st.integers(1, 3),
        is_repeated=st.sampled_from([False, False, True]),
    )
    def publish(
        self, *, group: str | None, limit: int, delay: int, max_attempts: int, is_repeated: bool
    ) -> None:
        self.published += not (is_repeated and self.published)
        job_id, now = f"job {self.published}", self.clock.now_ms
        self.queue.publish(
            queue=NAME,
            payload={},
            job_id=job_id,
            timeout_ms=TIMEOUT_MS,
            max_attempts=max_attempts,
            backoff_ms=BACKOFF_MS,
            due_ms=now + delay,
            gid=group,
            group_limit=limit,
        )
        self.model.publish(
            ModelJob(job_id, group, max_attempts, now, self.published), now, now + delay, limit
        )

    @rule(ms=st.sampled_from([1, 400, BACKOFF_MS, TIMEOUT_MS, TIMEOUT_MS + 1, 100_000]))
    def time_passes(self, ms: int) -> None:
        self.clock.advance(ms)

    @rule(paused=st.sampled_from([False, False, True]))
    def pause(self, paused: bool) -> None:
        if paused:
            self.queue.pause(queue=NAME)
        else:
            assert self.queue.resume(queue=NAME) == self.model.is_paused
        self.model.is_paused = paused

    @rule()
    def promote(self) -> None:
        assert self.queue.promote_delayed(queue=NAME) == self.model.promote(self.clock.now_ms)

    @rule()
    def reap(self) -> None:
        assert self.queue.reap_expired(queue=NAME) == self.model.reap(self.clock.now_ms)

    @rule()
    def reserve(self) -> None:
        found = self.queue.reserve(queue=NAME)
        if self.model.is_paused:
            assert isinstance(found, Paused)
            return
        expected = self.model.next()
        assert (found and found.status == "JOB" and found.job_id) == (expected and expected.job_id)
        if expected is not None:
            assert isinstance(found, ReservedJob)
            self.model.claim(expected, found.lease_token, self.clock.now_ms)
            assert (found.attempt, found.lock_until_ms) == (expected.attempts, expected.lease_ends)
            self.claims.append(found)

    @precondition(lambda self: any(job.lane == "leased" for job in self.model.jobs.values()))
    @rule()
    def consumers_stall_and_others_take_over(self) -> None:
        """Run these rules in this order, which random choices would seldom produce."""
        self.time_passes(TIMEOUT_MS + 1)
        self.reap()
        self.time_passes(100_000)
        self.promote()
        self.reserve()

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def heartbeat(self, data: st.DataObject) -> None:
        def beat(held: Lease, job: ModelJob) -> None:
            job.lease_ends = self.clock.now_ms + TIMEOUT_MS
            assert self.queue.heartbeat(**held) == job.lease_ends

        self._report(data.draw(st.sampled_from(self.claims)), beat, self.queue.heartbeat)

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def ack_success(self, data: st.DataObject) -> None:
        def ack(held: Lease, job: ModelJob) -> None:
            self.queue.ack_success(**held)
            self.model.finish(job, "succeeded")

        self._report(data.draw(st.sampled_from(self.claims)), ack, self.queue.ack_success)

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def ack_fail(self, data: st.DataObject) -> None:
        def ack(held: Lease, job: ModelJob) -> None:
            answer = self.queue.ack_fail(**held)
            self.model.fail(job, self.clock.now_ms)
            expected = ("FAILED", None) if job.status == "failed" else ("RETRY", job.available_at)
            assert answer == expected

        self._report(data.draw(st.sampled_from(self.claims)), ack, self.queue.ack_fail)

    def _report(
        self, claim: ReservedJob, report: Callable[[Lease, ModelJob], None], refused: Callable[..., object]
    ) -> None:
        job = self.model.jobs[claim.job_id]
        if job.token == claim.lease_token:
            report(lease(claim), job)
            return
        with pytest.raises(NotActive if job.token is None else TokenMismatch):
            refused(**lease(claim))

    @invariant()
    def every_row_is_as_the_model_says(self) -> None:
        with self.database.snapshot() as connection:
            rows = {row.job_id: row for row in connection.execute(sa.select(queue_jobs))}
        assert rows.keys() == self.model.jobs.keys()
        for job_id, job in self.model.jobs.items():
            row = rows[job_id]
            assert (row.status, row.lane, row.attempt_count) == (job.status, job.lane, job.attempts)
            assert (row.worker_id, row.lease_expires_at) == (job.token, job.lease_ends)
            assert row.available_at == job.available_at
            assert (row.finished_at is not None) is (job.lane == "rest")


def run_machine(database_url: str, budget: settings) -> None:
    class Machine(QueueMachine):
        url = database_url

    run_state_machine_as_test(Machine, settings=budget)


def test_a_queue_behaves_as_its_model(url: str) -> None:
    run_machine(url, settings(max_examples=25, stateful_step_count=30, print_blob=True))


@pytest.mark.soak
def test_a_queue_behaves_as_its_model_for_long(url: str) -> None:
    run_machine(url, settings(max_examples=1_000, stateful_step_count=60, print_blob=True))
