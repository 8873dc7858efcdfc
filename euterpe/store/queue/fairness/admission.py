"""Admission: the moves of a queued job from lane to lane, until the job is ready to be claimed.

A job waits in the lane `delayed` until it is due, in `blocked` until its group has room, and in `capped`
until its requester is below its cap on running jobs. When the job need not wait any more, it gets a rank
(`fair_shares.py`) and enters the lane `ready`. A job that is queued again, after a backoff or a retry, passes
the same lanes and gets a new rank. If jobs kept their old ranks, a requester could save up its share while
its jobs wait, and use the whole share at once.

Lock order on Postgres: idempotency keys (in an enqueue), then requesters, then owned, ready, delayed and
finished jobs, then groups, then blocked and capped jobs, then shares. A ranking takes a weaker lock on
requesters (FOR KEY SHARE), sometimes after its other locks. This cannot deadlock, because each transaction
that conflicts with this lock, such as `requester set`, locks a requester before all other rows.
"""

from collections.abc import Iterable, Sequence

import sqlalchemy as sa

from euterpe.domain.states import Lane
from euterpe.store.engine.batch_rows import INTEGER, TEXT, AnyRow, AnySelect, Rows, as_parameter
from euterpe.store.engine.database import Database
from euterpe.store.queue.fairness.due_rows import DueRows
from euterpe.store.queue.fairness.fair_shares import FairShares
from euterpe.store.queue.fairness.groups import Group, Groups
from euterpe.store.queue.fairness.running_caps import RunningCaps
from euterpe.store.tables import fair_shares, inbox_jobs, job_groups

Key = tuple[str, ...]


class BusyRows:
    """The rows of a table that other transactions have locked. All key columns of the table are text."""

    def __init__(self, database: Database, table: sa.Table) -> None:
        self._locks_rows, self._key = database.engines.locks_rows, list(table.primary_key.columns)
        self._there = self._there_statement()
        self._free = self._there.order_by(*self._key).with_for_update(skip_locked=True)

    def among(self, connection: sa.Connection, keys: Iterable[Key]) -> set[Key]:
        """Return the keys whose rows another transaction has locked, and lock the remaining rows."""
        wanted = set(keys)
        if not self._locks_rows or not wanted:
            return set()
        named = as_parameter(
            {column.name: value for column, value in zip(self._key, key, strict=True)}
            for key in sorted(wanted)
        )
        free, there = (set(map(tuple, connection.execute(each, named))) for each in (self._free, self._there))
        return there - free

    def _there_statement(self) -> AnySelect:
        rows = Rows({column.name: TEXT for column in self._key})
        named = sa.select(*(rows[column.name] for column in self._key))
        return sa.select(*self._key).where(sa.tuple_(*self._key).in_(named))


_job = inbox_jobs.c
_WAITING = (_job.job_id, _job.queue, _job.requester_id, _job.priority, _job.group_id)


class Admission:
    """Move queued jobs into the lanes `blocked`, `capped` and `ready`, in the caller's transaction."""

    def __init__(self, database: Database, shares: FairShares) -> None:
        self.groups, self.shares = Groups(database), shares
        self._caps = RunningCaps()
        self._due = DueRows(database, inbox_jobs, _WAITING, "inbox_due")
        self._busy_groups = BusyRows(database, job_groups)
        self._busy_shares = BusyRows(database, fair_shares)
        self._enter = _enter_statement()

    def admit(self, connection: sa.Connection, groups: Iterable[Group], *, locked: bool = False) -> int:
        """Admit the next job of each group with room. Return how many jobs became ready.

        `locked` means that this transaction has locked the rows of these groups already.
        """
        return self._make_ready(connection, self.groups.next_in_line(connection, groups, locked=locked))

    def promote_due(self, connection: sa.Connection, limit: int) -> int | None:
        """Move due jobs (those that `DueRows.pick` returns) out of the lane `delayed`; return how many.

        Return None if no job is due. In this case no row was locked.
        """
        picked = self._due.pick(connection, limit)
        if not picked:
            return None
        due = self._of_free_groups(connection, picked)
        due = self._of_free_shares(connection, due)
        grouped = [row for row in due if row.group_id is not None]
        if grouped:
            self._move(connection, {row.job_id: None for row in grouped}, Lane.BLOCKED)
        in_line = self.groups.next_in_line(
            connection, {Group(row.queue, row.requester_id, row.group_id) for row in grouped}
        )
        self._make_ready(connection, [*(row for row in due if row.group_id is None), *in_line])
        return len(due)

    def admit_capped(self, connection: sa.Connection, limit: int) -> int:
        """Admit capped jobs whose requester has room under its cap; return how many."""
        admitted = self._of_free_shares(connection, self._caps.next_in_line(connection, limit))
        return self._make_ready(connection, admitted, past_cap=True)

    # Sweeps skip locked groups and shares. If sweeps waited for these locks, a frozen process with such a
    # lock would stop the sweeps of all workers. Each stopped sweep would also keep locks on a hundred jobs of
    # various requesters.

    def _of_free_groups(self, connection: sa.Connection, rows: Sequence[AnyRow]) -> Sequence[AnyRow]:
        """Return the jobs, except those whose group is locked by another transaction."""
        named = {row.job_id: (row.queue, row.requester_id, row.group_id) for row in rows if row.group_id}
        busy = self._busy_groups.among(connection, named.values())
        return [row for row in rows if named.get(row.job_id) not in busy]

    def _of_free_shares(self, connection: sa.Connection, rows: Sequence[AnyRow]) -> Sequence[AnyRow]:
        """Return the jobs, except those whose requester has a share that another transaction has locked."""
        busy = self._busy_shares.among(connection, [(row.queue, row.requester_id) for row in rows])
        return [row for row in rows if (row.queue, row.requester_id) not in busy]

    def _make_ready(
        self, connection: sa.Connection, rows: Sequence[AnyRow], *, past_cap: bool = False
    ) -> int:
        """Rank jobs; move each to `ready`, or to `capped` if it gets no rank; return how many are ready."""
        if not rows:
            return 0
        ranks = self.shares.ranks(connection, rows, past_cap=past_cap).by_job
        ready = {job_id: rank for job_id, rank in ranks.items() if rank is not None}
        self._move(connection, ready, Lane.READY)
        self._move(connection, {job_id: None for job_id in ranks if job_id not in ready}, Lane.CAPPED)
        return len(ready)

    def _move(self, connection: sa.Connection, ranks: dict[str, int] | dict[str, None], lane: Lane) -> None:
        if ranks:
            rows = [{"key": job_id, "lane": lane, "rank": ranks[job_id]} for job_id in sorted(ranks)]
            connection.execute(self._enter, as_parameter(rows))


def _enter_statement() -> sa.Executable:
    rows = Rows({"key": TEXT, "lane": TEXT, "rank": INTEGER})
    return (
        sa.update(inbox_jobs)
        .values(lane=rows["lane"], rank=rows["rank"])
        .where(_job.job_id == rows["key"], _job.status == sa.literal_column("'queued'"))
    )
