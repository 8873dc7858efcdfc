"""Sixteen processes that write one SQLite file at once: none of them is ever told that it is locked."""

import pytest

from euterpe.store.store import Store
from tests.service.store.processes import acts
from tests.service.store.processes.books import check_integrity
from tests.service.store.processes.child import open_store
from tests.service.store.processes.fleet import Fleet, fleet_on

WRITERS = 16

pytestmark = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)


def test_sixteen_writers_are_never_told_that_the_database_is_locked(url: str) -> None:
    with fleet_on(url) as fleet, open_store(url) as store:
        _hammer(fleet, store, rounds=35, seconds=0)


@pytest.mark.soak
def test_sixteen_writers_are_never_told_so_for_a_minute(url: str) -> None:
    with fleet_on(url) as fleet, open_store(url) as store:
        _hammer(fleet, store, rounds=35, seconds=60)


def _hammer(fleet: Fleet, store: Store, *, rounds: int, seconds: int) -> None:
    """So many rounds of three short transactions by each, and on until the time is over."""
    writers = [fleet.launch(f"writer {n}") for n in range(WRITERS)]
    for writer in writers:
        writer.start(acts.hammer, rounds, seconds)
    done = [writer.result() for writer in writers]  # raises what any of them was told
    assert min(done) >= rounds
    assert len(store.jobs.page(limit=sum(done) + 1)) == sum(done)
    check_integrity(store)
