"""Check the stored data for damage within a time limit, and test whether the database accepts writes.

The check finds only damage that the engine can detect. No engine keeps a checksum of each value by default,
so a changed letter within a text is not found.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from euterpe.store.engine.database import Database
from euterpe.store.engine.engines import EngineKind
from euterpe.store.errors import StoreError, StoreUnavailable
from euterpe.store.tables import metadata, write_probe

# The time limit of a check. A full check of a large database would take minutes, which is too long for a user
# of `euterpe doctor`.
TIME_S = 20.0
_MAX_FINDINGS = 5
_HEAD_ROWS = 1_000
_STEPS_BETWEEN_CHECKS = 100_000  # instructions of SQLite's virtual machine, which take a few milliseconds
# Check the privilege, too: only superusers may call `bt_index_check`, unless EXECUTE was granted.
_HAS_AMCHECK = (
    "SELECT count(*) FROM pg_proc WHERE oid = to_regprocedure('bt_index_check(regclass)') "
    "AND has_function_privilege(oid, 'EXECUTE')"
)
_QUERY_CANCELED = "57014"


@dataclass(frozen=True)
class DamageReport:
    damage: tuple[str, ...]  # the names of damaged tables, indexes and pages, without the contents of rows
    is_complete: bool  # False: the check ended early, at its time limit or after `_MAX_FINDINGS` findings
    extent: str  # what was checked


def check_integrity(database: Database, time_s: float = TIME_S) -> DamageReport:
    """Check as much of the database as the time allows, and return the damage found."""
    deadline = time.monotonic() + time_s
    if database.kind is EngineKind.SQLITE:
        return _sqlite(database, deadline)
    if database.kind is EngineKind.POSTGRES:
        return _postgres(database, deadline)
    return _run("the head of each table", _heads(), database, deadline)


def _sqlite(database: Database, deadline: float) -> DamageReport:
    extent = "every page, and each index against its table"
    try:
        found = _integrity(database, deadline)
    except StoreUnavailable:  # an outage is no evidence of damage
        raise
    except StoreError as error:
        return DamageReport((str(error),), True, extent)
    return DamageReport(tuple(found or ()), found is not None, extent)


def _integrity(database: Database, deadline: float) -> list[str] | None:
    """Return the findings of SQLite's integrity check, or None if the check reached the time limit."""
    with database.snapshot() as connection:
        driver: Any = connection.connection.driver_connection
        driver.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS_BETWEEN_CHECKS)
        try:
            rows = connection.exec_driver_sql(f"PRAGMA integrity_check({_MAX_FINDINGS})").scalars().all()
        except sa.exc.OperationalError as error:
            if getattr(error.orig, "sqlite_errorname", None) != "SQLITE_INTERRUPT":
                raise
            return None
        finally:
            driver.set_progress_handler(None, 0)
    return [line for text in rows for line in str(text).splitlines() if line != "ok"][:_MAX_FINDINGS]


def _postgres(database: Database, deadline: float) -> DamageReport:
    checks = [*_catalog(), *_heads()]
    extent = "the catalog and the head of each table"
    if _query_number(database, _HAS_AMCHECK):
        checks += _indexes(database)
        extent += ", and with amcheck the indexes"
    return _run(extent, checks, database, deadline)


Check = tuple[str, str]  # the name of the checked part, and a statement that returns the number of faults


def _run(extent: str, checks: list[Check], database: Database, deadline: float) -> DamageReport:
    damage: list[str] = []
    for context, statement in checks:
        left_ms = int((deadline - time.monotonic()) * 1000)
        if left_ms <= 0 or len(damage) >= _MAX_FINDINGS:
            return DamageReport(tuple(damage), False, extent)
        try:
            found = _query_number(database, statement, left_ms)
        except _OutOfTime:
            return DamageReport(tuple(damage), False, extent)
        except StoreUnavailable:
            raise
        except StoreError as error:
            damage.append(f"{context}: {error}")
        else:
            if found:
                damage.append(f"{context}: {found}")
    return DamageReport(tuple(damage), True, extent)


class _OutOfTime(Exception):
    pass


def _query_number(database: Database, statement: str, time_ms: int | None = None) -> int:
    with database.snapshot() as connection:
        if time_ms is not None and database.kind is EngineKind.POSTGRES:
            connection.exec_driver_sql(f"SET LOCAL statement_timeout = {time_ms}")
        try:
            return int(connection.exec_driver_sql(statement).scalar_one() or 0)
        except sa.exc.OperationalError as error:
            if getattr(error.orig, "sqlstate", None) == _QUERY_CANCELED:
                raise _OutOfTime from None
            raise


def _catalog() -> Iterator[Check]:
    names = ", ".join(f"'{table.name}'" for table in metadata.sorted_tables)
    yield (
        "indexes that are not valid",
        "SELECT count(*) FROM pg_index WHERE NOT indisvalid AND indrelid IN "  # noqa: S608  our own names
        f"(SELECT oid FROM pg_class WHERE relname IN ({names}) AND pg_table_is_visible(oid))",
    )
    yield (
        "pages whose checksum was wrong when they were read",
        "SELECT coalesce(checksum_failures, 0) FROM pg_stat_database WHERE datname = current_database()",
    )


def _heads() -> list[Check]:
    """Return one check for each table.

    A check reads the first rows of its table as text, including values that are stored out of line.
    """
    return [(table.name, _head(table)) for table in metadata.sorted_tables]


def _head(table: sa.Table) -> str:
    read = " + ".join(f"coalesce(length(CAST({column.name} AS TEXT)), 0)" for column in table.columns)
    head = f"SELECT * FROM {table.name} LIMIT {_HEAD_ROWS}"  # noqa: S608  our own names
    return f"SELECT sum({read}) * 0 FROM ({head}) AS head"  # noqa: S608  our own names


def _indexes(database: Database) -> list[Check]:
    names = ", ".join(f"'{table.name}'" for table in metadata.sorted_tables)
    wanted = (  # our own names
        "SELECT i.indexrelid::regclass::text FROM pg_index i "  # noqa: S608
        "JOIN pg_class t ON t.oid = i.indrelid "
        "JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_am a ON a.oid = x.relam "
        f"WHERE a.amname = 'btree' AND t.relname IN ({names}) AND pg_table_is_visible(t.oid) AND i.indisvalid"
    )
    with database.snapshot() as connection:
        found = connection.exec_driver_sql(wanted).scalars().all()
    check = "SELECT count(*) * 0 FROM bt_index_check('{}'::regclass)"
    return [(index, check.format(index)) for index in found]


_ROW = 1


def check_writes(database: Database) -> None:
    """Write and commit one row; raise StoreUnavailable if the disk is full or the database is read-only."""
    insert = database.insert(write_probe).values(probe_id=_ROW, written_at=database.now)
    replaced = insert.on_conflict_do_update(
        index_elements=[write_probe.c.probe_id], set_={"written_at": sa.literal_column("excluded.written_at")}
    )
    try:
        with database.transaction() as connection:
            connection.execute(replaced)
    except StoreUnavailable:
        raise
    except StoreError as error:
        raise StoreUnavailable(f"the database takes no writes: {error}") from None
