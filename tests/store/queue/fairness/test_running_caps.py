"""Changes of a requester's cap during an enqueue or a sweep."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import sqlalchemy as sa

from euterpe.store.queue.enqueue import NewJob
from euterpe.store.store import Store
from euterpe.store.tables import inbox_jobs, requesters
from tests.clock import SettableClock
from tests.store.jobs import enqueue, new_job, waits_for_a_lock


@pytest.fixture
def newsroom(store: Store) -> str:
    return store.requesters.create("newsroom").requester_id


@contextmanager
def enqueue_in_flight(store: Store, *jobs: NewJob) -> Iterator[None]:
    """Run the block while an enqueue has ranked its jobs and has not committed."""
    with store.database.transaction() as connection:
        store.inbox.shares.ranks(connection, jobs)
        yield


def claimed_from(store: Store) -> list[str]:
    return [job.requester_id for job in store.inbox.claim("w1", 100)]


def test_jobs_behind_a_cap_that_was_removed_are_let_through(store: Store, newsroom: str) -> None:
    """The removed cap simulates a `requester set` that crashed after the first of its two transactions."""
    store.requester_limits.set(newsroom, {"max_running": 1})
    enqueue(store, 5, requester_id=newsroom)
    with store.database.transaction() as connection:
        connection.execute(sa.update(requesters).values(max_running=None))
    assert claimed_from(store) == [newsroom] * 5


def test_jobs_of_many_capped_requesters_are_let_through_in_turn(store: Store) -> None:
    names = [store.requesters.create(f"r{number:03}").requester_id for number in range(60)]
    for name in names:
        store.requester_limits.set(name, {"max_running": 1})
        enqueue(store, 3, requester_id=name)
    assert sorted(claimed_from(store) + claimed_from(store)) == sorted(names)


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_a_new_cap_waits_for_an_enqueue_in_flight(store: Store, newsroom: str) -> None:
    """Without the wait, `requester set` would not see the batch, and the batch would keep its old ranks."""
    setting = threading.Thread(target=store.requester_limits.set, args=(newsroom, {"max_running": 1}))
    with enqueue_in_flight(store, new_job(requester_id=newsroom)):
        setting.start()
        while not waits_for_a_lock(store):
            assert setting.is_alive(), "`set` has not waited for the enqueue"
    setting.join()
    enqueue(store, 3, requester_id=newsroom)
    assert claimed_from(store) == [newsroom]


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
@pytest.mark.parametrize("fields", [{}, {"group_id": "g"}])
def test_a_sweep_does_not_wait_for_a_frozen_enqueue(
    store: Store, clock: SettableClock, newsroom: str, fields: dict[str, str]
) -> None:
    """If the sweep waited, it would lock the due jobs of all requesters, and all claims would wait too."""
    at = clock.now_ms + 1
    enqueue(store, 1, requester_id=newsroom, **fields)
    store.inbox.claim("w1", 1)
    (late,) = enqueue(store, 1, requester_id=newsroom, not_before=at, **fields)
    enqueue(store, 1, requester_id="other", not_before=at)
    clock.advance(2)
    with enqueue_in_flight(store, new_job(requester_id=newsroom, **fields)):
        assert claimed_from(store) == ["other"]
    assert claimed_from(store) == ([] if fields else [newsroom])
    with store.database.snapshot() as connection:
        lane = connection.execute(sa.select(inbox_jobs.c.lane).where(inbox_jobs.c.job_id == late)).scalar()
    assert lane == ("blocked" if fields else "leased")
