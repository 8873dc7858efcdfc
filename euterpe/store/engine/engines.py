"""Open SQLite, libSQL or Postgres: connection pools, pragmas, session settings and the BEGIN statement."""

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
from euterpe.runtime.installation import install_hint
from euterpe.runtime.retry import jittered
from euterpe.store.engine.write_wait import seconds_left
from euterpe.store.errors import StoreUnavailable, UnsupportedDatabase

# SQLite's busy timeout. This timeout applies to every connection while the connection is opened. Afterwards
# it applies only to connections that read.
BUSY_TIMEOUT_MS = 30_000
# SQLSTATE read_only_sql_transaction: a write on a Postgres standby.
READ_ONLY = "25006"
_SHORTEST_WAIT_S, _LONGEST_WAIT_S = 0.000_2, 0.004


class EngineKind(StrEnum):
    SQLITE = "sqlite"
    LIBSQL = "libsql"
    POSTGRES = "postgres"


@dataclass(frozen=True)
class Engines:
    """A connection pool for writing and one for reading.

    On the SQLite family the write pool has one connection, so the threads of a process wait for each other in
    memory, and not for the lock on the file.
    """

    kind: EngineKind
    write: sa.Engine
    read: sa.Engine

    @property
    def locks_rows(self) -> bool:
        """Return whether several transactions can write at once.

        If they can, each batch must lock its rows in key order, because two batches could deadlock otherwise.
        """
        return self.kind is EngineKind.POSTGRES

    @property
    def read_limit(self) -> int:
        """Return the limit on the number of rows for a query that reads specs or secrets.

        libSQL's server limits a response to 10 MiB. A row may have 256 KiB of spec and 256 KiB of outputs.
        """
        return 15 if self.kind is EngineKind.LIBSQL else 1_000

    def dispose(self) -> None:
        self.write.dispose()
        self.read.dispose()


def sqlite_file(url: str) -> Path | None:
    """Return the path of an SQLite database, or None for another engine."""
    kind, parsed = _parse(url)
    return Path(str(parsed.database)) if kind is EngineKind.SQLITE else None


def database_place(url: str) -> str:
    """Return the engine with its file or its server, without user, password and options."""
    kind, parsed = _parse(url)
    if kind is EngineKind.SQLITE:
        return f"{kind}, {Path(str(parsed.database)).absolute()}"
    place = f"{parsed.host or ''}{f':{parsed.port}' if parsed.port else ''}/{parsed.database or ''}"
    # An unescaped `@` or `/` in a password makes a part of the password look like the host.
    return (
        f"{kind}, an address whose password has unescaped characters" if "@" in place else f"{kind}, {place}"
    )


def open_engines(url: str) -> Engines:
    """Return unconnected pools for a database URL; raise UnsupportedDatabase if the URL cannot be used."""
    kind, parsed = _parse(url)
    opener = {EngineKind.SQLITE: _sqlite, EngineKind.LIBSQL: _libsql, EngineKind.POSTGRES: _postgres}[kind]
    try:
        return opener(parsed)
    except ModuleNotFoundError as error:
        raise UnsupportedDatabase(f"{kind} needs the package {error.name}; {install_hint(kind)}") from error


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
    """A compiler that writes the text of `Select.with_hint`, which SQLAlchemy omits for SQLite."""

    def get_from_hint_text(self, table: sa.FromClause, text: str | None) -> str | None:  # noqa: ARG002
        return text


def _engine(url: sa.URL, **options: object) -> sa.Engine:
    # A logged error must not show the statement's parameters: specs, events, ciphertext.
    engine = sa.create_engine(url, hide_parameters=True, **options)
    if engine.dialect.name == "sqlite":
        engine.dialect.statement_compiler = _HintingCompiler
    return engine


