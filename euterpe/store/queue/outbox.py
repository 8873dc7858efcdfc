"""The outbox: claim, heartbeat, settle, release and postpone events.

Claims and leases of events work like those of jobs (`leases.py`). `replay.py` sends events again.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

import sqlalchemy as sa

from euterpe.crypto.envelope import Sealed
from euterpe.domain.events import WebhookFormat
from euterpe.domain.retry import Delivered, DeliveryDecision, Redeliver, Undeliverable
from euterpe.domain.states import Lane, OutboxStatus, check_outbox_transition
from euterpe.domain.text import to_storable
from euterpe.store.checks import MAX_BATCH, WEEK_MS, check_count, check_name
from euterpe.store.engine.batch_rows import INTEGER, TEXT, AnyRow, Rows, as_parameter
from euterpe.store.engine.bulk_insert import BulkInsert
from euterpe.store.engine.database import Database
from euterpe.store.engine.ids import new_id
from euterpe.store.engine.wakeup import Topic
from euterpe.store.queue.fairness.due_rows import DueRows
from euterpe.store.queue.fairness.requester_turns import RequesterTurns
from euterpe.store.queue.lanes import lane_is
from euterpe.store.queue.leases import Extension, Holding, LeasedTable
from euterpe.store.queue.origins import OriginChange, Origins, OriginState
from euterpe.store.queue.sweep import ROWS_PER_SWEEP, SweepTimer
from euterpe.store.queue.transition import Fence, Shape, Transition
from euterpe.store.secrets.callbacks import SEALED_CALLBACKS, sealed_callbacks
from euterpe.store.tables import inbox_jobs, job_deliveries, job_outbox_events

_event = job_outbox_events.c
# Build this statement once: building it in every claim took a quarter of the claim's time.
_URLS = sa.select(
    inbox_jobs.c.job_id,
    inbox_jobs.c.spec["status_webhook_url"].as_string().label("url"),
    inbox_jobs.c.spec["webhook_format"].as_string().label("webhook_format"),
    *SEALED_CALLBACKS,
).where(inbox_jobs.c.job_id.in_(sa.bindparam("job_ids", expanding=True)))


@dataclass(frozen=True)
class ClaimedEvent:
    """An event that this dispatcher owns until the lease expires. `body` is sent unchanged.

    If the query of the webhook URL is sealed in `sealed_callbacks`, `url` lacks the query, and
    `Callbacks.webhook_url` adds it.
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
    webhook_format: WebhookFormat = "euterpe"

    @property
    def holding(self) -> Holding:
        return Holding(self.event_id, self.claim_version)

    @property
    def fence(self) -> Fence:
        return Fence(self.event_id, self.claim_version, OutboxStatus.CLAIMED)


@dataclass(frozen=True)
class Delivery:
    """The result of a delivery attempt, and the decision about its event."""

    event: ClaimedEvent
    decision: DeliveryDecision
    status_code: int | None = None
    duration_ms: int = 0
    answer: str | None = None  # the first bytes of the response body
    waits_for: str | None = None  # the origin whose recovery makes the event due before its delay has passed
    origin_change: OriginChange | None = None  # the receiver's new state, if the attempt changed it


