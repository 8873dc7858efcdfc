"""Atomic claims, leases with heartbeats, and fenced writes for every table whose rows have owners.

A row belongs to the claim that last raised its `claim_version`. When the lease has expired, the sweep raises
the version again, which fences off the old owner.

All changes of a row's status go through `write`, which checks each transition against the state table. A
transition is fenced: it names the `claim_version` and the status that the caller has read, and changes
nothing if the row has another version or another status by now.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

import sqlalchemy as sa

from euterpe.domain.states import Lane
from euterpe.store.engine.batch_rows import (
    INTEGER,
    TEXT,
    AnyColumn,
    AnyRow,
    AnySelect,
    AnyType,
    Rows,
    as_parameter,
    fetch_all,
)
from euterpe.store.engine.database import Database
from euterpe.store.queue.lanes import lane_is
from euterpe.store.queue.transition import Shape, Transition

# A function that computes the columns of one table for a transition. The second argument of the function is
# the batch, or None if no row of the batch has values.
Columns = Callable[[Shape, Rows | None], Mapping[str, object]]

# One statement writes all transitions that agree in these fields. The fields determine the text of the
# statement (`Shape`) and its parameters, except the batch. Group the transitions by these fields and not by
# `Shape`, because building a `Shape` for each transition would take 3 % of a worker's time.
_shared_fields = attrgetter("source", "target", "lane", "worker_id", "lease_ms", "raises_version", "attempts")
# With `owners_differ`, each row of the batch has its own owner and lease, so transitions with different
# owners share a statement.
_fields_without_owner = attrgetter("source", "target", "lane", "raises_version", "attempts")

# With this `late_ms`, a heartbeat extends a lease no matter how long ago the lease expired.
_ANY_TIME_MS = 2**60


class Holding(NamedTuple):
    """The key of a row and the version of the caller's claim. The claim may be stale."""

    key: str
    claim_version: int


class Extension(NamedTuple):
    """A request to extend a lease to `lease_ms` from now."""

    key: str
    claim_version: int
    lease_ms: int


