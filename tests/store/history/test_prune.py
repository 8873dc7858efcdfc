"""Pruning removes finished jobs after their retention time.

Pruning also removes expired keys and idle groups.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from threading import get_ident
from typing import Any

import pytest
import sqlalchemy as sa

from euterpe.crypto.local_key_ring import LocalKeyRing
from euterpe.domain.retry import Delivered
from euterpe.domain.states import JobStatus
from euterpe.store.errors import DuplicateSource, NotFound, Pruned
from euterpe.store.queue.fairness.groups import Group, Groups
from euterpe.store.queue.outbox import Delivery
from euterpe.store.store import Store
from euterpe.store.tables import (
    idempotency_keys,
    inbox_jobs,
    job_attempts,
    job_deliveries,
    job_groups,
    job_outbox_events,
)
from tests.clock import SettableClock
from tests.store.jobs import SPEC, advance, claim_one, enqueue

DAY_MS = 24 * 3600 * 1000
QUIET = {**SPEC, "status_webhook_url": None}


def run_job(store: Store, **fields: Any) -> str:
    (job_id,) = enqueue(store, **fields)
    advance(store, claim_one(store), until=JobStatus.SUCCEEDED)
    return job_id


def prune(store: Store, older_than_ms: int = DAY_MS) -> int:
    return max((done.jobs for done in store.prune.run(older_than_ms)), default=0)


def count(store: Store, table: sa.Table) -> int:
    with store.database.snapshot() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())


def test_old_finished_jobs_leave_their_id_and_nothing_else(store: Store, clock: SettableClock) -> None:
    old = run_job(store)
    events = store.outbox.claim("d1", 10)
    store.outbox.settle([Delivery(event, Delivered(), 200) for event in events])
    clock.advance(DAY_MS + 1)
    young = run_job(store, spec=QUIET)
    assert prune(store) == 1
    with pytest.raises(Pruned):
        store.jobs.get(old, requester_id="r1")
    with pytest.raises(NotFound) as unknown:
        store.jobs.get(old, requester_id="r2")
    assert unknown.value.code == "not_found"  # another requester cannot find out that the job existed
    assert store.jobs.get(young).status == "succeeded"
    left = {t.name: count(store, t) for t in (inbox_jobs, job_attempts, job_outbox_events, job_deliveries)}
    assert left == {"inbox_jobs": 1, "job_attempts": 1, "job_outbox_events": 5, "job_deliveries": 0}


def test_a_pruned_job_keeps_its_source_ref(store: Store, clock: SettableClock) -> None:
    run_job(store, spec=QUIET, source_ref="bullmq:bull:videos:1")
    clock.advance(DAY_MS + 1)
    assert prune(store) == 1
    with pytest.raises(DuplicateSource, match="videos:1"):
        enqueue(store, source_ref="bullmq:bull:videos:1")
    assert count(store, inbox_jobs) == 0
    with pytest.raises(Pruned):
        store.jobs.of_source("bullmq:bull:videos:1")


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_a_source_ref_that_is_being_pruned_makes_no_second_job(store: Store, clock: SettableClock) -> None:
    """The insert waits until the prune has committed.

    Then the unique index no longer contains the deleted row.
    """
    run_job(store, spec=QUIET, source_ref="bullmq:bull:videos:1")
    clock.advance(DAY_MS + 1)
    again: list[Future[Any]] = []
    waiting = sa.text("SELECT count(*) FROM pg_locks WHERE NOT granted")

    def enqueue_again(connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("INSERT INTO pruned_jobs"):
            again.append(pool.submit(enqueue, store, source_ref="bullmq:bull:videos:1"))
            while not connection.execute(waiting).scalar_one():
                pass

    with ThreadPoolExecutor(1) as pool:
        sa.event.listen(store.database.engines.write, "after_cursor_execute", enqueue_again)
        assert prune(store) == 1
        with pytest.raises(DuplicateSource):
            again[0].result(60)
    assert count(store, inbox_jobs) == 0


def test_unfinished_jobs_and_undelivered_events_are_kept(store: Store, clock: SettableClock) -> None:
    (waiting,) = enqueue(store, priority=0)
    undelivered = run_job(store)
    clock.advance(DAY_MS + 1)
    assert prune(store) == 0
    assert [store.jobs.get(job).job_id for job in (waiting, undelivered)] == [waiting, undelivered]


def test_history_is_removed_in_batches(store: Store, clock: SettableClock) -> None:
    for _ in range(5):
        run_job(store, spec=QUIET)
    clock.advance(DAY_MS + 1)
    assert [done.jobs for done in store.prune.run(DAY_MS, batch=2)] == [2, 4, 5]


def test_expired_keys_and_idle_groups_go_too(store: Store, clock: SettableClock) -> None:
    run_job(store, spec=QUIET, group_id="idle")
    enqueue(store, group_id="busy")
    clock.advance(8 * DAY_MS)
    *_, done = store.prune.run(DAY_MS)
    assert (done.jobs, done.groups) == (1, 1)
    assert count(store, job_groups) == 1
    assert count(store, idempotency_keys) == 0
    job = claim_one(store)
    assert job.group_id == "busy"


def test_a_group_that_was_forgotten_begins_anew(store: Store) -> None:
    run_job(store, spec=QUIET, group_id="g")
    list(store.prune.run(DAY_MS))
    assert count(store, job_groups) == 0
    enqueue(store, 2, group_id="g", group_limit=2)
    first, second = claim_one(store), claim_one(store)
    assert first.group_id == second.group_id == "g"


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_jobs_replayed_during_a_prune_stay(
    store: Store, clock: SettableClock, url: str, ring: LocalKeyRing
) -> None:
    """This test needs Postgres, because the other engines allow no other writes during a prune."""
    kept, old = run_job(store), run_job(store)
    store.outbox.settle([Delivery(event, Delivered(), 200) for event in store.outbox.claim("d1", 10)])
    clock.advance(DAY_MS + 1)
    event_ids = [event.event_id for event in store.jobs.events(kept)][:1]

    pruning = get_ident()

    def replay(*_: Any) -> None:
        # Ignore the statements of the thread that sends NOTIFY.
        while event_ids and get_ident() == pruning:
            with Store(url, ring, clock=clock) as other:
                other.replay.one(event_ids.pop())

    sa.event.listen(store.database.engines.write, "after_cursor_execute", replay)
    assert prune(store) == 1
    assert [event.job_id for event in store.outbox.claim("d1", 10)] == [kept]
    with pytest.raises(Pruned):
        store.jobs.get(old, requester_id="r1")


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_a_group_that_is_being_joined_is_not_forgotten(store: Store, url: str, ring: LocalKeyRing) -> None:
    """If a prune deleted the group, two transactions that join the same two groups could deadlock."""
    run_job(store, spec=QUIET, group_id="g")
    forgotten: list[int] = []

    def forget(*_: Any) -> None:
        if not forgotten:
            with Store(url, ring) as other, other.database.transaction() as connection:
                forgotten.append(Groups(other.database).forget_idle(connection, 10))

    with store.database.transaction() as connection:
        sa.event.listen(store.database.engines.write, "after_cursor_execute", forget)
        Groups(store.database).register(connection, {Group("default", "r1", "g"): 1})
    assert forgotten == [0]
    assert count(store, job_groups) == 1
