"""Replay events: send them again at the operator's request, with the same id and body."""

from collections.abc import Collection, Iterator, Sequence

import sqlalchemy as sa

from euterpe.domain.states import Lane, OutboxStatus
from euterpe.store.checks import MAX_BATCH
from euterpe.store.engine.batch_rows import TEXT, AnyRow, AnySelect, Rows, as_parameter
from euterpe.store.engine.database import Database
from euterpe.store.engine.wakeup import Topic
from euterpe.store.errors import NotFound
from euterpe.store.queue.lanes import lane_is
from euterpe.store.queue.outbox import Outbox
from euterpe.store.queue.transition import Fence, Transition
from euterpe.store.tables import job_outbox_events

_event = job_outbox_events.c
_LOCKED = (_event.event_id, _event.requester_id, _event.claim_version, _event.status, _event.attempt_count)
_WAITING = (_event.event_id, _event.requester_id, _event.available_at)


class Replay:
    """Make delivered and dead events pending again, or make waiting events due now.

    Each transaction changes at most `batch` events, because a transaction of a million events would delay
    every other writer.
    """

    def __init__(self, database: Database, outbox: Outbox, *, batch: int = MAX_BATCH) -> None:
        self._database, self._events, self._origins = database, outbox.events, outbox.origins
        self._batch = batch
        self._due_now = (
            sa.update(job_outbox_events)
            .values(lane=Lane.READY.value, available_at=database.now)
            .where(
                _event.event_id.in_(sa.select(Rows({"key": TEXT})["key"])),
                _event.status == OutboxStatus.PENDING,
            )
        )

    def one(self, event_id: str) -> None:
        """Replay an event. If the event waits for its next attempt, make it due now and keep its budget."""
        if not (sum(self.batches(_event.event_id == event_id)) or self._make_one_due(event_id)):
            raise NotFound(f"there is no delivered, dead or waiting event {event_id!r} to replay")

    def dead_letters(self, requester_id: str) -> int:
        """Replay all dead letters of a requester; return how many."""
        dead = _event.status == OutboxStatus.DEAD_LETTER
        return sum(self.batches(_event.requester_id == requester_id, dead))

    def between(self, since_ms: int, until_ms: int) -> int:
        """Replay the delivered and dead events that were created between two times; return how many."""
        return sum(self.batches(_event.created_at >= since_ms, _event.created_at < until_ms))

    def batches(self, *where: sa.ColumnElement[bool]) -> Iterator[int]:
        """Make delivered and dead events pending, with a new budget; yield the size of each written batch."""
        again = (OutboxStatus.DELIVERED, OutboxStatus.DEAD_LETTER)
        wanted = sa.select(*_LOCKED).where(_event.status.in_(again), *where)
        wanted = wanted.order_by(_event.event_id).limit(self._batch).with_for_update()
        after = ""
        # Each batch begins after the last id of the previous batch, so that an event that is delivered again
        # during the replay is not replayed twice.
        while batch := self._write(wanted.where(_event.event_id > after)):
            after = max(batch)
            yield len(batch)

    def pending(self, requester_id: str | None = None) -> int:
        """Find all events that wait for their next attempt, and make them due now. Return how many.

        The events keep their budgets. For the requesters of these events, delete the stored circuit breakers
        of all receivers, because the circuit breakers would delay the events.
        """
        key = sa.tuple_(_event.available_at, _event.event_id)
        waiting = sa.select(*_WAITING).where(lane_is(job_outbox_events, Lane.DELAYED))
        if requester_id is not None:
            waiting = waiting.where(_event.requester_id == requester_id)
        waiting = waiting.order_by(_event.available_at, _event.event_id)
        waiting = waiting.limit(self._batch).with_for_update(skip_locked=True)
        done, after = 0, (0, "")
        # Each batch begins after the last event of the previous batch, so that an event that fails again
        # during this call is not made due twice.
        while batch := self._make_due(waiting.where(key > after)):
            done, after = done + len(batch), (batch[-1].available_at, batch[-1].event_id)
        return done

    def _write(self, wanted: AnySelect) -> Collection[str]:
        with self._database.transaction() as connection:
            rows = connection.execute(wanted).all()
            self._origins.forget(connection, {row.requester_id for row in rows})
            retries = [
                Transition.retry(
                    Fence(row.event_id, row.claim_version, row.status),
                    OutboxStatus.PENDING,
                    Lane.READY,
                    attempts=-row.attempt_count,
                )
                for row in rows
            ]
            if retries:
                self._database.announce(connection, Topic.OUTBOX)
            return {row.event_id for row in self._events.write(connection, retries)}

    def _make_one_due(self, event_id: str) -> int:
        waiting = sa.select(*_WAITING)
        waiting = waiting.where(_event.event_id == event_id, _event.status == OutboxStatus.PENDING)
        return len(self._make_due(waiting.with_for_update()))

    def _make_due(self, waiting: AnySelect) -> Sequence[AnyRow]:
        """Make waiting events due now, with the same budget; return their rows as they were before."""
        with self._database.transaction() as connection:
            found = connection.execute(waiting).all()
            self._origins.forget(connection, {row.requester_id for row in found})
            connection.execute(self._due_now, as_parameter({"key": row.event_id} for row in found))
            self._database.announce(connection, Topic.OUTBOX)
        return found
