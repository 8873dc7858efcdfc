"""Schema migrations: apply numbered SQL files in order, each once, and verify the result.

A program refuses a database whose schema version differs from the version that the program needs. The error
says what to run or install.
"""

import hashlib
import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

import euterpe
from euterpe.store.engine.database import Database
from euterpe.store.engine.engines import EngineKind, sqlite_file
from euterpe.store.errors import SchemaMismatch
from euterpe.store.tables import COMMIT_ORDERED_TABLES, column_names, metadata, schema_migrations

_FILE = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
_BOOKKEEPING = """CREATE TABLE IF NOT EXISTS schema_migrations (
    version BIGINT NOT NULL,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL,
    applied_at BIGINT NOT NULL,
    PRIMARY KEY (version)
)"""
# The key of the advisory lock, an arbitrary number. The key must never change: otherwise two releases could
# migrate the same database at once.
_ADVISORY_LOCK = 0x657574657270
# Checksums of the first version of 0001_core, which are accepted, too. The checks and triggers of that
# version are equivalent to those of the current version, but slower on SQLite. A database with the first
# version is not changed.
_FIRST_CORE_SQLITE = "a34e238d30f7ad9ed04063c1a810a433ba61dc307e49dc9c44737987cbfeb30c"
_FIRST_CORE = {
    EngineKind.SQLITE: _FIRST_CORE_SQLITE,
    EngineKind.LIBSQL: _FIRST_CORE_SQLITE,
    EngineKind.POSTGRES: "2b0636d8d98a1e021dd511ebed173f4d89395712d75d961333e67a0a36392cce",
}

RUN_MIGRATE = "run `euterpe migrate`"


@dataclass(frozen=True)
class Migration:
    version: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


@dataclass(frozen=True)
class SchemaState:
    applied: Sequence[int]
    pending: Sequence[Migration]


def load_migrations(kind: EngineKind) -> list[Migration]:
    """Return the migrations that came with this program, in order."""
    package = Path(euterpe.__file__).parent
    name = "migrations_pg" if kind is EngineKind.POSTGRES else "migrations_sqlite"
    # In a wheel, the folder is inside the package. In a checkout, the folder is next to the package.
    folder = next(path for path in (package / name, package.parent / name) if path.is_dir())
    found = [(match, path) for path in folder.iterdir() if (match := _FILE.fullmatch(path.name))]
    return sorted(
        (Migration(int(match[1]), match[2], path.read_text()) for match, path in found),
        key=lambda migration: migration.version,
    )


def inspect(database: Database) -> SchemaState:
    """Return the applied and the pending migrations.

    Raise SchemaMismatch if an applied migration is unknown or differs from the file in this program, or if a
    migration before the last applied one is missing.
    """
    with database.snapshot() as connection:
        if not sa.inspect(connection).has_table(schema_migrations.name):
            return SchemaState((), load_migrations(database.kind))
        return _compare(connection, database.kind)


def _compare(connection: sa.Connection, kind: EngineKind) -> SchemaState:
    known = load_migrations(kind)
    rows = connection.execute(sa.select(schema_migrations).order_by(schema_migrations.c.version)).all()
    by_version = {migration.version: migration for migration in known}
    for row in rows:
        ours = by_version.get(row.version)
        if ours is None:
            raise SchemaMismatch(
                f"the database is at schema {rows[-1].version}, newer than this program, which knows "
                f"{max(by_version)}; install the newer Euterpe"
            )
        if row.checksum != ours.checksum and (row.version, row.checksum) != (1, _FIRST_CORE[kind]):
            raise SchemaMismatch(
                f"migration {row.version:04d}_{row.name} was applied from a different file than the one "
                "in this program; install the version of Euterpe that applied it"
            )
    applied = {row.version for row in rows}
    pending = [migration for migration in known if migration.version not in applied]
    if pending and applied and pending[0].version < max(applied):
        raise SchemaMismatch(
            f"migration {pending[0].version:04d}_{pending[0].name} is missing among those that were applied, "
            "although later ones were applied; restore the table schema_migrations from a backup"
        )
    return SchemaState(sorted(applied), pending)