class Outbox:
    """The operations of dispatchers on events.

    Every write under a claim is fenced: it changes nothing if the claim is stale.
    """

    def __init__(self, database: Database, *, max_attempts: int = 12, sweep_every_ms: int = 100) -> None:
        self._database, self._max_attempts = database, max_attempts
        self._sweep_timer = SweepTimer(sweep_every_ms, self.sweep)
        self.events = LeasedTable(
            database,
            job_outbox_events,
            check=check_outbox_transition,
            order=[_event.available_at, _event.event_id],
            value_types={"code": INTEGER, "reason": TEXT, "origin": TEXT},
            columns=lambda shape, rows: _event_columns(shape, rows, database.now),
            returning=(
                _event.event_id,
                _event.claim_version,
                _event.attempt_count,
                database.now.label("written_at"),
            ),
            leased_index="outbox_leased",
        )
        self._log = BulkInsert(database.engines, job_deliveries, job_deliveries.columns.keys())
        self.origins = Origins(database)
        self._turns = RequesterTurns(database, self.events, _CLAIMED)
        waiting = _event.event_id.in_(sa.select(Rows({"key": TEXT})["key"]))
        self._due = DueRows(database, job_outbox_events, [_event.event_id], "outbox_due")
        self._make_ready = (
            sa.update(job_outbox_events)
            .values(lane=Lane.READY.value)
            .where(waiting, lane_is(job_outbox_events, Lane.DELAYED))
        )
        self._expired = self.events.expired(_EXPIRED)

    def claim(
        self, worker_id: str, limit: int, *, lease_ms: int = 60_000, skipped: Collection[str] = ()
    ) -> list[ClaimedEvent]:
        """Claim up to `limit` events, requester by requester. Skip the requesters in `skipped`."""
        check_name(worker_id, "worker_id")
        check_count(limit, "limit", 1, MAX_BATCH)
        check_count(lease_ms, "lease_ms", 1, WEEK_MS)
        return self._sweep_timer.claim_with_sweep(
            lambda: self._database.claim_in_batches(
                limit, lambda part: self._claim_some(worker_id, part, lease_ms, skipped)
            )
        )

    def _claim_some(
        self, worker_id: str, limit: int, lease_ms: int, skipped: Collection[str]
    ) -> list[ClaimedEvent]:
        with self._database.transaction() as connection:
            picked = self._turns.pick(connection, limit, skipped)
            claims = [
                Transition.claim(
                    Fence(row.event_id, row.claim_version, OutboxStatus.PENDING),
                    OutboxStatus.CLAIMED,
                    worker_id=worker_id,
                    lease_ms=lease_ms,
                )
                for row in picked
            ]
            held = self._apply(connection, claims)
            urls = self._urls(connection, picked)
            # An event without a URL, for example because its job was deleted by hand, becomes a dead letter,
            # so that it does not delay other events.
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
                # `webhook_format` is NULL in jobs of earlier releases.
                urls[row.job_id].webhook_format or "euterpe",
            )
            for row in picked
            if row.event_id in held and row.job_id in urls
        ]

    def sweep(self, limit: int = ROWS_PER_SWEEP) -> int:
        """Revoke expired leases; make events ready if they are due or if their receiver has recovered.

        Return the number of events that were changed.
        """
        with self._database.transaction() as connection:
            expired = connection.execute(self._expired, {"limit": limit}).all()
            self._apply(connection, [self._expire(row) for row in expired])
            due = self._due.pick(connection, limit)
            if due:
                connection.execute(self._make_ready, as_parameter({"key": row.event_id} for row in due))
            released = self.origins.release(connection, limit)
        return len(expired) + len(due) + released

    def heartbeat(self, events: Sequence[ClaimedEvent], *, lease_ms: int = 60_000) -> frozenset[str]:
        """Extend the leases; return the ids of the events that are still held."""
        with self._database.transaction() as connection:
            extensions = [Extension(*event.holding, lease_ms) for event in events]
            rows = self.events.heartbeat(connection, extensions)
        return frozenset(row.event_id for row in rows)

    def settle(self, deliveries: Sequence[Delivery]) -> frozenset[str]:
        """Write the outcomes, the delivery log and the changed states of receivers.

        Return the ids of the events that were still held. For a lost event, write no outcome and no log.
        """
        ends = [_settled(delivery) for delivery in deliveries]
        with self._database.transaction() as connection:
            held = self._apply(connection, ends)
            logged = [
                _logged(delivery, end, held[end.key])
                for delivery, end in zip(deliveries, ends, strict=True)
                if end.key in held
            ]
            self._log(connection, logged)
            shown = [delivery.origin_change for delivery in deliveries if delivery.origin_change]
            self.origins.record(connection, shown)
            if any(change.state is OriginState.RECOVERED for change in shown):
                self._database.announce(connection, Topic.OUTBOX)
        return frozenset(held)

    def release(self, events: Sequence[ClaimedEvent]) -> frozenset[str]:
        """Release events without counting the attempt; return the ids of the events that were still held."""
        return self._hand_back(events, Lane.READY, None, None)

    def postpone(
        self, events: Sequence[ClaimedEvent], delay_ms: int, *, waits_for: str | None = None
    ) -> frozenset[str]:
        """Release events as `release` does, but with a delay.

        The events are due when `delay_ms` has passed, or earlier if the origin `waits_for` recovers.
        """
        check_count(delay_ms, "delay_ms", 1, WEEK_MS)
        return self._hand_back(events, Lane.DELAYED, delay_ms, waits_for)

    def _hand_back(
        self, events: Sequence[ClaimedEvent], lane: Lane, delay_ms: int | None, waits_for: str | None
    ) -> frozenset[str]:
        values = {} if waits_for is None else {"origin": waits_for}
        releases = [
            Transition.release(event.fence, OutboxStatus.PENDING, lane, delay_ms=delay_ms, values=values)
            for event in events
        ]
        with self._database.transaction() as connection:
            return frozenset(self._apply(connection, releases))

    def _apply(self, connection: sa.Connection, transitions: Sequence[Transition]) -> Mapping[str, AnyRow]:
        if any(one.lane is Lane.READY for one in transitions):
            self._database.announce(connection, Topic.OUTBOX)
        return {row.event_id: row for row in self.events.write(connection, transitions)}

    def _urls(self, connection: sa.Connection, rows: Sequence[AnyRow]) -> dict[str, AnyRow]:
        if not rows:
            return {}
        of = {"job_ids": list({row.job_id for row in rows})}
        return {row.job_id: row for row in connection.execute(_URLS, of) if row.url is not None}

    def _expire(self, row: AnyRow) -> Transition:
        is_spent = row.attempt_count >= self._max_attempts
        return Transition.expire(
            Fence(row.event_id, row.claim_version, OutboxStatus.CLAIMED),
            OutboxStatus.DEAD_LETTER if is_spent else OutboxStatus.PENDING,
            Lane.REST if is_spent else Lane.READY,
            values={"reason": "the dispatcher stopped answering"},
        )


