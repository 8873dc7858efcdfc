"""check_integrity finds damage to stored data within a time limit.

The report of this check contains no data of a row.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from euterpe.crypto.local_key_ring import LocalKeyRing
from euterpe.store.engine.database import Database
from euterpe.store.engine.engines import sqlite_file
from euterpe.store.engine.health import check_integrity
from euterpe.store.engine.migrations import migrate
from euterpe.store.errors import StoreUnavailable
from euterpe.store.store import Store
from tests import engines
from tests.store import outages
from tests.store.jobs import SPEC, enqueue

CANARY = "canary-in-a-row"
ROW = {**SPEC, "metadata": {"note": CANARY * 50}}


def fill(url: str, ring: LocalKeyRing, jobs: int = 300) -> None:
    with Store(url, ring) as store:
        enqueue(store, jobs, spec=ROW, external_id=CANARY)


def test_a_sound_database_has_no_damage(url: str, ring: LocalKeyRing) -> None:
    fill(url, ring)
    with closing(Database(url)) as database:
        report = check_integrity(database)
    assert (report.damage, report.is_complete) == ((), True)


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_check_that_takes_too_long_ends_as_incomplete(url: str, ring: LocalKeyRing) -> None:
    fill(url, ring, 2_000)
    with closing(Database(url)) as database:
        report = check_integrity(database, time_s=0.0)
        assert (report.damage, report.is_complete) == ((), False)
        with database.snapshot() as connection:
            assert connection.execute(sa.text("SELECT count(*) FROM inbox_jobs")).scalar_one() == 2_000


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
@pytest.mark.parametrize("page", ["a leaf of a table", "an index"])
def test_a_damaged_page_of_sqlite_is_found(url: str, ring: LocalKeyRing, page: str) -> None:
    fill(url, ring)
    path = sqlite_file(url)
    assert path is not None
    with closing(Database(url)) as database, database.snapshot() as connection:
        size = connection.exec_driver_sql("PRAGMA page_size").scalar_one()
        name = "inbox_jobs" if page == "a leaf of a table" else "sqlite_autoindex_inbox_jobs_1"
        wanted = f"SELECT max(pageno) FROM dbstat WHERE name = '{name}' AND pagetype = 'leaf'"  # noqa: S608
        number = connection.exec_driver_sql(wanted).scalar_one()
    with path.open("r+b") as file:
        file.seek((number - 1) * size)
        file.write(b"\xff" * 200)
    with closing(Database(url)) as database:
        report = check_integrity(database)
    assert report.damage
    assert CANARY not in str(report)


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[outages.FragilePostgres]:
    server = outages.FragilePostgres(tmp_path)
    yield server
    server.stop()


def test_a_damaged_page_of_postgres_is_found(postgres: outages.FragilePostgres, ring: LocalKeyRing) -> None:
    fill(postgres.url, ring)
    file = postgres.file_of("inbox_jobs")
    with outages.away(postgres), file.open("r+b") as pages:
        pages.write(b"\xff" * 200)
    with closing(Database(postgres.url)) as database:
        (finding,) = check_integrity(database).damage
    assert finding.startswith("inbox_jobs: the database is damaged: invalid page in block 0")
    assert CANARY not in finding


def test_an_outage_is_no_damage(postgres: outages.FragilePostgres, ring: LocalKeyRing) -> None:
    fill(postgres.url, ring)
    with (
        closing(Database(postgres.url)) as database,
        outages.away(postgres),
        pytest.raises(StoreUnavailable),
    ):
        check_integrity(database)


_FAKE_BT_INDEX_CHECK = """
    CREATE FUNCTION bt_index_check(index regclass) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
        IF index = 'inbox_jobs_pkey'::regclass THEN
            RAISE EXCEPTION 'item order invariant violated for index "inbox_jobs_pkey"'
                USING ERRCODE = 'index_corrupted', DETAIL = 'Lower index tid=(1,2) of canary-in-a-row';
        END IF;
    END $$
"""


def test_damage_found_by_amcheck_is_reported(
    servers: Callable[[str], engines.Engine], ring: LocalKeyRing
) -> None:
    """The tests' server lacks amcheck, so a function of the same name raises the error of amcheck."""
    server = servers("postgres")
    assert isinstance(server, engines.Postgres)
    with server.blank() as url, closing(Database(url)) as database:
        migrate(database)
        fill(url, ring)
        assert "amcheck" not in check_integrity(database).extent
        with database.transaction() as connection:
            connection.exec_driver_sql(_FAKE_BT_INDEX_CHECK)
        report = check_integrity(database)
    assert "amcheck" in report.extent
    (finding,) = report.damage
    assert finding.startswith("inbox_jobs_pkey: the database is damaged: item order invariant violated")
    assert CANARY not in finding
