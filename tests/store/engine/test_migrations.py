"""The two migration folders agree with each other, with `tables.py` and with the state machine."""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from euterpe.crypto.local_key_ring import LocalKeyRing
from euterpe.domain.states import (
    JOB_TRANSITIONS,
    OUTBOX_TRANSITIONS,
    QUEUE_JOB_TRANSITIONS,
    JobStatus,
    Lane,
    OutboxStatus,
)
from euterpe.store.engine import migrations
from euterpe.store.engine.database import Database
from euterpe.store.engine.engines import EngineKind
from euterpe.store.errors import SchemaMismatch
from euterpe.store.store import Store
from euterpe.store.tables import column_names, metadata, schema_migrations
from tests.engines import Engine, Postgres

ROOT = Path(__file__).parents[3]
FILES = {EngineKind.SQLITE: ROOT / "migrations_sqlite", EngineKind.POSTGRES: ROOT / "migrations_pg"}


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path / 'empty.db'}")
    yield database
    database.close()


def shape(sql: str) -> list[str]:
    """Return the DDL of a migration, with the same names for the types and options of both engines."""
    sql = re.sub(r"--[^\n]*", "", sql)
    sql = re.sub(r"\b(BIGINT|INTEGER)\b", "INT", sql)
    sql = re.sub(r"\b(JSONB|TEXT)\b", "TEXT", sql)
    sql = re.sub(r"\b(BYTEA|BLOB)\b", "BLOB", sql)
    sql = re.sub(r"\b(DOUBLE PRECISION|REAL)\b", "REAL", sql)
    sql = sql.replace(' COLLATE "C"', "")  # the collation "C" sorts by bytes, as SQLite does by default
    sql = re.sub(r"\)( STRICT| WITH \([^)]*\))?;", ");", sql)
    tables = re.findall(r"(?:CREATE (?:TABLE|UNIQUE INDEX|INDEX)|ALTER TABLE) .*?;", sql, re.DOTALL)
    # Statements that only Postgres needs: a column for the commit order (0003), and free space for new row
    # versions (0004).
    ours = re.compile(r"\bposition\b|\bfillfactor\b")
    return [re.sub(r"\s+", " ", statement) for statement in tables if not ours.search(statement)]


def edges(sql: str) -> list[dict[str, set[str]]]:
    """Return the transitions that each trigger allows, by source status."""
    triggers = re.findall(r"CREATE TRIGGER .*?CASE OLD.status(.*?)ELSE FALSE END", sql, re.DOTALL)
    return [
        {
            source: set(re.findall(r"NEW.status = '(\w+)'", targets))
            for source, targets in re.findall(r"WHEN '(\w+)' THEN(.*?)(?=WHEN|\Z)", text, re.DOTALL)
        }
        for text in triggers
    ]


def indexes(folder: Path) -> dict[str, str]:
    """Return the indexes that exist after all migrations: their names, and their SQL without COLLATE."""
    found: dict[str, str] = {}
    for path in sorted(folder.iterdir()):
        for statement in re.split(r";\s*\n", re.sub(r"--[^\n]*", "", path.read_text())):
            words = re.sub(r"\s+", " ", statement).replace(' COLLATE "C"', "").strip()
            if made := re.match(r"CREATE (?:UNIQUE )?INDEX (\w+)", words):
                found[made[1]] = words
            elif dropped := re.match(r"DROP INDEX (\w+)", words):
                del found[dropped[1]]
            elif dropped := re.match(r"DROP TABLE (\w+)", words):
                found = {name: text for name, text in found.items() if f" ON {dropped[1]} " not in text}
    return {name: text for name, text in found.items() if "brin" not in text}


def checks(sql: str) -> dict[str, str]:
    """Return the CHECK constraints of a CREATE TABLE or ALTER TABLE, by name."""
    return {
        name: re.sub(r"\s+", " ", text)
        for name, text in re.findall(
            r"CONSTRAINT (\w+) CHECK (\(.*?\))(?=,?\s*\n\s*(?:CONSTRAINT|\))|;)", sql, re.S
        )
    }


