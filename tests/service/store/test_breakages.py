"""Mutation tests: the store is broken on purpose, and existing tests must fail.

For each breakage, an existing test is called unchanged and must fail.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import Phase, settings

from euterpe.crypto.local_key_ring import LocalKeyRing
from euterpe.domain.errors import InvalidTransition
from euterpe.store.engine.database import Database
from euterpe.store.errors import StoreError, StoreUnavailable
from euterpe.store.queue.event_rows import EventWriter
from euterpe.store.store import Store
from tests.clock import SettableClock
from tests.engines import Engine
from tests.service.store import test_model
from tests.store.queue import test_job_transitions, test_leases

Open = Callable[[], Store]


@contextmanager
def without_condition(column: str) -> Iterator[None]:
    """Remove the condition on this column from each statement that writes a status."""
    value = r"(CAST\(batch\.value ->> '\w+' AS BIGINT\)|\(batch\.value ->> '\w+'\)|batch\.\w+)"
    condition = re.compile(rf" AND \w+\.{column} = {value}")
    removed: set[int] = set()

    def shorten(*execution: Any) -> tuple[str, Any]:
        _, _, statement, parameters, *_ = execution
        if statement.startswith("UPDATE") and " SET status=" in statement:
            statement, count = condition.subn("", statement)
            removed.add(count)
        return statement, parameters

    sa.event.listen(sa.Engine, "before_cursor_execute", shorten, retval=True)
    try:
        yield
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", shorten)
    assert removed == {1}  # exactly one condition was removed from each statement


def insert_events_after_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Insert outbox events after the commit of the transaction to which they belong."""
    # Each thread has its own list, because services of other tests may run in this process.
    late: defaultdict[int, list[Callable[[Database], object]]] = defaultdict(list)
    transaction = Database.transaction
    insert_events = EventWriter.insert

    @contextmanager
    def broken(self: Database) -> Iterator[sa.Connection]:
        with transaction(self) as connection:
            yield connection
        while mine := late[get_ident()]:
            mine.pop(0)(self)

    def postpone(self: EventWriter, _: sa.Connection, moments: Any) -> None:
        def insert(database: Database) -> None:
            with transaction(database) as connection:
                insert_events(self, connection, moments)

        late[get_ident()].append(insert)

    monkeypatch.setattr(Database, "transaction", broken)
    monkeypatch.setattr(EventWriter, "insert", postpone)


@pytest.fixture
def reopen(url: str, ring: LocalKeyRing, clock: SettableClock) -> Iterator[Open]:
    """Return a function that opens a store.

    A store builds its statements when it opens, so a test must open it after the breakage.
    """
    opened: list[Store] = []

    def open_store() -> Store:
        opened.append(Store(url, ring, clock=clock, sweep_every_ms=0))
        return opened[-1]

    yield open_store
    for store in opened:
        store.close()


def test_the_suite_notices_a_missing_fence(reopen: Open, clock: SettableClock) -> None:
    with without_condition("claim_version"), pytest.raises(AssertionError):
        test_leases.test_a_stale_worker_cannot_write_to_a_reclaimed_job(reopen(), clock, "advance")


def test_the_suite_notices_a_missing_state_check(reopen: Open) -> None:
    with without_condition("status"), pytest.raises(AssertionError):
        test_leases.test_the_same_step_twice_is_one_step(reopen())


def test_the_suite_notices_events_outside_the_transaction(
    reopen: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert_events_after_commit(monkeypatch)
    with pytest.raises(AssertionError):
        test_job_transitions.test_a_transition_and_its_event_are_one_transaction(reopen())


@pytest.mark.parametrize("column", ["claim_version", "status"])
def test_the_model_notices_a_missing_condition(
    servers: Callable[[str], Engine], ring: LocalKeyRing, column: str
) -> None:
    # The examples are the same in every run, and no time is spent on shrinking a failure.
    search = settings(max_examples=500, stateful_step_count=40, derandomize=True, phases=[Phase.generate])
    # These errors come from the model, or from the constraints and triggers of the database.
    by = (AssertionError, InvalidTransition, StoreError)
    with servers("sqlite").fresh() as url, without_condition(column), pytest.raises(by) as raised:
        test_model.run_machine(url, ring, search)
    assert not isinstance(raised.value, StoreUnavailable)