def require_file(url: str, hint: str = RUN_MIGRATE) -> None:
    """Raise SchemaMismatch with a hint if the database is an SQLite file that is missing.

    Without this check, SQLite would create an empty file for a mistyped path.
    """
    path = sqlite_file(url)
    if path is not None and not path.exists():
        raise SchemaMismatch(f"there is no database {path}; {hint}")


def require_current(database: Database) -> None:
    """Raise SchemaMismatch unless every migration of this program has been applied."""
    state = inspect(database)
    if state.pending:
        at = f"is at schema {state.applied[-1]}" if state.applied else "has no schema yet"
        raise SchemaMismatch(
            f"the database {at}, this program needs {state.pending[-1].version}; run `euterpe migrate`"
        )


def migrate(database: Database, *, up_to: int | None = None) -> list[Migration]:
    """Apply and verify all pending migrations in one transaction; return those that were applied.

    With `up_to`, apply the migrations up to this version, and do not compare the result with the tables of
    this program.
    """
    with database.transaction() as connection:
        if database.kind is EngineKind.POSTGRES:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
        connection.exec_driver_sql(_BOOKKEEPING)
        pending = [
            migration
            for migration in _compare(connection, database.kind).pending
            if up_to is None or migration.version <= up_to
        ]
        for migration in pending:
            _apply(connection, migration, database.kind)
            connection.execute(
                sa.insert(schema_migrations).values(
                    version=migration.version,
                    name=migration.name,
                    checksum=migration.checksum,
                    applied_at=database.now,
                )
            )
        if up_to is None:
            _verify(connection)
        if database.kind is EngineKind.POSTGRES:
            _reset_future_positions(connection)
    return pending


def _apply(connection: sa.Connection, migration: Migration, kind: EngineKind) -> None:
    errors: Any = connection.dialect.loaded_dbapi
    try:
        for statement in _statements(migration.sql, kind):
            # Use the driver's cursor, because SQLAlchemy would look for parameters in the text.
            connection.connection.cursor().execute(statement)
    except errors.Error as error:
        reason = str(error).partition("\n")[0]
        raise SchemaMismatch(
            f"migration {migration.version:04d}_{migration.name} does not fit this database, and nothing was "
            f"applied: {reason}; if it has tables of another program, give Euterpe a database of its own"
        ) from None


def _reset_future_positions(connection: sa.Connection) -> None:
    """Replace each position that is higher than the id of this transaction with this id.

    A restore from another cluster leaves rows with such positions.
    """
    for table in COMMIT_ORDERED_TABLES:
        now = "pg_current_xact_id()::text::bigint"
        connection.exec_driver_sql(
            f"UPDATE {table.name} SET position = {now} WHERE position > {now}"  # noqa: S608  our own names
        )


def _statements(sql: str, kind: EngineKind) -> list[str]:
    if kind is EngineKind.POSTGRES:
        return [sql]  # the server splits the text into statements
    statements, current = [], ""
    for line in sql.splitlines(keepends=True):
        current += line
        if sqlite3.complete_statement(current):
            statements.append(current)
            current = ""
    return statements


def verify(database: Database) -> None:
    """Raise SchemaMismatch unless this connection uses tables with the expected columns.

    On Postgres, `search_path` may select other tables than the migrated tables.
    """
    with database.snapshot() as connection:
        _verify(connection)


def _verify(connection: sa.Connection) -> None:
    """Raise SchemaMismatch unless every table of `tables.py` exists and has exactly the defined columns."""
    inspector = sa.inspect(connection)
    for table in metadata.sorted_tables:
        if not inspector.has_table(table.name):
            raise SchemaMismatch(
                f"after migrating, table {table.name} is missing; the migration files are damaged"
            )
        actual = {column["name"] for column in inspector.get_columns(table.name)}
        if actual != (wanted := column_names(table, connection.dialect.name)):
            differing = ", ".join(sorted(actual ^ wanted))
            raise SchemaMismatch(f"after migrating, table {table.name} differs in: {differing}")
