"""SqlDedupe on every engine, in an empty database of the receiver."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from euterpe.client.sql_dedupe import SqlDedupe
from euterpe.store.engine.database import Database
from tests.clock import SettableClock

COUNT = "SELECT COUNT(*) FROM euterpe_received_events"


@pytest.fixture
def receivers(url: str) -> Iterator[str]:
    yield url
    with closing(Database(url)) as database, database.transaction() as connection:
        connection.exec_driver_sql("DROP TABLE IF EXISTS euterpe_received_events")


def count(url: str) -> int:
    with closing(Database(url)) as database, database.snapshot() as connection:
        return int(connection.exec_driver_sql(COUNT).scalar_one())


def test_the_first_time_is_once_for_all_who_share_the_database(receivers: str) -> None:
    with SqlDedupe(receivers) as one, SqlDedupe(receivers) as other:
        assert (one.first_time("a"), other.first_time("a"), one.first_time("a")) == (True, False, False)
        assert other.first_time("b")
    with SqlDedupe(receivers) as restarted:
        assert not restarted.first_time("a")


def test_of_many_at_once_one_is_the_first(receivers: str) -> None:
    with SqlDedupe(receivers) as one, SqlDedupe(receivers) as other, ThreadPoolExecutor(4) as pool:
        firsts = [pool.submit(seen.first_time, f"e{n}") for n in range(15) for seen in (one, other, one)]
        assert sum(first.result() for first in firsts) == 15


def test_what_failed_may_come_again(receivers: str) -> None:
    with SqlDedupe(receivers) as seen:
        seen.first_time("a")
        seen.forget("a")
        assert seen.first_time("a")


def test_it_forgets_what_is_old_and_so_does_not_grow(receivers: str) -> None:
    clock = SettableClock()
    with SqlDedupe(receivers, keep_seconds=60, clock=clock) as seen:
        seen.first_time("a")
    clock.advance(60_000)
    with SqlDedupe(receivers, keep_seconds=60, clock=clock) as seen:
        assert not seen.first_time("a"), "`keep_seconds` are not over yet"
    clock.advance(1)
    with SqlDedupe(receivers, keep_seconds=60, clock=clock) as seen:
        seen.first_time("b")
        assert count(receivers) == 1
        assert seen.first_time("a")


def test_many_may_make_the_table_at_once(receivers: str) -> None:
    def first(_: int) -> bool:
        with SqlDedupe(receivers) as seen:
            return seen.first_time("a")

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(first, range(4))) == 1
