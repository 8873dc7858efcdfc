"""The dispatcher's side of the outbox: the same ownership protocol as the inbox, over events."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

import sqlalchemy as sa

from euterpe.crypto.envelope import Sealed
from euterpe.domain.retry import Delivered, DeliveryDecision, Redeliver, Undeliverable
from euterpe.domain.states import Lane, OutboxStatus, check_outbox_transition
from euterpe.domain.text import storable
from euterpe.store.bulk_insert import BulkInsert
from euterpe.store.callbacks import SEALED_CALLBACKS, sealed_callbacks
from euterpe.store.database import Database
from euterpe.store.errors import NotFound
from euterpe.store.ids import new_id
from euterpe.store.inputs import MAX_BATCH, WEEK_MS, check_count, check_name
from euterpe.store.leases import Change, Holding, LeasedTable, Move
from euterpe.store.rows import INTEGER, TEXT, AnyRow, AnySelect, Rows, fetched
from euterpe.store.sweeps import Sweeps
from euterpe.store.tables import inbox_jobs, job_deliveries, job_outbox_events
from euterpe.store.wake import Topic

_event = job_outbox_events.c
_TIDY_LIMIT = 100
# Built once: to build it for every claim took a quarter of the claim.
_URLS = sa.select(
    inbox_jobs.c.job_id,
    inbox_jobs.c.spec["status_webhook_url"].as_string().label("url"),
    *SEALED_CALLBACKS,
).where(inbox_jobs.c.job_id.in_(sa.bindparam("job_ids", expanding=True)))


@dataclass(frozen=True)
class ClaimedEvent:
    """An event that this dispatcher owns until its lease ends. `body` goes out as it is.

    `url` has no query when that is in `sealed_callbacks`; `Callbacks.webhook_url` opens it.
    """

    event_id: str
    job_id: str
    requester_id: str
    sequence: int
    type: str
    body: str
    url: str
    claim_version: int
    attempt_count: int
    worker_id: str
    sealed_callbacks: Sealed | None = field(default=None, repr=False)

    @property
    def holding(self) -> Holding:
        return Holding(self.event_id, self.claim_version)


@dataclass(frozen=True)
class Delivery:
    """How one delivery attempt ended, and what is to become of the event."""

    event: ClaimedEvent
    decision: DeliveryDecision
    status_code: int | None = None
    duration_ms: int = 0
    answer: str | None = None  # its first bytes


class Outbox:
    def __init__(self, database: Database, *, max_attempts: int = 12, tidy_every_ms: int = 100) -> None:
        self._database, self._max_attempts = database, max_attempts
        self._sweeps = Sweeps(tidy_every_ms, self.tidy)
        self.events = LeasedTable(
            database,
            job_outbox_events,
            check=check_outbox_transition,
            order=[_event.available_at, _event.event_id],
            brings={"code": INTEGER, "reason": TEXT},
            columns=lambda move, rows: _event_columns(move, rows, database.now),
            returning=(
                _event.event_id,
                _event.claim_version,
                _event.attempt_count,
                database.now.label("written_at"),
            ),
        )
        self._log = BulkInsert(database.engines, job_deliveries, job_deliveries.columns.keys())
        self._ready = self.events.ready(_CLAIMED)
        self._expired = self.events.expired(_LOCKED)

    def claim(self, worker_id: str, limit: int, *, lease_ms: int = 60_000) -> list[ClaimedEvent]:
        check_name(worker_id, "worker_id")
        check_count(limit, "limit", 1, MAX_BATCH)
        check_count(lease_ms, "lease_ms", 1, WEEK_MS)
        return self._sweeps.around(
            lambda: self._database.in_parts(limit, lambda part: self._claim_some(worker_id, part, lease_ms))
        )

    def _claim_some(self, worker_id: str, limit: int, lease_ms: int) -> list[ClaimedEvent]:
        with self._database.transaction() as connection:
            picked = fetched(connection.execute(self._ready, {"limit": limit}))
            take = Move(
                OutboxStatus.PENDING, OutboxStatus.CLAIMED, Lane.LEASED, worker_id, lease_ms, True, attempts=1
            )
            changes = [Change(row.event_id, row.claim_version, take) for row in picked]
            held = self._apply(connection, changes)
            urls = self._urls(connection, picked)
            # Erased by hand, say: nobody can tell of them, and they must not hold up the others.
            lost = [held[row.event_id] for row in picked if row.event_id in held and row.job_id not in urls]
            self._apply(connection, [_lost(row) for row in lost])
        return [
            ClaimedEvent(
                row.event_id,
                row.job_id,
                row.requester_id,
                row.sequence,
                row.type,
                row.payload,
                urls[row.job_id].url,
                held[row.event_id].claim_version,
                held[row.event_id].attempt_count,
                worker_id,
                sealed_callbacks(urls[row.job_id]),
            )
            for row in picked
            if row.event_id in held and row.job_id in urls
        ]

    def tidy(self, limit: int = _TIDY_LIMIT) -> int:
        """Takes events from dispatchers whose lease ran out, and brings due ones back."""
        with self._database.transaction() as connection:
            expired = connection.execute(self._expired, {"limit": limit}).all()
            self._apply(connection, [self._put_out(row) for row in expired])
            due = self.events.promote_due(connection, limit)
        return len(expired) + len(due)

    def heartbeat(self, events: Sequence[ClaimedEvent], *, lease_ms: int = 60_000) -> frozenset[str]:
        """Extends the leases; returns the ids of the events that are still held."""
        with self._database.transaction() as connection:
            rows = self.events.heartbeat(connection, [event.holding for event in events], lease_ms)
        return frozenset(row.event_id for row in rows)

    def settle(self, deliveries: Sequence[Delivery]) -> frozenset[str]:
        """Writes what became of each, and logs it; returns the ids that held. The others belong to somebody
        else."""
        changes = [_settled(delivery) for delivery in deliveries]
        with self._database.transaction() as connection:
            held = self._apply(connection, changes)
            logged = [
                _logged(delivery, change, held[change.key])
                for delivery, change in zip(deliveries, changes, strict=True)
                if change.key in held
            ]
            self._log(connection, logged)
        return frozenset(held)

    def release(self, events: Sequence[ClaimedEvent]) -> frozenset[str]:
        """Hands events back undelivered, and their attempts with them."""
        return self._hand_back(events, Lane.READY, None)

    def postpone(self, events: Sequence[ClaimedEvent], delay_ms: int) -> frozenset[str]:
        """The same of events that nobody is to try before this time has passed."""
        check_count(delay_ms, "delay_ms", 1, WEEK_MS)
        return self._hand_back(events, Lane.DELAYED, delay_ms)

    def _hand_back(self, events: Sequence[ClaimedEvent], lane: Lane, delay_ms: int | None) -> frozenset[str]:
        move = Move(OutboxStatus.CLAIMED, OutboxStatus.PENDING, lane, attempts=-1)
        changes = [Change(event.event_id, event.claim_version, move, delay_ms) for event in events]
        with self._database.transaction() as connection:
            return frozenset(self._apply(connection, changes))

    def replay(self, *where: sa.ColumnElement[bool]) -> int:
        """Sends delivered or dead events again, with a new budget and the same id and body."""
        again = (OutboxStatus.DELIVERED, OutboxStatus.DEAD_LETTER)
        wanted = sa.select(*_LOCKED).where(_event.status.in_(again), *where)
        wanted = wanted.order_by(_event.event_id).limit(MAX_BATCH).with_for_update()
        done, after = 0, ""
        # In batches: a million events in one transaction would hold up every other writer. Each begins behind
        # the one before, or what has been delivered again meanwhile would be sent once more.
        while batch := self._replay(wanted.where(_event.event_id > after)):
            done, after = done + len(batch), max(batch)
        return done

    def _replay(self, wanted: AnySelect) -> Collection[str]:
        with self._database.transaction() as connection:
            changes = [
                Change(
                    row.event_id,
                    row.claim_version,
                    Move(row.status, OutboxStatus.PENDING, Lane.READY, attempts=-row.attempt_count),
                    delay_ms=0,
                )
                for row in connection.execute(wanted).all()
            ]
            return self._apply(connection, changes).keys()

    def replay_one(self, event_id: str) -> None:
        """One that waits for its next attempt is due at once, and keeps its budget."""
        if not (self.replay(_event.event_id == event_id) or self._hasten(event_id)):
            raise NotFound(f"there is no delivered, dead or waiting event {event_id!r} to replay")

    def _hasten(self, event_id: str) -> int:
        with self._database.transaction() as connection:
            self._database.announce(connection, Topic.OUTBOX)
            waiting = sa.update(job_outbox_events).values(available_at=self._database.now)
            waiting = waiting.where(_event.event_id == event_id, _event.status == OutboxStatus.PENDING)
            return connection.execute(waiting).rowcount

    def replay_dead_letters(self, requester_id: str) -> int:
        return self.replay(_event.requester_id == requester_id, _event.status == OutboxStatus.DEAD_LETTER)

    def replay_between(self, since_ms: int, until_ms: int) -> int:
        return self.replay(_event.created_at >= since_ms, _event.created_at < until_ms)

    def _apply(self, connection: sa.Connection, changes: Sequence[Change]) -> Mapping[str, AnyRow]:
        if any(change.move.lane is Lane.READY for change in changes):
            self._database.announce(connection, Topic.OUTBOX)
        return {row.event_id: row for row in self.events.write(connection, changes)}

    def _urls(self, connection: sa.Connection, rows: Sequence[AnyRow]) -> dict[str, AnyRow]:
        if not rows:
            return {}
        of = {"job_ids": list({row.job_id for row in rows})}
        return {row.job_id: row for row in connection.execute(_URLS, of) if row.url is not None}

    def _put_out(self, row: AnyRow) -> Change:
        spent = row.attempt_count >= self._max_attempts
        move = Move(
            OutboxStatus.CLAIMED,
            OutboxStatus.DEAD_LETTER if spent else OutboxStatus.PENDING,
            Lane.REST if spent else Lane.READY,
            raises_version=True,
        )
        reason = {"reason": "the dispatcher stopped answering"}
        return Change(row.event_id, row.claim_version, move, extra=reason)


_CLAIMED = (
    _event.event_id,
    _event.claim_version,
    _event.job_id,
    _event.requester_id,
    _event.sequence,
    _event.type,
    _event.payload,
)
_LOCKED = (_event.event_id, _event.claim_version, _event.status, _event.attempt_count)


def _event_columns(move: Move, rows: Rows | None, now: sa.ColumnElement[int]) -> Mapping[str, Any]:
    columns: dict[str, Any] = {}
    if rows is not None:
        columns["last_status_code"] = sa.func.coalesce(rows["code"], _event.last_status_code)
        columns["last_error"] = sa.func.coalesce(rows["reason"], _event.last_error)
    if move.target == OutboxStatus.DELIVERED:
        columns["delivered_at"], columns["last_error"] = now, sa.null()
    if move.target == OutboxStatus.PENDING:
        columns["delivered_at"] = sa.null()
    return columns


def _lost(row: AnyRow) -> Change:
    move = Move(OutboxStatus.CLAIMED, OutboxStatus.DEAD_LETTER, Lane.REST)
    return Change(row.event_id, row.claim_version, move, extra={"reason": "its job is gone"})


def _settled(delivery: Delivery) -> Change:
    event, decision = delivery.event, delivery.decision
    delay: int | None = None
    extra: dict[str, Any] = {}
    match decision:
        case Delivered():
            target, lane = OutboxStatus.DELIVERED, Lane.REST
        case Redeliver():
            target, lane, delay = OutboxStatus.PENDING, Lane.DELAYED, decision.delay_ms
            extra["reason"] = decision.reason
        case Undeliverable():
            target, lane = OutboxStatus.DEAD_LETTER, Lane.REST
            extra["reason"] = decision.reason
        case _:
            assert_never(decision)
    if delivery.status_code is not None:
        extra["code"] = delivery.status_code
    return Change(event.event_id, event.claim_version, Move(OutboxStatus.CLAIMED, target, lane), delay, extra)


def _logged(delivery: Delivery, change: Change, row: AnyRow) -> dict[str, Any]:
    event = delivery.event
    answer = delivery.answer
    return {
        "delivery_id": new_id(),
        "event_id": event.event_id,
        "job_id": event.job_id,
        "requester_id": event.requester_id,
        "claim_version": event.claim_version,
        "worker_id": event.worker_id,
        "outcome": change.move.target,
        "status_code": delivery.status_code,
        "error": change.extra.get("reason"),
        "answer": None if answer is None else storable(answer),
        "duration_ms": delivery.duration_ms,
        "ended_at": row.written_at,
    }
