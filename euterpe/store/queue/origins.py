"""Store the circuit breakers of receivers, which all dispatchers share; release events after a recovery.

A receiver has a row from its first failure until it has recovered and its waiting events have been released.
A healthy receiver has no row. While a dispatcher knows that a receiver is healthy, its sends to this receiver
do not read or write this table.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import sqlalchemy as sa

from euterpe.domain.states import Lane
from euterpe.store.checks import WEEK_MS
from euterpe.store.engine.batch_rows import INTEGER, TEXT, Rows, as_parameter
from euterpe.store.engine.database import Database
from euterpe.store.queue.lanes import lane_is
from euterpe.store.queue.sweep import RECEIVERS_PER_SWEEP
from euterpe.store.tables import job_outbox_events, webhook_origins

OriginKey = tuple[str, str]  # requester_id, origin

_event, _origin = job_outbox_events.c, webhook_origins.c
_DAY_MS = 86_400_000
# The limit on the rows of a requester. Without this limit, a requester could fill the table by inventing
# origins.
_MAX_ROWS_PER_REQUESTER = 1_000


class OriginState(StrEnum):
    DOWN = "down"  # the last send was not answered
    REFUSING = "refusing"  # the receiver answers, but none of its last answers was a success
    RECOVERED = "recovered"  # the receiver works again after an outage; its events are being released
    HEALTHY = "healthy"  # the receiver works, and has no row in the table


@dataclass(frozen=True)
class OriginChange:
    """The new state of a receiver after a delivery."""

    key: OriginKey
    state: OriginState
    failures: int = 0
    retry_in_ms: int = 0
    failing_for_ms: int = 0


@dataclass(frozen=True)
class KnownOrigin:
    """The stored state of a receiver; `retry_in_ms` is negative once the retry is due."""

    state: OriginState
    failures: int
    retry_in_ms: int
    failing_for_ms: int


_KEY = {"requester_id": TEXT, "origin": TEXT}


class Origins:
    """The table of receivers that fail or have just recovered.

    An event younger than `free_early_tries_ms` gets one attempt back when it is released. Otherwise many
    short outages of a receiver could, within an hour, use up attempts that are meant to last for a day.
    """

    def __init__(self, database: Database, *, free_early_tries_ms: int = _DAY_MS) -> None:
        self._database, self._free_early_tries_ms = database, free_early_tries_ms
        asked = Rows(_KEY)
        self._read = sa.select(
            _origin.requester_id,
            _origin.origin,
            _origin.state,
            _origin.failures,
            (_origin.retry_at - database.now).label("retry_in_ms"),
            (database.now - _origin.failing_since).label("failing_for_ms"),
        ).where(_origin.requester_id == asked["requester_id"], _origin.origin == asked["origin"])
        key = sa.tuple_(_origin.requester_id, _origin.origin)
        held = sa.select(_origin.origin).where(key.in_(sa.select(*(asked[name] for name in _KEY))))
        self._lock = held.order_by(_origin.requester_id, _origin.origin).with_for_update()
        self._upsert = self._upsert_statement()
        self._recovered = (
            sa.select(_origin.requester_id, _origin.origin)
            .where(_is_recovered())
            .order_by(_origin.updated_at)
            .limit(RECEIVERS_PER_SWEEP)
            .with_for_update(skip_locked=True)
        )
        self._release_some = self._release_statement()

    def read(self, keys: Collection[OriginKey]) -> Mapping[OriginKey, KnownOrigin]:
        """Return the stored state of those receivers that have a row."""
        if not keys:
            return {}
        asked = as_parameter({"requester_id": requester, "origin": origin} for requester, origin in keys)
        with self._database.snapshot() as connection:
            found = connection.execute(self._read, asked).all()
        return {
            (row.requester_id, row.origin): KnownOrigin(
                OriginState(row.state), row.failures, row.retry_in_ms, row.failing_for_ms
            )
            for row in found
        }

    def record(self, connection: sa.Connection, changes: Iterable[OriginChange]) -> None:
        """Write the last change of each origin; delete old and surplus rows of the same requesters."""
        last = {change.key: change for change in changes}
        if not last:
            return
        changes = [last[key] for key in sorted(last)]
        # Lock the rows in sorted order: otherwise two batches that share rows could deadlock.
        connection.execute(
            self._lock, as_parameter(dict(zip(_KEY, key, strict=True)) for key in sorted(last))
        )
        healthy = [change for change in changes if change.state is OriginState.HEALTHY]
        others = [change for change in changes if change.state is not OriginState.HEALTHY]
        for change in healthy:
            connection.execute(sa.delete(webhook_origins).where(*_is(change.key)))
        if others:
            connection.execute(self._upsert, as_parameter(map(_row, others)))
            self._forget_oldest(connection, sorted({change.key[0] for change in others}))

    def forget(self, connection: sa.Connection, requester_ids: Iterable[str]) -> None:
        """Delete the rows of these requesters' receivers, so that the next sends to them are not delayed."""
        for requester_id in sorted(requester_ids):
            connection.execute(sa.delete(webhook_origins).where(_origin.requester_id == requester_id))

    def release(self, connection: sa.Connection, limit: int) -> int:
        """Release up to `limit` events of each recovered receiver, so that they are due now; return how many.

        Events are released in the order of their ids, so the events of a job are released in sequence. Once
        all events of a receiver have been released, the receiver's row is deleted.
        """
        released = 0
        for row in connection.execute(self._recovered).all():
            key = {"requester": row.requester_id, "waits_for": row.origin}
            count = len(connection.execute(self._release_some, {**key, "limit": limit}).all())
            released += count
            if count < limit:
                done = _is((row.requester_id, row.origin))
                connection.execute(sa.delete(webhook_origins).where(*done, _is_recovered()))
        return released

    def _forget_oldest(self, connection: sa.Connection, requester_ids: Sequence[str]) -> None:
        for requester_id in requester_ids:
            own = _origin.requester_id == requester_id
            newest = sa.select(_origin.origin).where(own).order_by(_origin.updated_at.desc())
            surplus = _origin.origin.not_in(newest.limit(_MAX_ROWS_PER_REQUESTER))
            stale = _origin.updated_at < self._database.now - WEEK_MS
            connection.execute(sa.delete(webhook_origins).where(own, surplus | stale))

    def _upsert_statement(self) -> sa.Executable:
        brought = Rows(
            {
                "requester_id": TEXT,
                "origin": TEXT,
                "state": TEXT,
                "failures": INTEGER,
                "retry_in_ms": INTEGER,
                "failing_for_ms": INTEGER,
            }
        )
        now = self._database.now
        plain = ("requester_id", "origin", "state", "failures")
        # SQLite's parser needs the WHERE below: without it, the parser reads ON CONFLICT as the ON of a join.
        times = (now + brought["retry_in_ms"], now - brought["failing_for_ms"], now)
        source = sa.select(*(brought[name] for name in plain), *times)
        columns = [*plain, "retry_at", "failing_since", "updated_at"]
        insert = self._database.insert(webhook_origins).from_select(columns, source.where(sa.true()))
        replaced = {name: insert.excluded[name] for name in columns[2:]}
        statement: sa.Executable = insert.on_conflict_do_update(
            index_elements=["requester_id", "origin"], set_=replaced
        )
        return statement

    def _release_statement(self) -> sa.Executable:
        now = self._database.now
        delayed = lane_is(job_outbox_events, Lane.DELAYED)
        own = (
            (
                sa.select(_event.event_id)
                .where(
                    delayed,
                    _event.requester_id == sa.bindparam("requester"),
                    _event.origin == sa.bindparam("waits_for"),
                )
                .order_by(_event.event_id)
                .limit(sa.bindparam("limit"))
                .with_for_update(skip_locked=True)
            )
            .cte("own")
            .prefix_with("MATERIALIZED")
        )
        is_young = (_event.created_at > now - self._free_early_tries_ms) & (_event.attempt_count > 0)
        return (
            sa.update(job_outbox_events)
            .values(
                lane=Lane.READY.value,
                available_at=now,
                attempt_count=sa.case((is_young, _event.attempt_count - 1), else_=_event.attempt_count),
            )
            .where(_event.event_id.in_(sa.select(own.c.event_id)), delayed)
            .returning(_event.event_id)
        )


def _is_recovered() -> sa.ColumnElement[bool]:
    # Use a literal, because with a parameter the engines would not use the partial index.
    return _origin.state == sa.literal_column(f"'{OriginState.RECOVERED}'")


def _is(key: OriginKey) -> tuple[sa.ColumnElement[bool], sa.ColumnElement[bool]]:
    return _origin.requester_id == key[0], _origin.origin == key[1]


def _row(change: OriginChange) -> dict[str, object]:
    requester_id, origin = change.key
    return {
        "requester_id": requester_id,
        "origin": origin,
        "state": change.state.value,
        "failures": change.failures,
        "retry_in_ms": change.retry_in_ms,
        "failing_for_ms": change.failing_for_ms,
    }
