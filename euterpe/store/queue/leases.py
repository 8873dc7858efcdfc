"""Atomic claims, leases with heartbeats, and fenced writes for every table whose rows workers own.

A row belongs to the claim that last raised its `claim_version`. When the lease has expired, the sweep raises
the version again, which fences off the old owner. `write` is the only statement that changes a row's status.
It checks the transition table, and it is fenced: a change names the `claim_version` and the status that its
author saw, and changes nothing when either is out of date.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.types import TypeEngine

from euterpe.domain.states import Lane
from euterpe.store.engine.batch_rows import INTEGER, TEXT, AnyRow, AnySelect, Rows, as_parameter, fetch_all
from euterpe.store.engine.database import Database
from euterpe.store.queue.lanes import lane_is

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Move(NamedTuple):
    """The status change of a row. The rows of a batch that make the same move share a statement."""

    source: str
    target: str
    lane: Lane | None  # None: unchanged
    worker_id: str | None = None  # the owner afterwards, if there is one
    lease_ms: int | None = None  # the length of the lease from now; None: no lease
    raises_version: bool = False  # for a new owner, or to fence off the old one
    attempts: int = 0  # added to attempt_count


class Change(NamedTuple):
    """A fenced change of a row."""

    key: str
    claim_version: int  # the fence: the version that the author last read
    move: Move
    delay_ms: int | None = None  # the row cannot be claimed before this time has passed
    extra: Mapping[str, Any] = NOTHING  # values for the table's own columns

    @property
    def is_plain(self) -> bool:
        return self.delay_ms is None and not self.extra

    def row(self) -> dict[str, Any]:
        # The fence comes last, so that no value from a worker can overwrite it.
        fence = {"key": self.key, "version": self.claim_version, "source": self.move.source}
        row = {**self.extra, **fence} if self.extra else fence
        return row if self.delay_ms is None else {**row, "delay_ms": self.delay_ms}


# Computes the table's own columns for a move. It gets the batch, or None if its rows bring no values.
Columns = Callable[[Move, Rows | None], Mapping[str, Any]]


class Holding(NamedTuple):
    """A claim that the caller believes it still holds."""

    key: str
    claim_version: int


class LeasedTable:
    """A table whose rows are claimed under a lease and written under a fence.

    `check` raises on a forbidden transition, `order` is the order of claims. `brings` types the keys of a
    change's `extra`, and `columns` computes what is stored of them. `write` returns the columns `returning`,
    `heartbeat` the key and `also`. `leased_index` is the partial index of the leased rows.
    """

    def __init__(
        self,
        database: Database,
        table: sa.Table,
        *,
        check: Callable[[str, str], None],
        order: Sequence[sa.ColumnElement[Any]],
        brings: Mapping[str, TypeEngine[Any]],
        columns: Columns,
        returning: Sequence[sa.ColumnElement[Any]],
        leased_index: str,
        also: Sequence[sa.ColumnElement[Any]] = (),
    ) -> None:
        self._database, self.table, self._check = database, table, check
        (self.key,) = table.primary_key.columns
        self._order, self._returning, self._leased_index = order, returning, leased_index
        self._brought, self._columns = brings, columns
        self._also = (self.key, *also)
        self._writes: dict[Any, sa.Executable] = {}
        self._beat = self._beat_statement()
        self._lock = self._lock_statement()

    # -- candidates: rows picked here stay locked until the transaction ends

    def ready(self, columns: Iterable[sa.ColumnElement[Any]], *where: sa.ColumnElement[bool]) -> AnySelect:
        """Return the query for the next `:limit` rows to claim, without those that others claim now."""
        return self._pick(columns, Lane.READY, *where, order=self._order)

    def expired(self, columns: Iterable[sa.ColumnElement[Any]]) -> AnySelect:
        """Return the query for `:limit` rows whose lease has expired."""
        has_expired = self.table.c.lease_expires_at < self._database.now
        expired = self._pick(columns, Lane.LEASED, has_expired, order=[self.key])
        # After an ANALYZE that saw no leased row SQLite would scan all jobs by their key: 119 ms per million.
        return expired.with_hint(self.table, f"INDEXED BY {self._leased_index}", "sqlite")

    def _pick(
        self,
        columns: Iterable[sa.ColumnElement[Any]],
        lane: Lane,
        *where: sa.ColumnElement[bool],
        order: Sequence[sa.ColumnElement[Any]],
    ) -> AnySelect:
        picked = sa.select(*columns).where(lane_is(self.table, lane), *where)
        return picked.order_by(*order).limit(sa.bindparam("limit")).with_for_update(skip_locked=True)

    # -- the writes: batches are sorted, because two that share rows would deadlock if they locked them in
    #    different orders (planner settings in `engines.py` make Postgres visit rows in the batch's order)

    def write(self, connection: sa.Connection, changes: Iterable[Change]) -> Sequence[AnyRow]:
        """Apply each change whose fence holds; return the rows of exactly those."""
        by_move: dict[Move, list[Change]] = {}
        for change in sorted(changes, key=lambda change: change.key):
            by_move.setdefault(change.move, []).append(change)
        for move in by_move:
            self._check(move.source, move.target)
        if len(by_move) > 1 and self._database.engines.locks_rows:
            # Each statement locks its rows in order, but several do not do so together: lock all rows first.
            keys = [{"key": change.key} for same in by_move.values() for change in same]
            connection.execute(self._lock, as_parameter(keys))
        written: list[AnyRow] = []
        for move, same in by_move.items():
            statement = self._write_statement(move, plain=all(change.is_plain for change in same))
            parameters = {**as_parameter(change.row() for change in same), **_bound(move)}
            written += fetch_all(connection.execute(statement, parameters))
        return written

    def heartbeat(
        self, connection: sa.Connection, holdings: Sequence[Holding], lease_ms: int
    ) -> Sequence[AnyRow]:
        """Extend every lease that is still held and has not expired; return the rows of those."""
        if not holdings:
            return ()
        rows = [{"key": key, "version": version} for key, version in sorted(holdings)]
        return connection.execute(self._beat, {**as_parameter(rows), "lease_ms": lease_ms}).all()

    # -- the statements: their text depends on the shape of a move and never on the size of a batch

    def _write_statement(self, move: Move, *, plain: bool) -> sa.Executable:
        shape = (move.source, move.target, move.lane, move.lease_ms is None, *move[5:], plain)
        if shape not in self._writes:
            self._writes[shape] = self._build_write(move, plain=plain)
        return self._writes[shape]

    def _build_write(self, move: Move, *, plain: bool) -> sa.Executable:
        columns, now = self.table.c, self._database.now
        rows = Rows({"key": TEXT, "version": INTEGER, "source": TEXT, "delay_ms": INTEGER, **self._brought})
        owned = move.lease_ms is not None
        values: dict[str, Any] = {
            "status": sa.bindparam("target", type_=sa.Text),
            "worker_id": sa.bindparam("worker", type_=sa.Text),
            "lease_expires_at": now + sa.bindparam("lease_ms", type_=sa.BigInteger) if owned else sa.null(),
            "heartbeat_at": now if owned else sa.null(),
        }
        if move.lane is not None:
            # An unchanged lane is not assigned, because SQLite would rewrite every index that contains it.
            values["lane"] = sa.bindparam("to_lane", type_=sa.Text)
        if move.raises_version:
            values["claim_version"] = columns.claim_version + 1
        if move.attempts:
            values["attempt_count"] = columns.attempt_count + move.attempts
        if not plain:
            values["available_at"] = sa.func.coalesce(now + rows["delay_ms"], columns.available_at)
        return (
            sa.update(self.table)
            .values({**values, **self._columns(move, None if plain else rows)})
            .where(
                self.key == rows["key"],
                columns.claim_version == rows["version"],
                # From the batch: for a constant Postgres would expect few such rows and scan the table.
                columns.status == rows["source"],
            )
            .returning(*self._returning)
        )

    def _lock_statement(self) -> sa.Executable:
        wanted = sa.select(Rows({"key": TEXT})["key"])
        return sa.select(self.key).where(self.key.in_(wanted)).order_by(self.key).with_for_update()

    def _beat_statement(self) -> sa.Executable:
        columns, now = self.table.c, self._database.now
        rows = Rows({"key": TEXT, "version": INTEGER})
        return (
            sa.update(self.table)
            .values(lease_expires_at=now + sa.bindparam("lease_ms", type_=sa.BigInteger), heartbeat_at=now)
            .where(
                self.key == rows["key"],
                columns.claim_version == rows["version"],
                # Not `>= now`: Postgres would expect few such rows and scan the table to find them.
                columns.lease_expires_at - now >= 0,
            )
            .returning(*self._also)
        )


def _bound(move: Move) -> dict[str, Any]:
    bound = {"target": move.target, "worker": move.worker_id}
    there = {"to_lane": move.lane, "lease_ms": move.lease_ms}
    return bound | {name: value for name, value in there.items() if value is not None}
