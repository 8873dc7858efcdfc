"""Sixteen processes that write to one SQLite file at once never get a `database is locked` error."""

import pytest

from euterpe.store.store import Store
from tests.service.store.processes import child_tasks
from tests.service.store.processes.child_process import open_store
from tests.service.store.processes.invariants import check_integrity
from tests.service.store.processes.process_pool import ProcessPool, process_pool_on

WRITERS = 16

pytestmark = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)


def test_sixteen_writers_are_never_told_that_the_database_is_locked(url: str) -> None:
    with process_pool_on(url) as process_pool, open_store(url) as store:
        _write_from_all(process_pool, store, rounds=35, seconds=0)


@pytest.mark.soak
def test_sixteen_writers_get_no_lock_error_for_a_minute(url: str) -> None:
    with process_pool_on(url) as process_pool, open_store(url) as store:
        _write_from_all(process_pool, store, rounds=35, seconds=60)


def _write_from_all(process_pool: ProcessPool, store: Store, *, rounds: int, seconds: int) -> None:
    """Run at least `rounds` rounds of three short transactions in each process, for at least `seconds`."""
    writers = [process_pool.launch(f"writer {n}") for n in range(WRITERS)]
    for writer in writers:
        writer.start(child_tasks.write_repeatedly, rounds, seconds)
    done = [writer.result() for writer in writers]  # raises the error of any writer
    assert min(done) >= rounds
    assert len(store.jobs.page(limit=sum(done) + 1)) == sum(done)
    check_integrity(store)
