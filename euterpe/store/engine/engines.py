"""How each engine is opened. After this file an engine differs from the others in four facts only."""

import random
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.dialects.sqlite.base import SQLiteCompiler
from sqlalchemy.exc import ArgumentError

import euterpe.store.engine.libsql  # noqa: F401  registers the dialect
from euterpe.store.engine.deadlines import seconds_left
from euterpe.store.errors import StoreUnavailable, UnsupportedDatabase

# How long SQLite waits where it waits by itself: when a connection is opened, and when it reads.
BUSY_TIMEOUT_MS = 30_000
# Postgres' word for a write on a server that stands by for another.
READ_ONLY = "25006"
_SHORTEST_WAIT_S, _LONGEST_WAIT_S = 0.000_2, 0.004


class EngineKind(StrEnum):
    SQLITE = "sqlite"
    LIBSQL = "libsql"
    POSTGRES = "postgres"


@dataclass(frozen=True)
class Engines:
    """One pool for writing, one for reading: on the SQLite family the first has one connection, so
    the threads of a process take turns in memory and not by colliding on the file."""

    kind: EngineKind
    write: sa.Engine
    read: sa.Engine

    @property
    def locks_rows(self) -> bool:
        """Several writers at once, so a batch must lock its rows in one order."""
        return self.kind is EngineKind.POSTGRES

    @property
    def read_limit(self) -> int:
        """How many rows with a spec or a secret one answer may hold: libSQL's server gives none beyond
        10 MiB, and each row may have 256 KiB of a spec and as much of outputs."""
        return 15 if self.kind is EngineKind.LIBSQL else 1_000

    def dispose(self) -> None:
        self.write.dispose()
        self.read.dispose()


def sqlite_file(url: str) -> Path | None:
    """Where an SQLite database is; None for an engine that has a server."""
    kind, parsed = _parse(url)
    return Path(str(parsed.database)) if kind is EngineKind.SQLITE else None


def open_engines(url: str) -> Engines:
    kind, parsed = _parse(url)
    opener = {EngineKind.SQLITE: _sqlite, EngineKind.LIBSQL: _libsql, EngineKind.POSTGRES: _postgres}[kind]
    try:
        return opener(parsed)
    except ModuleNotFoundError as error:
        raise UnsupportedDatabase(
            f"{kind} needs the package {error.name}; install it with `pip install 'euterpe[{kind}]'`"
        ) from error


def _parse(url: str) -> tuple[EngineKind, sa.URL]:
    try:
        parsed = sa.make_url(url)
    except (ArgumentError, ValueError):
        raise UnsupportedDatabase(
            "the database URL cannot be read; use sqlite:///path, libsql://host:port or postgresql://…"
        ) from None
    name = parsed.drivername
    if name in ("sqlite", "sqlite+pysqlite"):
        if parsed.host:
            raise UnsupportedDatabase(f"an SQLite URL has three slashes: sqlite:///{parsed.host}")
        if parsed.database in (None, "", ":memory:"):
            raise UnsupportedDatabase("an in-memory SQLite database would lose accepted jobs; name a file")
        if parsed.query:
            raise UnsupportedDatabase("an SQLite URL is a path and nothing more: sqlite:///path")
        return EngineKind.SQLITE, parsed.set(drivername="sqlite")
    if name in ("libsql", "ws", "wss", "http", "https"):
        if not parsed.host:
            raise UnsupportedDatabase("a libSQL URL names its server: libsql://host:port")
        tls = {"tls": "1"} if name in ("wss", "https") else {}
        return EngineKind.LIBSQL, parsed.set(drivername="libsql").update_query_dict(tls)
    if name in ("postgresql", "postgres", "postgresql+psycopg"):
        return EngineKind.POSTGRES, parsed.set(drivername="postgresql+psycopg")
    raise UnsupportedDatabase(f"{name!r} is not an engine of Euterpe; use sqlite, libsql or postgresql")


class _HintingCompiler(SQLiteCompiler):
    """Write the text of `Select.with_hint` after the table, which SQLAlchemy leaves out for SQLite."""

    def get_from_hint_text(self, table: sa.FromClause, text: str | None) -> str | None:  # noqa: ARG002
        return text


def _engine(url: sa.URL, **options: Any) -> sa.Engine:
    # An error that is logged would show the statement's parameters: specs, events, ciphertext.
    engine = sa.create_engine(url, hide_parameters=True, **options)
    if engine.dialect.name == "sqlite":
        engine.dialect.statement_compiler = _HintingCompiler
    return engine


