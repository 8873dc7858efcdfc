"""A `Dedupe` in a database of the receiver, on any engine that Euterpe supports.

The rest of the client does not import this module, and so needs no SQLAlchemy.
"""

import threading
from time import monotonic
from types import TracebackType
from typing import Self

from euterpe.runtime.installation import install_hint

try:
    import sqlalchemy as sa
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"SqlDedupe needs the package {error.name}; {install_hint('service')}", name=error.name
    ) from error

from euterpe.store.engine.clock import Clock
from euterpe.store.engine.database import Database
from euterpe.store.engine.engines import EngineKind

_DAY_S = 86_400
_DELETE_EVERY_S = 60.0
# The lock prevents two programs from creating the table at once. Its number is arbitrary, but must be the
# same in all programs.
_ADVISORY_LOCK = 0x657574646564

_received = sa.Table(
    "euterpe_received_events",
    sa.MetaData(),
    sa.Column("event_id", sa.Text, primary_key=True),
    sa.Column("received_at", sa.BigInteger, nullable=False, index=True),
)


class SqlDedupe:
    """A `Dedupe` that keeps each event id for `keep_seconds` in the table `euterpe_received_events`.

    The constructor creates the table if it is missing. Any number of processes may share the table.
    """

    def __init__(
        self, database_url: str, *, keep_seconds: int = 30 * _DAY_S, clock: Clock | None = None
    ) -> None:
        self._database = Database(database_url, clock)
        self._keep_ms = keep_seconds * 1000
        self._delete_lock = threading.Lock()
        self._delete_at = monotonic()
        with self._database.transaction() as connection:
            if self._database.kind is EngineKind.POSTGRES:
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
            _received.create(connection, checkfirst=True)

    def first_time(self, event_id: str) -> bool:
        self._delete_old_rows()
        mark = self._database.insert(_received).values(event_id=event_id, received_at=self._database.now)
        fresh = mark.on_conflict_do_nothing().returning(_received.c.event_id)
        with self._database.transaction() as connection:
            return connection.execute(fresh).first() is not None

    def forget(self, event_id: str) -> None:
        with self._database.transaction() as connection:
            connection.execute(sa.delete(_received).where(_received.c.event_id == event_id))

    def _delete_old_rows(self) -> None:
        with self._delete_lock:
            if monotonic() < self._delete_at:
                return
            self._delete_at = monotonic() + _DELETE_EVERY_S
        old = _received.c.received_at < self._database.now - self._keep_ms
        with self._database.transaction() as connection:
            connection.execute(sa.delete(_received).where(old))

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
