"""Caps on how many jobs of a requester are ready or running at once, over all queues.

Jobs of a requester with a cap wait in the lane `capped`, which no claim reads. Only the sweep admits these
jobs, so that no write of a worker has to count jobs. The sweep runs before a claim, or after a claim that
found nothing. If a requester's cap was removed, the sweep admits all capped jobs of this requester.
"""

from collections.abc import Sequence

import sqlalchemy as sa

from euterpe.domain.states import Lane
from euterpe.store.engine.batch_rows import TEXT, AnyRow, Rows, as_parameter
from euterpe.store.queue.lanes import LaneRequesters, jobs_at_work, own_jobs
from euterpe.store.tables import inbox_jobs, requesters

_job = inbox_jobs.c
_UNCAPPED = 1_000_000


class RunningCaps:
    def __init__(self) -> None:
        self._waiting = LaneRequesters(inbox_jobs, Lane.CAPPED, "inbox_capped")
        self._lock, self._room, self._next = _lock_statement(), _room_statement(), _next_statement()

    def next_in_line(self, connection: sa.Connection, limit: int) -> Sequence[AnyRow]:
        """Return about `limit` capped jobs that can become ready now, divided between their requesters.

        Lock the rows of these requesters. The caller must make the jobs ready in the same transaction.
        """
        waiting = self._waiting.next(connection)
        if not waiting:
            return ()
        named = as_parameter({"requester_id": requester_id} for requester_id in waiting)
        held = connection.execute(self._lock, named).all()
        # Count in a second statement, which sees all rows that were committed before the first statement got
        # its locks.
        with_room = connection.execute(self._room, as_parameter(row._asdict() for row in held)).all()
        admitted: list[AnyRow] = []
        for row in with_room:
            room = min(row.room, max(1, limit // len(with_room)))
            admitted += connection.execute(self._next, {"requester_id": row.requester_id, "room": room})
        return admitted


def _lock_statement() -> sa.Executable:
    named = requesters.c.requester_id.in_(sa.select(Rows({"requester_id": TEXT})["requester_id"]))
    rows = sa.select(requesters.c.requester_id).where(named).order_by(requesters.c.requester_id)
    # Use FOR NO KEY UPDATE, which does not conflict with the lock of an enqueue (`fair_shares.py`). FOR
    # UPDATE, which `requester set` uses, conflicts with the lock of an enqueue.
    return rows.with_for_update(key_share=True, skip_locked=True)


def _room_statement() -> sa.Executable:
    rows = Rows({"requester_id": TEXT})
    cap = sa.func.coalesce(requesters.c.max_running, _UNCAPPED)
    room = cap - jobs_at_work(requesters.c.requester_id)
    return (
        sa.select(requesters.c.requester_id, room.label("room"))
        .join_from(rows.table, requesters, requesters.c.requester_id == rows["requester_id"])
        .where(room > 0)
    )


def _next_statement() -> sa.Executable:
    columns = (_job.job_id, _job.queue, _job.requester_id, _job.priority)
    line = own_jobs(Lane.CAPPED, *columns, index="inbox_capped")
    line = line.where(_job.requester_id == sa.bindparam("requester_id"))
    line = line.order_by(_job.priority.desc(), _job.available_at, _job.job_id).limit(sa.bindparam("room"))
    return line.with_for_update(skip_locked=True)
