"""Removing history: finished jobs of old, with all that is known of them, leave their id and nothing else.

Their idempotency keys stay until they expire: a retried request still gets the answer that it got first.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import sqlalchemy as sa

from euterpe.domain.states import Lane
from euterpe.store.database import Database
from euterpe.store.enqueue import Enqueue
from euterpe.store.groups import Groups
from euterpe.store.rows import TEXT, AnyRow, Rows, as_parameter
from euterpe.store.tables import (
    inbox_jobs,
    job_attempts,
    job_deliveries,
    job_outbox_events,
    pruned_jobs,
)

_job, _event = inbox_jobs.c, job_outbox_events.c
# Small: no claim waits long behind one.
_BATCH = 200


@dataclass(frozen=True)
class Pruned:
    jobs: int = 0
    keys: int = 0
    groups: int = 0


class Prune:
    def __init__(self, database: Database, enqueue: Enqueue, groups: Groups) -> None:
        self._database, self._enqueue, self._groups = database, enqueue, groups
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
                _job.lane == sa.literal_column(f"'{Lane.REST}'"),
                _job.finished_at < database.now - sa.bindparam("age_ms", type_=sa.BigInteger),
                ~telling,
            )
            .order_by(_job.job_id)
            .limit(_BATCH)
            .with_for_update(skip_locked=True, of=inbox_jobs)
        )

    def run(self, older_than_ms: int) -> Iterator[Pruned]:
        """Yields after each batch what it has done so far; may be ended and begun anew at any time."""
        done, after = Pruned(), ""
        while removed := self._prune_jobs(after, older_than_ms):
            after = removed[-1].job_id
            done = Pruned(done.jobs + len(removed), done.keys, done.groups)
            yield done
        while keys := self._enqueue.forget_expired():
            done = Pruned(done.jobs, done.keys + keys, done.groups)
            yield done
        while groups := self._forget_groups():
            done = Pruned(done.jobs, done.keys, done.groups + groups)
            yield done

    def _prune_jobs(self, after: str, age_ms: int) -> list[AnyRow]:
        with self._database.transaction() as connection:
            rows = list(connection.execute(self._oldest, {"after": after, "age_ms": age_ms}).all())
            if rows:
                self._remove(connection, rows)
        return rows

    def _remove(self, connection: sa.Connection, rows: list[AnyRow]) -> None:
        batch = as_parameter({"job_id": row.job_id, "requester_id": row.requester_id} for row in rows)
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
            return self._groups.forget_idle(connection, _BATCH)
