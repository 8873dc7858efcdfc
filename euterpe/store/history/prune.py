"""Removing history: finished jobs of old, with all that is known of them, leave their id and nothing else.

Their idempotency keys stay until they expire: a retried request still gets the answer that it got first.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from euterpe.domain.states import Lane
from euterpe.store.engine.batch_rows import TEXT, AnyRow, Rows, as_parameter
from euterpe.store.engine.database import Database
from euterpe.store.queue.enqueue import Enqueue
from euterpe.store.queue.fairness.admission import Admission
from euterpe.store.queue.lanes import lane_is
from euterpe.store.tables import (
    inbox_jobs,
    job_attempts,
    job_deliveries,
    job_outbox_events,
    pruned_jobs,
)

_job, _event = inbox_jobs.c, job_outbox_events.c
# In the order in which replays lock them.
_LOCK_EVENTS = (
    sa.select(_event.job_id, _event.lane)
    .where(_event.job_id.in_(sa.select(Rows({"job_id": TEXT})["job_id"])))
    .order_by(_event.event_id)
    .with_for_update()
)
# Small: no claim waits long behind one.
_BATCH = 200


@dataclass(frozen=True)
class PruneResult:
    jobs: int = 0
    keys: int = 0
    groups: int = 0


class Pruner:
    def __init__(self, database: Database, enqueue: Enqueue, admission: Admission) -> None:
        self._database, self._enqueue, self._admission = database, enqueue, admission
        # A job that still has something to tell is not history yet.
        telling = sa.exists().where(
            _event.job_id == _job.job_id, _event.lane != sa.literal_column(f"'{Lane.REST}'")
        )
        # In the order of the ids, which is that of the enqueues: from one batch to the next nothing is
        # read twice.
        self._oldest = (
            sa.select(_job.job_id, _job.requester_id)
            .where(
                _job.job_id > sa.bindparam("after"),
                _job.created_at < database.now - sa.bindparam("age_ms", type_=sa.BigInteger),
                lane_is(inbox_jobs, Lane.REST),
                _job.finished_at < database.now - sa.bindparam("age_ms", type_=sa.BigInteger),
                ~telling,
            )
            .order_by(_job.job_id)
            .limit(_BATCH)
            .with_for_update(skip_locked=True, of=inbox_jobs)
        )

    def run(self, older_than_ms: int) -> Iterator[PruneResult]:
        """Yields after each batch what it has done so far; may be ended and begun anew at any time."""
        done, after = PruneResult(), ""
        while batch := self._prune_jobs(after, older_than_ms):
            after, removed = batch
            done = PruneResult(done.jobs + removed, done.keys, done.groups)
            yield done
        while keys := self._enqueue.forget_expired():
            done = PruneResult(done.jobs, done.keys + keys, done.groups)
            yield done
        while groups := self._forget_groups():
            done = PruneResult(done.jobs, done.keys, done.groups + groups)
            yield done
        while self._forget_shares():
            pass

    def _prune_jobs(self, after: str, age_ms: int) -> tuple[str, int] | None:
        """The last job that was looked at, and how many were removed; None when there are no more."""
        with self._database.transaction() as connection:
            old = connection.execute(self._oldest, {"after": after, "age_ms": age_ms}).all()
            if not old:
                return None
            history = self._with_nothing_to_tell(connection, old)
            if history:
                self._remove(connection, history)
        return old[-1].job_id, len(history)

    def _with_nothing_to_tell(self, connection: sa.Connection, jobs: Sequence[AnyRow]) -> list[AnyRow]:
        """Looked at once more: a replay may have come between the look and now. From now on it waits."""
        events = connection.execute(_LOCK_EVENTS, as_parameter({"job_id": job.job_id} for job in jobs)).all()
        telling = {event.job_id for event in events if event.lane != Lane.REST}
        return [job for job in jobs if job.job_id not in telling]

    def _remove(self, connection: sa.Connection, jobs: Sequence[AnyRow]) -> None:
        batch = as_parameter({"job_id": job.job_id, "requester_id": job.requester_id} for job in jobs)
        named = Rows({"job_id": TEXT, "requester_id": TEXT})
        ids = sa.select(named["job_id"])
        for table in (job_deliveries, job_outbox_events, job_attempts, inbox_jobs):
            connection.execute(sa.delete(table).where(table.c.job_id.in_(ids)), batch)
        connection.execute(
            sa.insert(pruned_jobs).from_select(
                ["job_id", "requester_id", "pruned_at"],
                sa.select(named["job_id"], named["requester_id"], self._database.now),
            ),
            batch,
        )

    def _forget_groups(self) -> int:
        with self._database.transaction() as connection:
            return self._admission.groups.forget_idle(connection, _BATCH)

    def _forget_shares(self) -> int:
        with self._database.transaction() as connection:
            return self._admission.shares.forget_idle(connection, _BATCH)
