"""Prune the history: delete old finished jobs with all their rows. Only ids and `source_ref`s stay.

Idempotency keys stay until they expire, so a repeated request still gets the response of the first request.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from euterpe.domain.states import Lane
from euterpe.store.engine.batch_rows import TEXT, AnyRow, Rows, as_parameter
from euterpe.store.engine.database import Database
from euterpe.store.queue.enqueue import Enqueue
from euterpe.store.queue.fairness.admission import Admission
from euterpe.store.queue.lanes import lane_is
from euterpe.store.queue_jobs.maintenance import FinishedQueueJobs
from euterpe.store.tables import (
    inbox_jobs,
    job_attempts,
    job_deliveries,
    job_outbox_events,
    pruned_jobs,
)

_job, _event = inbox_jobs.c, job_outbox_events.c
# Lock events in the same order as replays do, so that a prune and a replay cannot deadlock.
_LOCK_EVENTS = (
    sa.select(_event.job_id, _event.lane)
    .where(_event.job_id.in_(sa.select(Rows({"job_id": TEXT})["job_id"])))
    .order_by(_event.event_id)
    .with_for_update()
)
# A batch is small, so that no claim waits long for the transaction that deletes it.
_BATCH = 200


@dataclass(frozen=True)
class PruneResult:
    jobs: int = 0
    keys: int = 0
    groups: int = 0
    queue_jobs: int = 0


class Pruner:
    """Delete old finished jobs, expired idempotency keys, idle groups and shares, and finished queue jobs."""

    def __init__(self, database: Database, enqueue: Enqueue, admission: Admission) -> None:
        self._database, self._enqueue, self._admission = database, enqueue, admission
        self._queue_jobs = FinishedQueueJobs(database)
        # Do not prune a job with an event that is still to be delivered.
        has_open_events = sa.exists().where(
            _event.job_id == _job.job_id, _event.lane != sa.literal_column(f"'{Lane.REST}'")
        )
        # Each batch begins after the last id of the previous batch, so no job is read twice. Ids begin with a
        # time, so they ascend nearly in the order of the enqueues.
        self._oldest = (
            sa.select(_job.job_id, _job.requester_id, _job.source_ref)
            .where(
                _job.job_id > sa.bindparam("after"),
                _job.created_at < database.now - sa.bindparam("age_ms", type_=sa.BigInteger),
                lane_is(inbox_jobs, Lane.REST),
                _job.finished_at < database.now - sa.bindparam("age_ms", type_=sa.BigInteger),
                ~has_open_events,
            )
            .order_by(_job.job_id)
            .limit(sa.bindparam("limit"))
            .with_for_update(skip_locked=True, of=inbox_jobs)
        )

    def run(self, older_than_ms: int, *, batch: int = _BATCH) -> Iterator[PruneResult]:
        """Prune in batches; after each batch of jobs, keys, groups or queue jobs, yield the totals so far.

        A batch has at most `batch` rows, or 1,000 rows if it deletes idempotency keys. The caller may end the
        iteration at any time. A later run prunes the rest.
        """
        done, after = PruneResult(), ""
        while removed := self._prune_jobs(after, older_than_ms, batch):
            after, jobs = removed
            done = replace(done, jobs=done.jobs + jobs)
            yield done
        while keys := self._enqueue.forget_expired():
            done = replace(done, keys=done.keys + keys)
            yield done
        while groups := self._forget_groups(batch):
            done = replace(done, groups=done.groups + groups)
            yield done
        while removed_jobs := self._queue_jobs.forget(older_than_ms, batch):
            done = replace(done, queue_jobs=done.queue_jobs + removed_jobs)
            yield done
        while groups := self._queue_jobs.forget_groups(batch):
            done = replace(done, groups=done.groups + groups)
            yield done
        while self._forget_shares(batch):
            pass

    def _prune_jobs(self, after: str, age_ms: int, limit: int) -> tuple[str, int] | None:
        """Prune a batch; return its last job id and the number of removed jobs, or None if no job is left."""
        with self._database.transaction() as connection:
            old = connection.execute(self._oldest, {"after": after, "age_ms": age_ms, "limit": limit}).all()
            if not old:
                return None
            history = self._without_open_events(connection, old)
            if history:
                self._remove(connection, history)
        return old[-1].job_id, len(history)

    def _without_open_events(self, connection: sa.Connection, jobs: Sequence[AnyRow]) -> list[AnyRow]:
        """Lock the events of these jobs; return the jobs that have no event still to be delivered.

        The events are checked a second time, because a replay may have committed since the jobs were
        selected. A replay that begins later waits for the lock.
        """
        events = connection.execute(_LOCK_EVENTS, as_parameter({"job_id": job.job_id} for job in jobs)).all()
        with_open_events = {event.job_id for event in events if event.lane != Lane.REST}
        return [job for job in jobs if job.job_id not in with_open_events]

    def _remove(self, connection: sa.Connection, jobs: Sequence[AnyRow]) -> None:
        kept = ("job_id", "requester_id", "source_ref")
        batch = as_parameter({name: getattr(job, name) for name in kept} for job in jobs)
        named = Rows(dict.fromkeys(kept, TEXT))
        ids = sa.select(named["job_id"])
        for table in (job_deliveries, job_outbox_events, job_attempts, inbox_jobs):
            connection.execute(sa.delete(table).where(table.c.job_id.in_(ids)), batch)
        connection.execute(
            sa.insert(pruned_jobs).from_select(
                [*kept, "pruned_at"],
                sa.select(*(named[name] for name in kept), self._database.now),
            ),
            batch,
        )

    def _forget_groups(self, limit: int) -> int:
        with self._database.transaction() as connection:
            return self._admission.groups.forget_idle(connection, limit)

    def _forget_shares(self, limit: int) -> int:
        with self._database.transaction() as connection:
            return self._admission.shares.forget_idle(connection, limit)
