"""Run transactions on any engine, and raise the store's errors instead of the driver's."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.dialects import postgresql, sqlite

from euterpe.domain.errors import InvalidTransition
from euterpe.store.engine.clock import Clock, DatabaseClock
from euterpe.store.engine.engines import READ_ONLY, EngineKind, Engines, open_engines, relaxed
from euterpe.store.engine.outage import OutageWatch
from euterpe.store.engine.wakeup import Listener, Topic, announcer, listen
from euterpe.store.engine.write_wait import WRITE_WAIT_S, FifoLock, deadline_after, write_deadline
from euterpe.store.errors import StoreError, StoreUnavailable

_Claim = TypeVar("_Claim")
# Outages shorter than this are ignored. A worker sends a heartbeat every 15 s by default, so such an outage
# is over before the next heartbeat.
_OUTAGE_S = 15.0
_LOCK_KEYS = sa.text("SELECT pg_advisory_xact_lock(key) FROM unnest(CAST(:keys AS bigint[])) AS key")


class Database:
    """The connections to one database, its clock and its wake-ups. Thread-safe."""

    def __init__(
        self,
        url: str,
        clock: Clock | None = None,
        *,
        write_wait_s: float = WRITE_WAIT_S,
        outage: OutageWatch | None = None,
    ) -> None:
        self.write_wait_s = write_wait_s
        self.outage = outage or OutageWatch(least_s=_OUTAGE_S)
        self.engines: Engines = open_engines(url)
        self._relaxed = relaxed(self.engines)
        self.clock: Clock = clock or DatabaseClock()
        self._announcer = announcer(self.engines)
        self._turn = nullcontext if self.engines.locks_rows else FifoLock().turn
        self.now: sa.ColumnElement[int] = self.clock.now(self.engines.write.dialect.name)

    @property
    def kind(self) -> EngineKind:
        return self.engines.kind

    @contextmanager
    def transaction(self, *, durable: bool = True) -> Iterator[sa.Connection]:
        """Run the block in a write transaction. At its commit, send the wake-ups that the block announced.

        Without `durable`, the commit does not wait for the disk. A power loss before the next durable commit
        can undo the transaction. A crash of the process cannot undo the transaction.
        """
        topics: set[Topic] = set()
        engine = self.engines.write if durable else self._relaxed
        with (
            self._watched(),
            _typed_errors(),
            write_deadline(deadline_after(self.write_wait_s)),
            self._turn(),
            engine.begin() as connection,
        ):
            connection.info["topics"] = topics
            yield connection
            if topics and self._announcer.announce_in(connection, topics):
                topics.clear()
        for topic in topics:
            self._announcer.announce(topic)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        began_at = self.outage.monotonic()
        try:
            yield
        except StoreUnavailable:
            self.outage.failed(began_at)
            raise
        self.outage.succeeded()

    def announce(self, connection: sa.Connection, topic: Topic) -> None:
        """Wake the listeners of this topic when the transaction of `connection` has committed."""
        connection.info["topics"].add(topic)

    def listen(self, topic: Topic) -> Listener:
        return listen(self.engines, topic)

    @contextmanager
    def snapshot(self) -> Iterator[sa.Connection]:
        """Run the block in a transaction that only reads."""
        with _typed_errors(), self.engines.read.begin() as connection:
            yield connection

    def claim_in_batches(self, limit: int, claim: Callable[[int], list[_Claim]]) -> list[_Claim]:
        """Claim up to `limit` rows, with calls of `claim` for at most `read_limit` rows each."""
        claimed: list[_Claim] = []
        while len(claimed) < limit:
            part = min(limit - len(claimed), self.engines.read_limit)
            try:
                found = claim(part)
            except StoreUnavailable:
                if not claimed:
                    raise
                # Do not raise this error: the rows claimed so far would be unused until their leases expire.
                return claimed
            claimed += found
            if len(found) < part:
                break
        return claimed

    def read_clock(self, connection: sa.Connection) -> int:
        return int(connection.execute(sa.select(self.now)).scalar_one())

    def journal_mode(self) -> str:
        """Return an SQLite database's journal mode, which is `wal` if the file system supports WAL."""
        with self.snapshot() as connection:
            return str(connection.exec_driver_sql("PRAGMA journal_mode").scalar_one())

    def server_encoding(self) -> str:
        """Return the character encoding of a Postgres database."""
        with self.snapshot() as connection:
            return str(connection.exec_driver_sql("SHOW server_encoding").scalar_one())

    def vacuum_and_analyze(self) -> None:
        """Update the planner's statistics after a bulk load; on Postgres, also vacuum the tables.

        Postgres' autovacuum would do the same a minute later.
        """
        if self.kind is EngineKind.POSTGRES:
            with self.engines.write.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
                connection.exec_driver_sql("VACUUM (ANALYZE)")
        elif self.kind is EngineKind.SQLITE:
            with self.transaction() as connection:
                connection.exec_driver_sql("ANALYZE")

    def lock_names(self, connection: sa.Connection, names: Iterable[str]) -> None:
        """Lock these names until the transaction ends. Wait while another transaction holds one of them.

        SQLite and libSQL have only one writer, so no lock is needed there.
        """
        if self.engines.locks_rows:
            # Sorted keys prevent deadlocks between two calls that share names.
            keys = sorted({_lock_key(name) for name in names})
            connection.execute(_LOCK_KEYS, {"keys": keys})

    def insert(self, table: sa.Table) -> Any:
        """Return an INSERT of the engine's dialect. SQLAlchemy's general INSERT has no ON CONFLICT."""
        return postgresql.insert(table) if self.kind is EngineKind.POSTGRES else sqlite.insert(table)

    def close(self) -> None:
        self._announcer.stop()
        self.engines.dispose()


