"""Transactions with typed errors, on whichever engine."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.dialects import postgresql, sqlite

from euterpe.domain.errors import InvalidTransition
from euterpe.store.engine.clock import Clock, DatabaseClock
from euterpe.store.engine.deadlines import WRITE_WAIT_S, in_time, waiting_until
from euterpe.store.engine.engines import READ_ONLY, EngineKind, Engines, open_engines
from euterpe.store.engine.fifo_lock import FifoLock
from euterpe.store.engine.wakeup import Listener, Topic, announcer, listen
from euterpe.store.errors import StoreError, StoreUnavailable

_Claim = TypeVar("_Claim")


class Database:
    def __init__(self, url: str, clock: Clock | None = None, *, write_wait_s: float = WRITE_WAIT_S) -> None:
        self.write_wait_s = write_wait_s
        self.engines: Engines = open_engines(url)
        self.clock: Clock = clock or DatabaseClock()
        self._announcer = announcer(self.engines)
        self._turn = nullcontext if self.engines.locks_rows else FifoLock().turn
        self.now: sa.ColumnElement[int] = self.clock.now(self.engines.write.dialect.name)

    @property
    def kind(self) -> EngineKind:
        return self.engines.kind

    @contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """Everything in it, or nothing. What was announced in it is told once it is committed."""
        topics: set[Topic] = set()
        with (
            _typed_errors(),
            waiting_until(in_time(self.write_wait_s)),
            self._turn(),
            self.engines.write.begin() as connection,
        ):
            connection.info["topics"] = topics
            yield connection
        for topic in topics:
            self._announcer.announce(topic)

    def announce(self, connection: sa.Connection, topic: Topic) -> None:
        """Wakes whoever waits for this, after the commit."""
        connection.info["topics"].add(topic)

    def listen(self, topic: Topic) -> Listener:
        return listen(self.engines, topic)

    @contextmanager
    def snapshot(self) -> Iterator[sa.Connection]:
        """For reading."""
        with _typed_errors(), self.engines.read.begin() as connection:
            yield connection

    def in_parts(self, limit: int, claim: Callable[[int], list[_Claim]]) -> list[_Claim]:
        """Claims up to `limit` rows, each time as many as one answer may hold."""
        claimed: list[_Claim] = []
        while len(claimed) < limit:
            part = min(limit - len(claimed), self.engines.read_limit)
            try:
                found = claim(part)
            except StoreUnavailable:
                if not claimed:
                    raise
                return claimed  # owned already: unknown to their owner they would wait for their leases
            claimed += found
            if len(found) < part:
                break
        return claimed

    def read_clock(self, connection: sa.Connection) -> int:
        return int(connection.execute(sa.select(self.now)).scalar_one())

    def journal_mode(self) -> str:
        """Of an SQLite database: `wal`, unless its file system cannot do that."""
        with self.snapshot() as connection:
            return str(connection.exec_driver_sql("PRAGMA journal_mode").scalar_one())

    def server_encoding(self) -> str:
        """Of a Postgres database."""
        with self.snapshot() as connection:
            return str(connection.exec_driver_sql("SHOW server_encoding").scalar_one())

    def settle_statistics(self) -> None:
        """After a bulk load: what a server would do by itself a minute later."""
        if self.kind is EngineKind.POSTGRES:
            with self.engines.write.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
                connection.exec_driver_sql("VACUUM (ANALYZE)")
        elif self.kind is EngineKind.SQLITE:
            with self.transaction() as connection:
                connection.exec_driver_sql("ANALYZE")

    def insert(self, table: sa.Table) -> Any:
        """The engine's INSERT, for `on_conflict_…`: same words on both, two classes in SQLAlchemy."""
        return postgresql.insert(table) if self.kind is EngineKind.POSTGRES else sqlite.insert(table)

    def close(self) -> None:
        self._announcer.stop()
        self.engines.dispose()


# What the SQLite family says when the file or the server is away, the disk is full, or others write too long.
_PASSING = (
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
# What a server says to a client that it will never let in as it is.
_REFUSED = ("does not exist", "authentication failed", "no pg_hba.conf entry", "401, message")


@contextmanager
def _typed_errors() -> Iterator[None]:
    """Raise the store's errors instead of the driver's.

    `from None`, because Postgres puts whole rows into the details of its errors, and a traceback that is
    logged prints the errors that caused it: `DETAIL: Failing row contains (…)` with the job's spec in it.
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
        raise _with_statement(_of_driver(error), error) from None
    except (exc.StatementError, UnicodeError, OverflowError) as error:
        raise StoreError(f"a value is not one that the database can hold: {type(error).__name__}") from None
    except Exception as error:
        # libsql-client lets some errors of its web socket out as they are.
        if not isinstance(error, OSError) and not type(error).__module__.startswith("aiohttp"):
            raise
        reason = str(error) or type(error).__name__
        raise StoreUnavailable(f"the database cannot be reached right now: {reason}") from None


def _of_driver(error: exc.DBAPIError) -> StoreError:
    # libSQL's server hangs up on text that is no UTF-8 (1007): sending it again will not help.
    unreadable = "closed with code 1007" in str(error.orig)
    says = _without_rows(error)
    if not unreadable and (error.connection_invalidated or _is_passing(error)):
        return StoreUnavailable(f"the database cannot be reached right now: {says}")
    if _tells_of_damage(error):
        return StoreError(f"the database is damaged: {says}; restore it from a backup")
    return StoreError(says)


def _with_statement(raised: StoreError, error: exc.DBAPIError) -> StoreError:
    """Return the error with a note for the log: the statement, whose parameters are not in its text."""
    if error.statement is not None:
        raised.add_note(f"SQL: {error.statement}")
    return raised


def _without_rows(error: exc.DBAPIError) -> str:
    """Return what the driver says, without the row or the value that it says it of.

    The lines after the first quote rows. In Postgres' class 22 (data exception) the first quotes the value.
    """
    state = getattr(error.orig, "sqlstate", None)
    if state is not None and state.startswith("22"):
        return f"{type(error.orig).__name__} (SQLSTATE {state})"
    return str(error.orig).strip().partition("\n")[0]


def _tells_of_damage(error: exc.DBAPIError) -> bool:
    name = str(getattr(error.orig, "sqlite_errorname", ""))
    return name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")) or getattr(error.orig, "sqlstate", None) in (
        "XX001",
        "XX002",
    )


def _is_passing(error: exc.DBAPIError) -> bool:
    state = getattr(error.orig, "sqlstate", None)
    if state is not None:
        # 08 connection, 40 rollback (deadlock), 53 resources, 57 operator; too long a lock or transaction.
        return state[:2] in ("08", "40", "53", "57") or state in ("25P03", "55P03", READ_ONLY)
    name = getattr(error.orig, "sqlite_errorname", None)
    if name is not None:
        return str(name).startswith(_PASSING)
    # psycopg raises OperationalError without a state only when there is no connection; libpq tells why
    # in words alone.
    return isinstance(error, exc.OperationalError) and not any(word in str(error.orig) for word in _REFUSED)
