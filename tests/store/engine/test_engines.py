"""Database URLs, connection settings and typed errors of the three engines."""

import traceback
from pathlib import Path
from secrets import token_hex

import pytest
import sqlalchemy as sa

from euterpe.store.engine.database import Database
from euterpe.store.engine.engines import EngineKind, database_place, open_engines
from euterpe.store.errors import StoreError, UnsupportedDatabase


@pytest.mark.parametrize(
    ("url", "kind", "driver"),
    [
        ("sqlite:////tmp/euterpe-none.db", EngineKind.SQLITE, "sqlite"),
        ("libsql://127.0.0.1:1", EngineKind.LIBSQL, "libsql"),
        ("ws://127.0.0.1:1", EngineKind.LIBSQL, "libsql"),
        ("http://127.0.0.1:1", EngineKind.LIBSQL, "libsql"),
        ("postgresql://127.0.0.1:1/none", EngineKind.POSTGRES, "postgresql+psycopg"),
        ("postgres://127.0.0.1:1/none", EngineKind.POSTGRES, "postgresql+psycopg"),
    ],
)
def test_every_way_to_name_an_engine(url: str, kind: EngineKind, driver: str) -> None:
    engines = open_engines(url)
    assert engines.kind is kind
    assert engines.write.url.drivername == driver
    engines.dispose()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sqlite://", "name a file"),
        ("sqlite:///:memory:", "name a file"),
        ("sqlite:///a.db?uri=true", "a path and nothing more"),
        ("mysql://h/d", "'mysql'"),
        ("postgresql+asyncpg://h/d", "asyncpg"),
        ("", "cannot be read"),
        ("no url", "cannot be read"),
    ],
)
def test_what_cannot_be_used_is_refused_with_what_can(url: str, message: str) -> None:
    with pytest.raises(UnsupportedDatabase, match=message):
        open_engines(url)


def test_tls_is_kept_for_a_libsql_server() -> None:
    plain, secure = open_engines("ws://h:1").write, open_engines("wss://:token@h:1").write
    assert plain.dialect.create_connect_args(plain.url)[0] == ["ws://h:1"]
    assert secure.dialect.create_connect_args(secure.url)[0] == ["wss://h:1?authToken=token"]


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_sqlite_is_durable_and_its_readers_cannot_write(url: str) -> None:
    database = Database(url)
    with database.transaction() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == 2, "FULL: accepted-is-durable"
    with pytest.raises(StoreError, match="readonly"), database.snapshot() as connection:
        connection.exec_driver_sql("DELETE FROM queues")
    database.close()


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_postgres_ends_the_session_of_a_worker_frozen_in_a_transaction(url: str) -> None:
    database = Database(url)
    with database.transaction() as connection:
        shown = connection.execute(sa.text("SHOW idle_in_transaction_session_timeout")).scalar_one()
    assert shown == "30s"
    database.close()


def test_an_error_of_the_database_is_typed_and_short(url: str) -> None:
    database = Database(url)
    with pytest.raises(StoreError) as refused, database.transaction() as connection:
        connection.exec_driver_sql("INSERT INTO queues (queue, paused_at) VALUES (NULL, 1)")
    assert "\n" not in str(refused.value)
    assert not refused.value.retryable
    database.close()


def test_no_error_of_the_database_shows_a_parameter(url: str) -> None:
    secret = token_hex()  # not a literal, because tracebacks show source lines
    database = Database(url)
    for run in (database.transaction, database.snapshot):
        with pytest.raises(StoreError) as refused, run() as connection:
            connection.execute(sa.text("SELECT :given FROM nowhere"), {"given": secret})
        text = "".join(traceback.format_exception(refused.value))
        assert "FROM nowhere" in text
        assert secret not in text
    database.close()


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("sqlite:///a/b.db", f"sqlite, {Path('a/b.db').absolute()}"),
        ("postgresql://u:hunter2@db:5432/jobs?password=hunter2", "postgres, db:5432/jobs"),
        ("postgresql:///jobs?host=/run/postgres", "postgres, /jobs"),
        ("https://db/?authToken=hunter2", "libsql, db/"),
        ("postgresql://u:x@hunter2@db/jobs", "postgres, an address whose password has unescaped characters"),
        (
            "postgresql://u:x@hunter2/y@db/jobs",
            "postgres, an address whose password has unescaped characters",
        ),
    ],
)
def test_the_place_of_a_database_has_no_password(url: str, place: str) -> None:
    assert database_place(url) == place