# SQLite cannot change a CHECK, so this migration rebuilds the table of jobs.
REBUILT = "0005_fair_share.sql"


def test_both_folders_have_the_same_files_tables_and_columns() -> None:
    names = [sorted(path.name for path in folder.iterdir()) for folder in FILES.values()]
    assert names[0] == names[1]
    for name in names[0]:
        lite, pg = (shape((folder / name).read_text()) for folder in FILES.values())
        if name == REBUILT:
            lite, pg = ([words for words in found if "inbox_jobs" not in words] for found in (lite, pg))
            assert len(lite) > 6
        assert lite == pg


def test_both_engines_end_with_the_same_indexes() -> None:
    lite, pg = (indexes(folder) for folder in FILES.values())
    assert lite == pg
    assert len(lite) > 15


def test_the_table_that_sqlite_rebuilds_has_the_checks_of_the_one_that_postgres_alters() -> None:
    core, changed = (
        checks((FILES[EngineKind.POSTGRES] / name).read_text().partition("CREATE TABLE job_attempts")[0])
        for name in ("0001_core.sql", REBUILT)
    )
    rebuilt = checks((FILES[EngineKind.SQLITE] / REBUILT).read_text().partition("INSERT INTO")[0])
    assert rebuilt == {**core, **changed}
    assert len(rebuilt) == 4


@pytest.mark.parametrize("folder", FILES.values(), ids=FILES)
def test_the_triggers_know_exactly_the_edges_of_the_program(folder: Path) -> None:
    inbox, outbox = edges((folder / "0001_core.sql").read_text())
    (queue_job,) = edges((folder / "0013_queue_jobs.sql").read_text())
    assert inbox == {source: targets for source, targets in JOB_TRANSITIONS.items() if targets}
    assert outbox == {source: targets for source, targets in OUTBOX_TRANSITIONS.items() if targets}
    assert queue_job == {source: targets for source, targets in QUEUE_JOB_TRANSITIONS.items() if targets}


def test_the_checks_name_every_status_and_lane() -> None:
    text = "".join((FILES[EngineKind.POSTGRES] / name).read_text() for name in ("0001_core.sql", REBUILT))
    for name in (*JobStatus, *OutboxStatus, *Lane):
        assert f"'{name}'" in text


def test_the_database_is_as_the_program_defines_it(url: str) -> None:
    database = Database(url)
    with database.snapshot() as connection:
        inspector = sa.inspect(connection)
        assert set(inspector.get_table_names()) == set(metadata.tables)
        for table in metadata.sorted_tables:
            if table is not schema_migrations:
                columns = {c["name"]: c for c in inspector.get_columns(table.name)}
                assert set(columns) == column_names(table, database.engines.read.dialect.name)
                for column in table.columns:
                    assert columns[column.name]["nullable"] is column.nullable, column
                    assert kind_of(columns[column.name]["type"]) == kind_of(column.type), column
            key = inspector.get_pk_constraint(table.name)["constrained_columns"]
            assert key == [column.name for column in table.primary_key]
    database.close()


def kind_of(column_type: sa.types.TypeEngine[Any]) -> str:
    name = type(column_type).__name__.upper()
    for kind, names in {
        "integer": ("INTEGER", "BIGINT", "BIGINTEGER"),
        "text": ("TEXT", "JSON", "JSONB"),
        "bytes": ("BLOB", "BYTEA", "LARGEBINARY"),
        "real": ("REAL", "FLOAT", "DOUBLE", "DOUBLE_PRECISION"),
    }.items():
        if name in names:
            return kind
    return name


def test_migrating_twice_is_migrating_once(empty: Database) -> None:
    shipped = [m.version for m in migrations.load_migrations(EngineKind.SQLITE)]
    assert [m.version for m in migrations.migrate(empty)] == shipped
    assert migrations.migrate(empty) == []
    assert migrations.inspect(empty).pending == []


