"""The ownership protocol, written once for every table that workers own rows of.

A row is owned by whoever last raised its `claim_version`, for as long as its lease is kept alive.
`write` is the only statement that changes a row's status, and it is fenced: a change names the
`claim_version` and the status that its author saw, and changes nothing when either has moved on.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import sqlalchemy as sa

from euterpe.domain.states import Lane
from euterpe.store.database import Database
from euterpe.store.rows import AnyRow, AnySelect, Rows, as_parameter

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Change(NamedTuple):
    """One fenced change of one row. (A tuple: a frozen dataclass takes four times as long to make.)"""

    key: str
    claim_version: int  # the fence: as its author last saw it
    source: str
    target: str
    lane: Lane
    worker_id: str | None = None  # the owner, where the row is owned afterwards
    lease_ms: int | None = None  # how long from now it is owned
    raises_version: bool = False  # a new owner, or the old one put out
    attempts: int = 0  # added to attempt_count
    delay_ms: int | None = None  # not to be claimed before this time has passed
    extra: Mapping[str, Any] = _NOTHING

    def row(self) -> dict[str, Any]:
        row: dict[str, Any] = {
            "key": self.key,
            "version": self.claim_version,
            "source": self.source,
            "target": self.target,
            "lane": self.lane,
            "raise": int(self.raises_version),
            "attempts": self.attempts,
        }
        if self.lease_ms is not None:
            row["worker"], row["lease_ms"] = self.worker_id, self.lease_ms
        if self.delay_ms is not None:
            row["delay_ms"] = self.delay_ms
        if self.extra:
            row.update(self.extra)
        return row


class Holding(NamedTuple):
    """A claim that somebody believes to hold."""

    key: str
    claim_version: int


class LeasedTable:
    def __init__(
        self,
        database: Database,
        table: sa.Table,
        *,
        order: Sequence[sa.ColumnElement[Any]],
        extras: Callable[[Rows], Mapping[str, sa.ColumnElement[Any]]],
        returning: Sequence[sa.ColumnElement[Any]],
    ) -> None:
        """`order` is that of claims; `extras` sets the table's own columns from a change's `extra`;
        `returning` is what `write` tells of each row that held."""
        self._database, self.table = database, table
        (self.key,) = table.primary_key.columns
        self._order = order
        self._write = self._write_statement(extras, returning)
        self._beat = self._beat_statement()
        self._promote = self._promote_statement()

    def lane_is(self, lane: Lane) -> sa.ColumnElement[bool]:
        # A literal in the text: SQLite decides at prepare time whether a partial index applies.
        return self.table.c.lane == sa.literal_column(f"'{lane}'")

    # -- candidates: rows picked here stay locked until the transaction ends

    def ready(self, columns: Iterable[sa.ColumnElement[Any]], *where: sa.ColumnElement[bool]) -> AnySelect:
        """The next rows to claim, `:limit` of them, past the ones that others are claiming now."""
        return self._pick(columns, Lane.READY, *where, order=self._order)

    def expired(self, columns: Iterable[sa.ColumnElement[Any]]) -> AnySelect:
        """Owned rows whose owner let the lease run out."""
        return self._pick(
            columns, Lane.LEASED, self.table.c.lease_expires_at < self._database.now, order=[self.key]
        )

    def _pick(
        self,
        columns: Iterable[sa.ColumnElement[Any]],
        lane: Lane,
        *where: sa.ColumnElement[bool],
        order: Sequence[sa.ColumnElement[Any]],
    ) -> AnySelect:
        picked = sa.select(*columns).where(self.lane_is(lane), *where)
        return picked.order_by(*order).limit(sa.bindparam("limit")).with_for_update(skip_locked=True)

    def promote_due(self, connection: sa.Connection, limit: int) -> Sequence[AnyRow]:
        """Moves delayed rows whose time has come where a claim finds them. Their status stays."""
        return connection.execute(self._promote, {"limit": limit}).all()

    # -- the writes: batches are sorted, because two that share rows would deadlock if they locked them in
    #    different orders (`engines.py` sees to it that Postgres visits the rows in the order of the batch)

    def write(self, connection: sa.Connection, changes: Sequence[Change]) -> Sequence[AnyRow]:
        """Applies each change whose fence holds, and returns the rows of exactly those."""
        if not changes:
            return ()
        in_order = sorted(changes, key=lambda change: change.key)
        return connection.execute(self._write, as_parameter(change.row() for change in in_order)).all()

    def heartbeat(
        self, connection: sa.Connection, holdings: Sequence[Holding], lease_ms: int
    ) -> Sequence[AnyRow]:
        """Extends every lease that is still held and has not run out; returns the rows of those."""
        if not holdings:
            return ()
        in_order = sorted(holdings, key=lambda holding: holding.key)
        rows = [{"key": h.key, "version": h.claim_version, "lease_ms": lease_ms} for h in in_order]
        return connection.execute(self._beat, as_parameter(rows)).all()

    # -- the statements, compiled once and cached by their unchanging text

    def _write_statement(
        self,
        extras: Callable[[Rows], Mapping[str, sa.ColumnElement[Any]]],
        returning: Sequence[sa.ColumnElement[Any]],
    ) -> sa.Executable:
        columns, rows, now = self.table.c, Rows(), self._database.now
        lease_ms, delay_ms = rows.integer("lease_ms"), rows.integer("delay_ms")
        values = {
            "status": rows.text("target"),
            "lane": rows.text("lane"),
            "worker_id": rows.text("worker"),
            "claim_version": columns.claim_version + rows.integer("raise"),
            # NULL where the change names no lease: a row not in progress has none.
            "lease_expires_at": now + lease_ms,
            "heartbeat_at": sa.case((lease_ms.is_not(None), now)),
            "attempt_count": columns.attempt_count + rows.integer("attempts"),
            "available_at": sa.func.coalesce(now + delay_ms, columns.available_at),
        }
        return (
            sa.update(self.table)
            .values({**values, **extras(rows)})
            .where(
                self.key == rows.text("key"),
                columns.claim_version == rows.integer("version"),
                columns.status == rows.text("source"),
            )
            .returning(*returning)
        )

    def _beat_statement(self) -> sa.Executable:
        columns, rows, now = self.table.c, Rows(), self._database.now
        return (
            sa.update(self.table)
            .values(lease_expires_at=now + rows.integer("lease_ms"), heartbeat_at=now)
            .where(
                self.key == rows.text("key"),
                columns.claim_version == rows.integer("version"),
                # Not `>= now`: Postgres would expect few such rows and read the table to find them.
                columns.lease_expires_at - now >= 0,
            )
            .returning(*columns)
        )

    def _promote_statement(self) -> sa.Executable:
        columns = self.table.c
        due = sa.select(self.key).where(
            self.lane_is(Lane.DELAYED), columns.available_at <= self._database.now
        )
        due = due.order_by(columns.available_at, self.key).limit(sa.bindparam("limit"))
        due = due.with_for_update(skip_locked=True)
        grouped = columns.get("group_id")
        lane: sa.ColumnElement[str] = sa.literal(Lane.READY.value)
        if grouped is not None:
            # A group's jobs wait for their place in it.
            lane = sa.case((grouped.is_not(None), Lane.BLOCKED.value), else_=Lane.READY.value)
        picked = due.cte("due").prefix_with("MATERIALIZED")
        return (
            sa.update(self.table)
            .values(lane=lane)
            .where(self.key.in_(sa.select(picked.c[self.key.name])), self.lane_is(Lane.DELAYED))
            .returning(*columns)
        )
