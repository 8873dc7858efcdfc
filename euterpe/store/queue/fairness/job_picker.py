"""Pick the jobs of a claim: the lowest ranks of a queue and, within a requester, the highest priorities.

Each rank is one turn of a requester. If a requester's ready jobs differ in priority, the oldest job of the
highest priority swaps ranks with the job whose turn it is. So a priority orders the jobs of one requester,
and never delays a job of another requester.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter

import sqlalchemy as sa

from euterpe.domain.states import Lane
from euterpe.store.engine.batch_rows import (
    INTEGER,
    TEXT,
    AnyColumn,
    AnyRow,
    AnySelect,
    Rows,
    as_parameter,
    fetch_all,
)
from euterpe.store.queue.fairness.fair_shares import FairShares, is_mixed
from euterpe.store.queue.lanes import own_jobs
from euterpe.store.queue.leases import LeasedTable
from euterpe.store.tables import inbox_jobs, queues

_job = inbox_jobs.c


class JobPicker:
    """Choose jobs for claims. `columns` are the columns that a claim needs from each job."""

    def __init__(self, jobs: LeasedTable, shares: FairShares, columns: Sequence[AnyColumn]) -> None:
        self._shares = shares
        queue: sa.BindParameter[str] = sa.bindparam("queue")
        unpaused = ~sa.exists().where(queues.c.queue == queue, queues.c.paused_at.is_not(None))
        read = (*columns, _job.rank, _job.priority, _job.available_at)
        self._turns = jobs.ready((*read, is_mixed().label("is_mixed")), _job.queue == queue, unpaused)
        self._most_urgent = _most_urgent_statement(read)
        self._write_ranks = _write_ranks_statement()

    def pick(self, connection: sa.Connection, queue: str, limit: int) -> list[AnyRow]:
        """Lock and return the next jobs of a queue, at most `limit`."""
        turns = fetch_all(connection.execute(self._turns, {"queue": queue, "limit": limit}))
        self._shares.note_claimed(connection, queue, turns[-1].rank if turns else None)
        mixed = [row for row in turns if row.is_mixed]
        if not mixed:
            return turns
        picked = [row for row in turns if not row.is_mixed]
        mixed.sort(key=attrgetter("requester_id"))
        for requester_id, own in groupby(mixed, key=attrgetter("requester_id")):
            picked += self._most_urgent_jobs(connection, queue, requester_id, list(own))
        return picked

    def _most_urgent_jobs(
        self, connection: sa.Connection, queue: str, requester_id: str, turns: Sequence[AnyRow]
    ) -> list[AnyRow]:
        """Return the requester's jobs with the highest priority: one job for each job in `turns`.

        Swap the ranks of these jobs with the ranks of the jobs in `turns`.
        """
        wanted = {"queue": queue, "requester_id": requester_id, "limit": len(turns)}
        urgent = fetch_all(connection.execute(self._most_urgent, wanted))
        ranks = _swapped_ranks(turns, urgent)
        if ranks:
            rows = [{"key": job_id, "rank": ranks[job_id]} for job_id in sorted(ranks)]
            connection.execute(self._write_ranks, as_parameter(rows))
        return urgent


def _swapped_ranks(turns: Sequence[AnyRow], urgent: Sequence[AnyRow]) -> Mapping[str, int]:
    """Return the new ranks of the jobs that move ahead, and of the jobs whose turns they take."""
    taken, had_turn = {row.job_id for row in urgent}, {row.job_id for row in turns}
    early = [row for row in urgent if row.job_id not in had_turn]
    later = [row for row in turns if row.job_id not in taken]
    later.sort(key=lambda row: (-row.priority, row.available_at, row.job_id))
    turns_of_later = sorted(row.rank for row in later)
    ranks_of_early = sorted(row.rank for row in early)
    return {
        **{row.job_id: rank for row, rank in zip(early, turns_of_later, strict=True)},
        **{row.job_id: rank for row, rank in zip(later, ranks_of_early, strict=True)},
    }


def _most_urgent_statement(columns: Sequence[AnyColumn]) -> AnySelect:
    line = own_jobs(Lane.READY, *columns).where(
        _job.queue == sa.bindparam("queue"), _job.requester_id == sa.bindparam("requester_id")
    )
    line = line.order_by(_job.priority.desc(), _job.available_at, _job.job_id).limit(sa.bindparam("limit"))
    return line.with_for_update(skip_locked=True)


def _write_ranks_statement() -> sa.Executable:
    rows = Rows({"key": TEXT, "rank": INTEGER})
    return sa.update(inbox_jobs).values(rank=rows["rank"]).where(_job.job_id == rows["key"])