def test_a_migration_that_fails_leaves_nothing(empty: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [
        *migrations.load_migrations(EngineKind.SQLITE),
        migrations.Migration(99, "broken", "CREATE TABLE half (x);\nOOPS;\n"),
    ]
    monkeypatch.setattr(migrations, "load_migrations", lambda _: files)
    with pytest.raises(Exception, match="OOPS"):
        migrations.migrate(empty)
    with empty.snapshot() as connection:
        assert sa.inspect(connection).get_table_names() == []


def test_damaged_files_are_noticed_after_migrating(empty: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, *others = migrations.load_migrations(EngineKind.SQLITE)
    short = migrations.Migration(1, "core", whole.sql.replace("    progress REAL NOT NULL,\n", ""))
    monkeypatch.setattr(migrations, "load_migrations", lambda _: [short, *others])
    with pytest.raises(SchemaMismatch, match="progress"):
        migrations.migrate(empty)


def test_the_first_checksum_of_0001_is_still_accepted(url: str) -> None:
    database = Database(url)
    lite = "a34e238d30f7ad9ed04063c1a810a433ba61dc307e49dc9c44737987cbfeb30c"
    pg = "2b0636d8d98a1e021dd511ebed173f4d89395712d75d961333e67a0a36392cce"
    first = pg if database.kind is EngineKind.POSTGRES else lite
    is_core = schema_migrations.c.version == 1
    with database.transaction() as connection:
        connection.execute(sa.update(schema_migrations).where(is_core).values(checksum=first))
    assert migrations.migrate(database) == []
    migrations.require_current(database)
    database.close()


def test_an_empty_database_is_refused_with_what_to_run(empty: Database, ring: LocalKeyRing) -> None:
    with pytest.raises(SchemaMismatch, match="run `euterpe migrate`"):
        Store(str(empty.engines.write.url), ring)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            sa.insert(schema_migrations).values(version=99, name="f", checksum="x", applied_at=1),
            "newer Euterpe",
        ),
        (
            sa.update(schema_migrations).values(checksum="other"),
            "0001_core was applied from a different file",
        ),
        (sa.delete(schema_migrations), "run `euterpe migrate`"),
    ],
    ids=["newer", "tampered", "older"],
)
def test_any_other_schema_is_refused_with_what_to_do(
    tmp_path: Path, ring: LocalKeyRing, change: sa.Executable, message: str
) -> None:
    url = f"sqlite:///{tmp_path / 'other.db'}"
    database = Database(url)
    migrations.migrate(database)
    with database.transaction() as connection:
        connection.execute(change)
    database.close()
    with pytest.raises(SchemaMismatch, match=message):
        Store(url, ring)


def test_programs_that_migrate_at_once_take_turns(servers: Callable[[str], Engine]) -> None:
    server = servers("postgres")
    assert isinstance(server, Postgres)

    def run(url: str) -> int:
        database = Database(url)
        try:
            return len(migrations.migrate(database))
        finally:
            database.close()

    with server.blank() as url, ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(run, [url] * 4)) == [
            0,
            0,
            0,
            len(migrations.load_migrations(EngineKind.POSTGRES)),
        ]


def test_a_database_with_tables_of_something_else_is_refused_whole(empty: Database) -> None:
    with empty.transaction() as connection:
        connection.exec_driver_sql("CREATE TABLE api_keys (id TEXT)")
    with pytest.raises(SchemaMismatch, match="database of its own"):
        migrations.migrate(empty)
    with empty.snapshot() as connection:
        assert not sa.inspect(connection).has_table("inbox_jobs")


def test_a_gap_among_the_migrations_is_named(empty: Database) -> None:
    migrations.migrate(empty)
    with empty.transaction() as connection:
        connection.execute(sa.delete(schema_migrations).where(schema_migrations.c.version == 2))
    with pytest.raises(SchemaMismatch, match="0002_service is missing"):
        migrations.migrate(empty)