def _sqlite(url: sa.URL) -> Engines:
    def prepare(connection: Any, read_only: bool) -> None:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode == "wal" and not read_only:
            # Disable SQLite's own wait for locks: `_begin_when_free` waits for the write lock, which is the
            # only lock that a writer waits for in WAL mode.
            connection.execute("PRAGMA busy_timeout = 0")
            # Keep the statement journal in memory. SQLite would write a journal of more than 64 KiB (about a
            # hundred jobs) to a file. For a large batch, this write would take 5 % of the batch's time.
            connection.execute("PRAGMA temp_store = MEMORY")
            # The WAL grows while a stalled reader needs it. Afterwards SQLite truncates the WAL to 64 MiB.
            connection.execute("PRAGMA journal_size_limit = 67108864")
        # With FULL, a job whose request was answered with 202 survives a power loss (docs/guarantees.md).
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA query_only = {int(read_only)}")

    # The driver is in autocommit mode: the `begin` listeners below send BEGIN.
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
    event.listen(write, "begin", _set_durability)
    event.listen(write, "begin", _begin_when_free)
    event.listen(read, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    return Engines(EngineKind.SQLITE, write, read)


def relaxed(engines: Engines) -> sa.Engine:
    """Return an engine that uses the pool for writing, and commits without waiting for the disk.

    With libSQL this has no effect, because the server decides when it waits for its disk.
    """
    engine = engines.write.execution_options(is_relaxed=True)
    if engines.kind is EngineKind.POSTGRES:
        event.listen(engine, "begin", lambda c: c.exec_driver_sql("SET LOCAL synchronous_commit = off"))
    return engine


def _set_durability(connection: sa.Connection) -> None:
    """Set whether the commit waits for the disk, unless the connection already has the wanted setting."""
    is_relaxed = bool(connection.get_execution_options().get("is_relaxed"))
    if is_relaxed is not connection.info.get("is_relaxed", False):
        connection.exec_driver_sql(f"PRAGMA synchronous = {'NORMAL' if is_relaxed else 'FULL'}")
        connection.info["is_relaxed"] = is_relaxed


def _identity(url: sa.URL) -> tuple[int, int] | None:
    try:
        status = Path(str(url.database)).stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _refuse_another_file(connection: sa.Connection, url: sa.URL) -> None:
    """Raise StoreUnavailable if the database file was removed or replaced since it was opened.

    Otherwise jobs could be accepted into a removed file, and would be lost when the program ends.
    """
    if _identity(url) != connection.info["file"]:
        raise StoreUnavailable(
            f"{url.database} was removed or replaced since this program opened it; start the program again "
            "when the right file is back"
        )


def _libsql(url: sa.URL) -> Engines:
    # Set the pool class, because SQLite's dialect would choose a class by the name of the database file, and
    # the URL of a server has no file name.
    write = _engine(url, poolclass=sa.QueuePool, pool_size=1, max_overflow=0, pool_timeout=60)
    read = _engine(url, poolclass=sa.QueuePool, pool_size=4, max_overflow=12)
    event.listen(write, "begin", _begin_when_free)
    event.listen(read, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    for engine in (write, read):
        event.listen(engine, "handle_error", _discard_if_unanswered)
    return Engines(EngineKind.LIBSQL, write, read)


def _begin_when_free(connection: sa.Connection) -> None:
    """Send BEGIN IMMEDIATE; while another writer has the lock, retry after short pauses, until the deadline.

    IMMEDIATE takes the write lock at once, so no transaction has to change from reading to writing. SQLite's
    own retries would sleep for up to 0.1 s, even if the lock becomes free earlier. libSQL's server lets a
    writer wait for only 0.1 s.
    """
    pause = _SHORTEST_WAIT_S
    while True:
        try:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        except sa.exc.OperationalError as error:
            if not _is_busy(error) or not seconds_left():
                raise
            time.sleep(jittered(pause, 0.5, 1.0))
            pause = min(2 * pause, _LONGEST_WAIT_S)
        else:
            return


def _is_busy(error: sa.exc.OperationalError) -> bool:
    name = getattr(error.orig, "sqlite_errorname", None) or str(error.orig)
    return "SQLITE_BUSY" in str(name)


def _discard_if_unanswered(context: sa.ExceptionContext) -> None:
    # Without a SQLAlchemy exception the error did not come from the database, so the statement may still be
    # running. Discard the connection: its next statement could become part of the unfinished transaction.
    if context.sqlalchemy_exception is None:
        context.is_disconnect = True


# Every statement of the store finds its rows by key or by a small partial index. These settings make the
# planner use the indexes, whatever the statistics say. So a statement never scans a million finished rows. A
# statement visits its rows one by one in the order of its batch, so that sorted batches cannot deadlock.
_POSTGRES_SESSION = {
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    # Release the locks of a worker that freezes inside a transaction.
    "idle_in_transaction_session_timeout": "30s",
}


def _postgres(url: sa.URL) -> Engines:
    # Limit the time to connect to ten seconds: otherwise a host that drops packets would block a command for
    # minutes. If a server vanishes without closing the connection, the keepalives detect this within half a
    # minute.
    options = {
        "connect_timeout": 10,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 4,
        "tcp_user_timeout": 30_000,
        "client_encoding": "utf8",
    }
    # Set READ COMMITTED, because the server may have another default. The statement that counts a group's
    # jobs runs after the statement that locks the group, and must see all jobs that were committed before the
    # lock was granted.
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
    def discard_standby(context: sa.ExceptionContext) -> None:
        # Discard the connection: after a failover it may still lead to a standby, and a new connection to the
        # same address leads to the new primary.
        if getattr(context.original_exception, "sqlstate", None) == READ_ONLY:
            context.is_disconnect = True

    return Engines(EngineKind.POSTGRES, engine, engine)
