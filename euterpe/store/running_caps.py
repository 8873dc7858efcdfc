"""Caps on how many jobs of a requester are ready or at work at once, over all queues.

Jobs of a requester with a cap wait in the lane `capped`, where no claim looks. Only the sweep lets them
through: it runs before a claim, and after one that found nothing, so that no write of a worker has to count.
"""

from collections.abc import Sequence

import sqlalchemy as sa

from euterpe.domain.states import Lane
from euterpe.store.lanes import jobs_at_work, own_jobs
from euterpe.store.rows import TEXT, AnyRow, Rows, as_parameter
from euterpe.store.tables import inbox_jobs, requesters

_job = inbox_jobs.c


class RunningCaps:
    def __init__(self) -> None:
        self._lock, self._room, self._next = _lock_statement(), _room_statement(), _next_statement()

    def next_in_line(self, connection: sa.Connection, limit: int) -> Sequence[AnyRow]:
        """Return the capped jobs that may be made ready now, at most `limit` of each requester.

        The caller makes them ready in the same transaction, which holds the rows of their requesters.
        """
        waiting = connection.execute(self._lock, {"limit": limit}).all()
        if not waiting:
            return ()
        # A second statement: it must see what was committed before the first one got its locks.
        with_room = connection.execute(self._room, as_parameter(row._asdict() for row in waiting)).all()
        admitted: list[AnyRow] = []
        for row in with_room:
            room = min(row.room, limit)
            admitted += connection.execute(self._next, {"requester_id": row.requester_id, "room": room})
        return admitted


def _lock_statement() -> sa.Executable:
    of_requester = _job.requester_id == requesters.c.requester_id
    has_waiting = sa.exists(own_jobs(Lane.CAPPED, _job.job_id).where(of_requester).correlate(requesters))
    has_room = jobs_at_work(requesters.c.requester_id) < requesters.c.max_running
    capped = sa.select(requesters.c.requester_id)
    capped = capped.where(requesters.c.max_running.is_not(None), has_waiting, has_room)
    capped = capped.order_by(requesters.c.requester_id).limit(sa.bindparam("limit"))
    return capped.with_for_update(skip_locked=True, of=requesters)


def _room_statement() -> sa.Executable:
    rows = Rows({"requester_id": TEXT})
    room = requesters.c.max_running - jobs_at_work(requesters.c.requester_id)
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
