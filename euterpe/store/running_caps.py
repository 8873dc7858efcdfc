"""Caps on how many jobs of a requester are ready or at work at once, over all queues.

Jobs of a requester with a cap wait in the lane `capped`, where no claim looks. Only the sweep lets them
through: it runs before a claim, and after one that found nothing, so that no write of a worker has to count.
"""

from collections.abc import Sequence

import sqlalchemy as sa

from euterpe.domain.states import Lane
from euterpe.store.rows import TEXT, AnyRow, AnySelect, Rows, as_parameter
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
    waiting = _of_capped(sa.select(_job.job_id)).where(_job.requester_id == requesters.c.requester_id)
    has_waiting = sa.exists(waiting.correlate(requesters))
    capped = sa.select(requesters.c.requester_id).where(
        requesters.c.max_running.is_not(None), has_waiting, _at_work() < requesters.c.max_running
    )
    capped = capped.order_by(requesters.c.requester_id).limit(sa.bindparam("limit"))
    return capped.with_for_update(skip_locked=True, of=requesters)


def _room_statement() -> sa.Executable:
    rows = Rows({"requester_id": TEXT})
    room = requesters.c.max_running - _at_work()
    return (
        sa.select(requesters.c.requester_id, room.label("room"))
        .join_from(rows.table, requesters, requesters.c.requester_id == rows["requester_id"])
        .where(room > 0)
    )


def _next_statement() -> sa.Executable:
    line = _of_capped(sa.select(_job.job_id, _job.queue, _job.requester_id, _job.priority))
    line = line.where(_job.requester_id == sa.bindparam("requester_id"))
    line = line.order_by(_job.priority.desc(), _job.available_at, _job.job_id).limit(sa.bindparam("room"))
    return line.with_for_update(skip_locked=True)


def _of_capped(select: AnySelect) -> AnySelect:
    """Return the select over capped jobs only, by their own index.

    SQLite is told which one: after an ANALYZE that saw many small requesters it would read through all that
    the requester ever had.
    """
    select = select.where(_job.lane == _literal(Lane.CAPPED))
    return select.with_hint(inbox_jobs, "INDEXED BY inbox_capped", "sqlite")


def _at_work() -> sa.ScalarSelect[int]:
    """Return how many jobs of a requester are ready or leased, as a subquery."""
    working = sa.or_(_job.lane == _literal(Lane.READY), _job.lane == _literal(Lane.LEASED))
    of_requester = _job.requester_id == requesters.c.requester_id
    # The last condition is that of the partial index, in its words.
    unfinished = _job.lane != _literal(Lane.REST)
    counted = sa.select(sa.func.count()).select_from(inbox_jobs).where(of_requester, working, unfinished)
    return counted.correlate(requesters).scalar_subquery()


def _literal(lane: Lane) -> sa.ColumnElement[str]:
    # A literal in the text: SQLite decides at prepare time whether a partial index applies.
    return sa.literal_column(f"'{lane}'")
