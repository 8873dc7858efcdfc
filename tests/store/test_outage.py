"""A database that goes away for a while: typed errors, nothing dies, and all goes on by itself afterwards."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from euterpe.domain.retry import Delivered, JobError
from euterpe.domain.spec import parse_spec
from euterpe.domain.states import JobStatus
from euterpe.store.errors import StoreUnavailable
from euterpe.store.inbox import Advance
from euterpe.store.outbox import Delivery
from euterpe.store.store import Store
from euterpe.store.wake import Topic
from tests.store import outages
from tests.store.jobs import SPEC, enqueue
from tests.store.outages import Fragile
from tests.store.processes.books import check_integrity
from tests.store.processes.child import open_store

Call = Callable[[], Any]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Fragile]]:
    """Servers of this module's own: the others are not to notice."""
    started: dict[str, Fragile] = {}
    yield started
    for database in started.values():
        database.stop()


@pytest.fixture
def database(engine: str, running: dict[str, Fragile], tmp_path_factory: pytest.TempPathFactory) -> Fragile:
    if engine not in running:
        running[engine] = outages.start(engine, tmp_path_factory.mktemp(f"fragile-{engine}"))
    return running[engine]


@pytest.fixture
def store(database: Fragile) -> Iterator[Store]:
    with open_store(database.url) as opened:
        yield opened


def _calls(store: Store) -> dict[str, Call]:
    """Every kind of call, each of which would do something now."""
    enqueue(store, 2)
    job, other = store.inbox.claim("w1", 2)
    (event,) = store.outbox.claim("d1", 1)
    error = JobError("test", "on purpose", "claimed")
    return {
        "claim": lambda: store.inbox.claim("w1", 1),
        "tidy": store.inbox.tidy,
        "heartbeat": lambda: store.inbox.heartbeat([job, other]),
        "advance": lambda: store.inbox.advance([Advance(job, JobStatus.CLAIMED, JobStatus.FETCHING)]),
        "fail": lambda: store.inbox.fail(other, error),
        "release": lambda: store.inbox.release(other),
        "enqueue": lambda: enqueue(store),
        "submit": lambda: store.submit(parse_spec(SPEC), "r1", idempotency_key="k").result(),
        "claim events": lambda: store.outbox.claim("d1", 1),
        "keep events": lambda: store.outbox.heartbeat([event]),
        "settle events": lambda: store.outbox.settle([Delivery(event, Delivered(), 200)]),
        "release events": lambda: store.outbox.release([event]),
        "replay events": lambda: store.outbox.replay_dead_letters("r1"),
        "get": lambda: store.jobs.get(job.job_id),
        "page": store.jobs.page,
        "events": lambda: store.jobs.events(job.job_id),
        "cancel": lambda: store.control.cancel(job.job_id),
        "pause": lambda: store.control.pause("nobody's"),
        "paused queues": store.control.paused_queues,
        "read the clock": lambda: _read_clock(store),
    }


def _read_clock(store: Store) -> int:
    with store.database.snapshot() as connection:
        return store.database.read_clock(connection)


def test_every_call_says_that_the_database_is_away_and_works_again_when_it_is_back(
    database: Fragile, store: Store
) -> None:
    calls = _calls(store)
    threads = {thread.name for thread in threading.enumerate()}
    database.vanish(store)
    for _ in range(2):  # the first finds its connection broken, the second finds no new one
        for name, call in calls.items():
            _assert_away(name, call)
    with pytest.raises(StoreUnavailable):
        open_store(database.url)
    database.come_back()
    for name, call in calls.items():
        call(), name
    assert threads <= {thread.name for thread in threading.enumerate()}, "a thread has died"
    check_integrity(store)


def _assert_away(name: str, call: Call) -> None:
    try:
        call()
    except StoreUnavailable as error:
        assert error.retryable
    else:
        raise AssertionError(f"{name} found the database that is away")


def test_a_listener_survives_and_wakes_again(database: Fragile, store: Store) -> None:
    listener, late = store.database.listen(Topic.INBOX), None
    database.vanish(store)
    try:
        listener.wait(0.01)
        late = store.database.listen(Topic.INBOX)
        late.wait(0.01)
    finally:
        database.come_back()
    for each in (listener, late):
        _wake(store, each, database.url)
        each.close()
