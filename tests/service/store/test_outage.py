"""Database outages: calls raise typed errors, no thread dies, and work resumes after the outage."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.retry import Backoff, Delivered, JobError
from euterpe.domain.spec import parse_spec
from euterpe.domain.states import JobStatus
from euterpe.store.engine.engines import EngineKind
from euterpe.store.engine.wakeup import Listener, Topic
from euterpe.store.errors import StoreError, StoreUnavailable
from euterpe.store.queue.outbox import Delivery
from euterpe.store.queue.transition import Transition
from euterpe.store.store import Store
from tests.engines import empty
from tests.service.store.processes import child_tasks
from tests.service.store.processes.child_process import open_store
from tests.service.store.processes.following import collect_until_finished
from tests.service.store.processes.invariants import (
    Ledger,
    check_integrity,
    check_lives,
    read_lives,
    unfinished,
)
from tests.service.store.processes.process_pool import Child, process_pool_on, receive_any
from tests.store import outages
from tests.store.attempts import fail_job, release_job
from tests.store.jobs import SPEC, enqueue, new_job
from tests.store.outages import Fragile

Call = Callable[[], Any]


@pytest.fixture(scope="module")
def running() -> Iterator[dict[str, Fragile]]:
    """Yield the servers that only this module uses, so that its outages affect no other test."""
    started: dict[str, Fragile] = {}
    yield started
    for database in started.values():
        database.stop()


@pytest.fixture
def database(engine: str, running: dict[str, Fragile], tmp_path_factory: pytest.TempPathFactory) -> Fragile:
    if engine not in running:
        running[engine] = outages.start(engine, tmp_path_factory.mktemp(f"fragile-{engine}"))
    empty(running[engine].url)
    return running[engine]


@pytest.fixture
def store(database: Fragile) -> Iterator[Store]:
    with open_store(database.url) as opened:
        yield opened


def test_every_call_says_that_the_database_is_away_and_works_when_it_is_back(
    database: Fragile, store: Store
) -> None:
    calls = _calls(store)
    threads = _euterpe_threads()
    with outages.away(database, store):
        for _ in range(2):  # in the first round, connections break; in the second round, none can be opened
            assert [name for name, call in calls.items() if not _reports_outage(call)] == []
        assert _reports_outage(lambda: open_store(database.url))
    for call in calls.values():
        call()
    assert threads <= _euterpe_threads(), "a thread has died"
    check_integrity(store)


def _euterpe_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("euterpe-")}


def _reports_outage(call: Call) -> bool:
    try:
        call()
    except StoreUnavailable as error:
        return error.retryable
    return False


def _calls(store: Store) -> dict[str, Call]:
    """Return one call of each kind, by name."""
    enqueue(store, 2)
    job, other = store.inbox.claim("w1", 2)
    (event,) = store.outbox.claim("d1", 1)
    step = Transition.advance(job, JobStatus.CLAIMED, JobStatus.FETCHING)
    error = JobError(ErrorCode.INTERNAL_ERROR, "on purpose", JobStatus.CLAIMED)
    return {
        "claim": lambda: store.inbox.claim("w1", 1),
        "sweep": store.inbox.sweep,
        "heartbeat": lambda: store.inbox.heartbeat([job, other]),
        "advance": lambda: store.inbox.advance([step]),
        "fail": lambda: fail_job(store, other, error),
        "release": lambda: release_job(store, other),
        "enqueue": lambda: store.enqueue.many([new_job()]),
        "submit": lambda: store.submit(parse_spec(SPEC), "r1", idempotency_key="k").result(),
        "claim events": lambda: store.outbox.claim("d1", 1),
        "sweep events": store.outbox.sweep,
        "keep events": lambda: store.outbox.heartbeat([event]),
        "settle events": lambda: store.outbox.settle([Delivery(event, Delivered(), 200)]),
        "release events": lambda: store.outbox.release([event]),
        "replay events": lambda: store.replay.dead_letters("r1"),
        "get": lambda: store.jobs.get(job.job_id),
        "page": store.jobs.page,
        "events": lambda: store.jobs.events(job.job_id),
        "cancel": lambda: store.control.cancel(job.job_id),
        "pause": lambda: store.control.pause("nobody"),
        "paused queues": store.control.paused_queues,
        "unfinished": lambda: unfinished(store),
    }


def test_a_listener_survives_an_outage_and_wakes_again(database: Fragile, store: Store) -> None:
    with ThreadPoolExecutor(1) as waiting, closing(store.database.listen(Topic.INBOX)) as early:
        waits = waiting.submit(early.wait, 60.0)
        with outages.away(database, store):
            early.wake()
            waits.result()
            late = store.database.listen(Topic.INBOX)
            late.wait(0.01)
        with closing(late):
            for listener in (early, late):
                _assert_wakes(listener, store)


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_a_server_that_stands_by_for_another_is_an_outage(database: Fragile, store: Store) -> None:
    """Calls, listeners and pools work again after the promotion of the server."""
    assert isinstance(database, outages.FragilePostgres)
    enqueue(store, 2)
    with ThreadPoolExecutor(1) as waiting, closing(store.database.listen(Topic.INBOX)) as early:
        waits = waiting.submit(early.wait, 60.0)
        with database.as_standby():
            early.wake()
            waits.result()
            assert not early.wait(0.01)
            late = store.database.listen(Topic.INBOX)
            assert not late.wait(0.01)
            bulk = [new_job() for _ in range(60)]
            for call in (lambda: store.inbox.claim("w1", 1), lambda: store.enqueue.many(bulk)):
                for _ in range(2):
                    assert _reports_outage(call)
            assert len(store.jobs.page()) == 2, "a standby can be read"
        with closing(late):
            for listener in (early, late):
                _assert_wakes(listener, store)
    assert len(store.inbox.claim("w1", 2)) == 2


def _assert_wakes(listener: Listener, store: Store) -> None:
    """Assert that the listener wakes. Send up to 100 hints, because a reconnect may lose some of them."""
    if store.database.kind is EngineKind.LIBSQL:
        assert not listener.wait(0.01)  # a libSQL server sends no hints
        return
    for _ in range(100):
        try:
            enqueue(store)
        except StoreUnavailable:
            continue  # the store has used a broken connection
        if listener.wait(0.3):
            return
    raise AssertionError("the listener does not wake any more")


@pytest.mark.parametrize("engine", ["libsql", "postgres"], indirect=True)
def test_workers_live_through_outages_and_finish_every_job(database: Fragile, store: Store) -> None:
    """Check the invariants `event-per-transition` and `no-lease-at-rest`.

    SQLite is left out, because an open file stays available.
    """
    plan = child_tasks.WorkPlan(seed=6, batch=5, lease_ms=500)
    ledger = Ledger()
    with process_pool_on(database.url) as process_pool:
        backoff = Backoff(base_ms=10, cap_ms=100)
        workers = [process_pool.launch(f"worker {n}", backoff=backoff) for n in range(4)]
        for worker in workers:
            worker.call_store("inbox.sweep")  # the call returns after the worker has opened its store
        for worker in workers:
            worker.start(child_tasks.work_through_outages, plan)
        for _ in range(2):
            _enqueue_after_outage(store, 300)
            _wait_for_writes(workers, ledger, count=200)
            with outages.away(database, store):
                _wait_for_outages(workers, ledger)
                assert _reports_outage(lambda: unfinished(store))
        collect_until_finished(workers, ledger, lambda: unfinished(store))
    lives = read_lives(store)
    check_lives(lives)
    ledger.check(lives, complete=False)
    assert {life.job.status for life in lives.values()} == {JobStatus.SUCCEEDED}


def _enqueue_after_outage(store: Store, count: int) -> None:
    try:
        enqueue(store, count, max_attempts=50)
    except StoreUnavailable:  # the store still used a broken connection
        _enqueue_after_outage(store, count)


def _wait_for_writes(workers: list[Child], ledger: Ledger, *, count: int) -> None:
    while count > 0:
        for worker, message in receive_any(workers):
            ledger.note(worker.name, message)
            count -= isinstance(message, child_tasks.Accepted)


def _wait_for_outages(workers: list[Child], ledger: Ledger) -> None:
    """Wait until each worker has reported an outage."""
    pending = {worker.name for worker in workers}
    while pending:
        for worker, message in receive_any(workers):
            ledger.note(worker.name, message)
            if isinstance(message, child_tasks.Outage):
                pending.discard(worker.name)


def test_an_accepted_job_survives_the_death_of_everything(database: Fragile) -> None:
    """accepted-is-durable: the test kills the server and the process that accepted the jobs by SIGKILL."""
    with process_pool_on(database.url) as process_pool:
        api = process_pool.launch("api")
        api.start(child_tasks.accept_until_killed, SPEC)
        accepted = [api.receive() for _ in range(200)]
        database.kill()
        accepted += [message for message in api.kill() if isinstance(message, str)]
    database.make_available()
    with open_store(database.url) as after:
        assert set(accepted) <= read_lives(after).keys()


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_full_disk_is_an_outage(store: Store) -> None:
    before = _set_page_limit(store, 1)  # SQLite raises the limit to the present size
    big = new_job(spec={**SPEC, "metadata": {"text": "x" * 1_000_000}})
    assert _reports_outage(lambda: store.enqueue.many([big]))
    assert _reports_outage(lambda: store.enqueue.many([big]))
    assert big.job_id not in read_lives(store)
    _set_page_limit(store, before)
    store.enqueue.many([big])
    assert big.job_id in read_lives(store)
    check_integrity(store)


def _set_page_limit(store: Store, pages: int) -> int:
    """Set the maximum number of pages of the database. Return the previous limit."""
    with store.database.transaction() as connection:
        was = connection.exec_driver_sql("PRAGMA max_page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
        return int(was)


def test_other_errors_are_no_outage(store: Store) -> None:
    with pytest.raises(StoreError) as raised, store.database.transaction() as connection:
        connection.execute(sa.text("SELECT nothing FROM nowhere"))
    assert not raised.value.retryable


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_a_database_that_does_not_exist_is_no_outage(database: Fragile) -> None:
    elsewhere = sa.make_url(database.url).set(database="nowhere").render_as_string(hide_password=False)
    with pytest.raises(StoreError) as raised:
        open_store(elsewhere)
    assert not raised.value.retryable


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_file_that_was_replaced_is_an_outage(
    database: Fragile, store: Store, tmp_path: Path, is_replaced: bool
) -> None:
    """accepted-is-durable: a deleted file is lost when the last process that has it open ends."""
    (kept,) = enqueue(store)
    path = Path(str(sa.make_url(database.url).database))
    path.rename(tmp_path / "moved.db")
    if is_replaced:
        path.write_bytes((tmp_path / "moved.db").read_bytes())
    for call in (lambda: enqueue(store), store.jobs.page, lambda: store.inbox.claim("w1", 1)):
        assert _reports_outage(call)
    (tmp_path / "moved.db").replace(path)
    assert [job.job_id for job in store.inbox.claim("w1", 2)] == [kept]