_CLAIMED = (
    _event.event_id,
    _event.claim_version,
    _event.job_id,
    _event.requester_id,
    _event.sequence,
    _event.type,
    _event.payload,
)
_EXPIRED = (_event.event_id, _event.claim_version, _event.attempt_count)


def _event_columns(shape: Shape, rows: Rows | None, now: sa.ColumnElement[int]) -> Mapping[str, object]:
    columns: dict[str, object] = {}
    if rows is not None:
        columns["last_status_code"] = sa.func.coalesce(rows["code"], _event.last_status_code)
        columns["last_error"] = sa.func.coalesce(rows["reason"], _event.last_error)
        if shape.lane is Lane.DELAYED:
            columns["origin"] = rows["origin"]
    if shape.target == OutboxStatus.DELIVERED:
        columns["delivered_at"], columns["last_error"] = now, sa.null()
    if shape.target == OutboxStatus.PENDING:
        columns["delivered_at"] = sa.null()
    return columns


def _lost(row: AnyRow) -> Transition:
    fence = Fence(row.event_id, row.claim_version, OutboxStatus.CLAIMED)
    values = {"reason": "its job is gone"}
    return Transition.finish(fence, OutboxStatus.DEAD_LETTER, Lane.REST, values=values)


def _settled(delivery: Delivery) -> Transition:
    event, decision = delivery.event, delivery.decision
    delay_ms: int | None = None
    values: dict[str, object] = {}
    match decision:
        case Delivered():
            target, lane = OutboxStatus.DELIVERED, Lane.REST
        case Redeliver():
            target, lane, delay_ms = OutboxStatus.PENDING, Lane.DELAYED, decision.delay_ms
            values["reason"] = decision.reason
        case Undeliverable():
            target, lane = OutboxStatus.DEAD_LETTER, Lane.REST
            values["reason"] = decision.reason
        case _:
            assert_never(decision)
    if delivery.status_code is not None:
        values["code"] = delivery.status_code
    if delivery.waits_for is not None:
        values["origin"] = delivery.waits_for
    return Transition.finish(event.fence, target, lane, delay_ms=delay_ms, values=values)


def _logged(delivery: Delivery, end: Transition, row: AnyRow) -> dict[str, object]:
    event = delivery.event
    answer = delivery.answer
    return {
        "delivery_id": new_id(),
        "event_id": event.event_id,
        "job_id": event.job_id,
        "requester_id": event.requester_id,
        "claim_version": event.claim_version,
        "worker_id": event.worker_id,
        "outcome": end.target,
        "status_code": delivery.status_code,
        "error": end.values.get("reason"),
        "answer": None if answer is None else to_storable(answer),
        "duration_ms": delivery.duration_ms,
        "ended_at": row.written_at,
    }