def _sqlite(url: sa.URL) -> Engines:
    def prepare(connection: Any, read_only: bool) -> None:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode == "wal" and not read_only:
            # A writer waits at its beginning, by itself, and for nothing later.
            connection.execute("PRAGMA busy_timeout = 0")
            # What it would take to undo a statement stays in memory. Beyond 64 KiB, a hundred jobs or
            # so, SQLite makes a file of it: a twentieth of the time of a large batch.
            connection.execute("PRAGMA temp_store = MEMORY")
            # A reader that stood still has let the log grow; it is cut back when the reader is gone.
            connection.execute("PRAGMA journal_size_limit = 67108864")
        # FULL: a job that was answered with 202 survives power loss (docs/guarantees.md).
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA query_only = {int(read_only)}")

    # Autocommit in the driver: we send BEGIN ourselves.
    options = {"isolation_level": None, "check_same_thread": False}
    write = _engine(
        url, poolclass=sa.QueuePool, pool_size=1, max_overflow=0, pool_timeout=60, connect_args=options
    )
    read = _engine(url, poolclass=sa.QueuePool, pool_size=4, max_overflow=28, connect_args=options)
    event.listen(write, "connect", lambda connection, _: prepare(connection, read_only=False))
    event.listen(read, "connect", lambda connection, _: prepare(connection, read_only=True))
    for engine in (write, read):
        event.listen(engine, "connect", lambda _, record: record.info.update(file=_identity(url)))
        event.listen(engine, "begin", lambda connection: _refuse_another_file(connection, url))
    event.listen(write, "begin", _begin_when_free)
    event.listen(read, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    return Engines(EngineKind.SQLITE, write, read)


def _identity(url: sa.URL) -> tuple[int, int] | None:
    try:
        status = Path(str(url.database)).stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _refuse_another_file(connection: sa.Connection, url: sa.URL) -> None:
    """What is written to a file that was removed is lost with the program, also what it has accepted."""
    if _identity(url) != connection.info["file"]:
        raise StoreUnavailable(
            f"{url.database} was removed or replaced since this program opened it; start the program again "
            "when the right one is in its place"
        )


def _libsql(url: sa.URL) -> Engines:
    # SQLite's dialect would choose a pool by the file's name; a server has connections.
    write = _engine(url, poolclass=sa.QueuePool, pool_size=1, max_overflow=0, pool_timeout=60)
    read = _engine(url, poolclass=sa.QueuePool, pool_size=4, max_overflow=12)
    event.listen(write, "begin", _begin_when_free)
    event.listen(read, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    for engine in (write, read):
        event.listen(engine, "handle_error", _leave_if_unanswered)
    return Engines(EngineKind.LIBSQL, write, read)


def _begin_when_free(connection: sa.Connection) -> None:
    """IMMEDIATE: nobody waits for a read transaction that turns into a writing one.

    Waits by itself. SQLite would sleep up to a tenth of a second between two looks, and the file lie idle;
    libSQL's server lets writers queue for a tenth of a second only.
    """
    pause = _SHORTEST_WAIT_S
    while True:
        try:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        except sa.exc.OperationalError as error:
            if not _is_busy(error) or not seconds_left():
                raise
            time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  jitter, not a secret
            pause = min(2 * pause, _LONGEST_WAIT_S)
        else:
            return


def _is_busy(error: sa.exc.OperationalError) -> bool:
    name = getattr(error.orig, "sqlite_errorname", None) or str(error.orig)
    return "SQLITE_BUSY" in str(name)


def _leave_if_unanswered(context: sa.ExceptionContext) -> None:
    # No error of the database, so no answer: what it does with the statement is unknown, and whatever
    # comes next on this connection would come into it.
    if context.sqlalchemy_exception is None:
        context.is_disconnect = True


# Every statement here finds its rows by key or by a small partial index. Told so, the planner does so
# whatever the statistics say: a batch visits its rows one by one in its own order (so sorted batches
# cannot deadlock), and no million finished rows are ever read through.
_POSTGRES_SESSION = {
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    # A worker that freezes inside a transaction lets go of what it locked.
    "idle_in_transaction_session_timeout": "30s",
}


def _postgres(url: sa.URL) -> Engines:
    # Ten seconds to connect: a host that swallows packets must not hold a command for minutes.
    # The rest notices a peer that is gone without a word, in half a minute.
    options = {
        "connect_timeout": 10,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 4,
        "tcp_user_timeout": 30_000,
        "client_encoding": "utf8",
    }
    # Whatever the server's default: a group's members are counted after its lock was got, by a statement that
    # must see what was committed before.
    engine = _engine(
        url,
        pool_size=8,
        max_overflow=24,
        pool_timeout=60,
        connect_args=options,
        isolation_level="READ COMMITTED",
    )

    @event.listens_for(engine, "connect")
    def set_up(connection: Any, _: Any) -> None:
        for name, value in _POSTGRES_SESSION.items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        connection.commit()

    @event.listens_for(engine, "handle_error")
    def leave_standby(context: sa.ExceptionContext) -> None:
        # After a failover this server may stay a standby, and the address lead to another by now.
        if getattr(context.original_exception, "sqlstate", None) == READ_ONLY:
            context.is_disconnect = True

    return Engines(EngineKind.POSTGRES, engine, engine)