class LeasedTable:
    """A table whose rows are claimed under a lease and written under a fence.

    `check` raises an error for a forbidden transition. `order` is the order in which rows are claimed.
    `value_types` maps each key of a transition's `values` to its SQL type, and `columns` computes the stored
    columns from these values. `write` returns the columns `returning`; `heartbeat` returns the key and the
    columns `heartbeat_returning`. `leased_index` is the name of the partial index of the leased rows. A
    heartbeat extends only the leases of the rows for which all conditions `extendable` hold.
    """

    def __init__(
        self,
        database: Database,
        table: sa.Table,
        *,
        check: Callable[[str, str], None],
        order: Sequence[AnyColumn],
        value_types: Mapping[str, AnyType],
        columns: Columns,
        returning: Sequence[AnyColumn],
        leased_index: str,
        heartbeat_returning: Sequence[AnyColumn] = (),
        extendable: Sequence[sa.ColumnElement[bool]] = (),
    ) -> None:
        self._database, self.table, self._check = database, table, check
        (self.key,) = table.primary_key.columns
        self._order, self._returning, self._leased_index = order, returning, leased_index
        self._value_types, self._columns = value_types, columns
        self._heartbeat_returning, self._extendable = (self.key, *heartbeat_returning), extendable
        self._updates: dict[tuple[Shape, bool], sa.Executable] = {}
        self._beat = self._beat_statement()
        self._lock = self._lock_statement()

    # -- candidates: rows picked here stay locked until the transaction ends

    def ready(self, columns: Iterable[AnyColumn], *where: sa.ColumnElement[bool]) -> AnySelect:
        """Return the query for the next `:limit` rows to claim, without rows locked by other transactions."""
        return self._pick(columns, Lane.READY, *where, order=self._order)

    def expired(self, columns: Iterable[AnyColumn], *where: sa.ColumnElement[bool]) -> AnySelect:
        """Return the query for `:limit` rows whose lease has expired."""
        has_expired = self.table.c.lease_expires_at < self._database.now
        expired = self._pick(columns, Lane.LEASED, has_expired, *where, order=[self.key])
        # Name the index: after an ANALYZE that saw no leased row, SQLite would scan all jobs in the order of
        # their keys, which takes 119 ms per million jobs.
        return expired.with_hint(self.table, f"INDEXED BY {self._leased_index}", "sqlite")

    def _pick(
        self,
        columns: Iterable[AnyColumn],
        lane: Lane,
        *where: sa.ColumnElement[bool],
        order: Sequence[AnyColumn],
    ) -> AnySelect:
        picked = sa.select(*columns).where(lane_is(self.table, lane), *where)
        return picked.order_by(*order).limit(sa.bindparam("limit")).with_for_update(skip_locked=True)

    # -- the writes

    # Each batch is sorted, because two batches that share rows could deadlock if they locked these rows in
    # different orders. Planner settings in `engines.py` make Postgres visit the rows in the order of the
    # batch.

    def write(self, connection: sa.Connection, transitions: Iterable[Transition]) -> Sequence[AnyRow]:
        """Apply each transition whose fence holds; return the rows that were changed."""
        batches: dict[object, list[Transition]] = {}
        for one in sorted(transitions, key=attrgetter("key")):
            shared = _fields_without_owner if one.owners_differ else _shared_fields
            batches.setdefault(shared(one), []).append(one)
        for batch in batches.values():
            self._check(batch[0].source, batch[0].target)
        if len(batches) > 1 and self._database.engines.locks_rows:
            # Each statement locks its own rows in order, but several statements together would not lock all
            # rows in order. So lock all rows first.
            keys = [{"key": one.key} for batch in batches.values() for one in batch]
            connection.execute(self._lock, as_parameter(keys))
        written: list[AnyRow] = []
        for batch in batches.values():
            update = self._update(batch[0].shape, has_values=any(one.has_values for one in batch))
            parameters = {**as_parameter(one.row() for one in batch), **batch[0].parameters()}
            written += fetch_all(connection.execute(update, parameters))
        return written

    def heartbeat(
        self, connection: sa.Connection, extensions: Iterable[Extension], *, revive: bool = False
    ) -> Sequence[AnyRow]:
        """Extend every lease that is still held, has not expired and may be extended; return these rows.

        With `revive`, also extend a lease that has expired but was not swept: its version is still the same,
        so it still has no other owner.
        """
        rows = [
            {"key": key, "version": version, "lease_ms": lease_ms}
            for key, version, lease_ms in sorted(extensions)
        ]
        if not rows:
            return ()
        late_ms = _ANY_TIME_MS if revive else 0
        return connection.execute(self._beat, {**as_parameter(rows), "late_ms": late_ms}).all()

    # -- the statements: their text depends on the shape of a transition and never on the size of a batch

    def _update(self, shape: Shape, *, has_values: bool) -> sa.Executable:
        if (shape, has_values) not in self._updates:
            self._updates[shape, has_values] = self._update_statement(shape, has_values=has_values)
        return self._updates[shape, has_values]

    def _update_statement(self, shape: Shape, *, has_values: bool) -> sa.Executable:
        columns, now = self.table.c, self._database.now
        fence: dict[str, AnyType] = {"key": TEXT, "version": INTEGER, "source": TEXT}
        rows = Rows(
            {**fence, "delay_ms": INTEGER, "owner": TEXT, "owner_lease_ms": INTEGER, **self._value_types}
        )
        lease_ms: AnyColumn = sa.bindparam("lease_ms", type_=sa.BigInteger)
        worker: AnyColumn = sa.bindparam("worker", type_=sa.Text)
        if shape.owners_differ:
            worker, lease_ms = rows["owner"], rows["owner_lease_ms"]
        values: dict[str, object] = {
            "status": sa.bindparam("target", type_=sa.Text),
            "worker_id": worker,
            "lease_expires_at": sa.null(),
            "heartbeat_at": sa.null(),
        }
        if shape.is_leased:
            values["lease_expires_at"] = now + lease_ms
            values["heartbeat_at"] = now
        if shape.lane is not None:
            # Do not assign an unchanged lane: SQLite would rewrite every index that contains the lane.
            values["lane"] = sa.bindparam("to_lane", type_=sa.Text)
        if shape.raises_version:
            values["claim_version"] = columns.claim_version + 1
        if shape.attempts:
            values["attempt_count"] = columns.attempt_count + shape.attempts
        if has_values and not shape.is_leased:
            values["available_at"] = sa.func.coalesce(now + rows["delay_ms"], columns.available_at)
        return (
            sa.update(self.table)
            .values({**values, **self._columns(shape, rows if has_values else None)})
            .where(
                self.key == rows["key"],
                columns.claim_version == rows["version"],
                # Compare with a column of the batch and not with a constant. With a constant, Postgres would
                # expect few rows with this status, and would scan the table for the status instead of finding
                # the rows by their key.
                columns.status == rows["source"],
            )
            .returning(*self._returning)
        )

    def _lock_statement(self) -> sa.Executable:
        wanted = sa.select(Rows({"key": TEXT})["key"])
        return sa.select(self.key).where(self.key.in_(wanted)).order_by(self.key).with_for_update()

    def _beat_statement(self) -> sa.Executable:
        columns, now = self.table.c, self._database.now
        rows = Rows({"key": TEXT, "version": INTEGER, "lease_ms": INTEGER})
        late_ms = sa.bindparam("late_ms", type_=sa.BigInteger)
        return (
            sa.update(self.table)
            .values(lease_expires_at=now + rows["lease_ms"], heartbeat_at=now)
            .where(
                self.key == rows["key"],
                columns.claim_version == rows["version"],
                # Compare a difference with 0. With `lease_expires_at >= now`, Postgres would expect few rows
                # whose lease has not expired, and would scan the table for them instead of finding the rows
                # by their key.
                columns.lease_expires_at - now + late_ms >= 0,
                *self._extendable,
            )
            .returning(*self._heartbeat_returning)
        )