# Transient errors of the SQLite family: file or server unavailable, disk full, or other writes took too long.
_TRANSIENT = (
    "SQLITE_BUSY",
    "SQLITE_LOCKED",
    "SQLITE_CANTOPEN",
    "SQLITE_IOERR",
    "SQLITE_FULL",
    "SQLITE_READONLY",
    "SQLITE_PROTOCOL",
    "HRANA_",
    "STREAM_",
    "CLIENT_CLOSED",
    "TRANSACTION_TIMEOUT",
)
# Parts of the messages with which a Postgres or libSQL server rejects a client permanently.
_REJECTED = ("does not exist", "authentication failed", "no pg_hba.conf entry", "401, message")


@contextmanager
def _typed_errors() -> Iterator[None]:
    """Raise the store's errors instead of the driver's.

    The store's errors are raised `from None`: otherwise a logged traceback would also print the driver's
    error. Postgres puts whole rows into its errors (`DETAIL: Failing row contains`), so the log would
    contain the job's spec.
    """
    try:
        yield
    except exc.IntegrityError as error:
        if "invalid transition" in str(error.orig):
            raise InvalidTransition("?", "?", "the database refused it") from None
        raise _with_statement(StoreError(_without_rows(error)), error) from None
    except exc.TimeoutError:
        raise StoreUnavailable("every database connection of this process is busy; try again") from None
    except exc.DBAPIError as error:
        raise _with_statement(_from_driver(error), error) from None
    except (exc.StatementError, UnicodeError, OverflowError) as error:
        raise StoreError(f"the database cannot store a value: {type(error).__name__}") from None
    except Exception as error:
        # libsql-client does not wrap some errors of its web socket.
        if not isinstance(error, OSError) and not type(error).__module__.startswith("aiohttp"):
            raise
        reason = str(error) or type(error).__name__
        raise StoreUnavailable(f"the database cannot be reached right now: {reason}") from None


def _from_driver(error: exc.DBAPIError) -> StoreError:
    # libSQL's server closes the connection with code 1007 on text that is not UTF-8. A retry would fail, too.
    unreadable = "closed with code 1007" in str(error.orig)
    message = _without_rows(error)
    if not unreadable and (error.connection_invalidated or _is_transient(error)):
        return StoreUnavailable(f"the database cannot be reached right now: {message}")
    if _is_damage(error):
        return StoreError(f"the database is damaged: {message}; restore it from a backup")
    return StoreError(message)


def _with_statement(raised: StoreError, error: exc.DBAPIError) -> StoreError:
    """Return the error with the SQL statement as a note for the log. The statement contains no values."""
    if error.statement is not None:
        raised.add_note(f"SQL: {error.statement}")
    return raised


def _without_rows(error: exc.DBAPIError) -> str:
    """Return the first line of the driver's message, because the other lines may quote a row.

    For an error of Postgres' class 22 (data exception), return only its type and its SQLSTATE, because the
    first line quotes a value.
    """
    state = getattr(error.orig, "sqlstate", None)
    if state is not None and state.startswith("22"):
        return f"{type(error.orig).__name__} (SQLSTATE {state})"
    return str(error.orig).strip().partition("\n")[0]


def _is_damage(error: exc.DBAPIError) -> bool:
    name = str(getattr(error.orig, "sqlite_errorname", ""))
    return name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")) or getattr(error.orig, "sqlstate", None) in (
        "XX001",
        "XX002",
    )


def _is_transient(error: exc.DBAPIError) -> bool:
    state = getattr(error.orig, "sqlstate", None)
    if state is not None:
        # Transient classes: 08 connection, 40 rollback (deadlock), 53 resources, 57 operator intervention.
        # Transient states: 25P03 timeout of an idle transaction, 55P03 timeout of a lock.
        return state[:2] in ("08", "40", "53", "57") or state in ("25P03", "55P03", READ_ONLY)
    name = getattr(error.orig, "sqlite_errorname", None)
    if name is not None:
        return str(name).startswith(_TRANSIENT)
    # psycopg raises OperationalError without a SQLSTATE only if there is no connection. libpq gives the
    # reason only as text, so search this text for a permanent rejection.
    return isinstance(error, exc.OperationalError) and not any(word in str(error.orig) for word in _REJECTED)


def _lock_key(name: str) -> int:
    """Return the key of an advisory lock.

    If two names have the same key, calls that lock these names wait for each other needlessly.
    """
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], signed=True)
