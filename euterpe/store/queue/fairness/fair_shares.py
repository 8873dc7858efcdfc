"""Start-time fair queueing between the requesters of a queue (decision 22).

A job that becomes ready gets a `rank`, and claims take the lowest rank first. The rank is the job's virtual
start time: the virtual time of the queue, or the virtual finish time of the requester's previous job if that
is later. A job's virtual finish time is its start time plus `JOB_COST` divided by the requester's weight. So
if a requester sends 5,000 jobs at once, their ranks are spread over future virtual time, and the next job of
any other requester is claimed before most of these jobs.
"""

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import sqlalchemy as sa

from euterpe.store.engine.batch_rows import INTEGER, TEXT, Rows, as_parameter
from euterpe.store.engine.database import Database
from euterpe.store.queue.lanes import has_unfinished_job
from euterpe.store.tables import fair_shares, inbox_jobs, queues, requesters

DEFAULT_WEIGHT, MAX_WEIGHT = 100, 10_000
# The virtual time of one job at weight 1. The number is so large that the rounding of `JOB_COST` divided by a
# weight does not matter. The largest rank, 2**63, is enough for 92 billion jobs at the default weight.
JOB_COST = 10_000_000_000


class WaitingJob(Protocol):
    """A job that needs only a rank to be ready: a `NewJob`, or the row of a job whose wait has ended."""

    @property
    def job_id(self) -> str: ...
    @property
    def queue(self) -> str: ...
    @property
    def requester_id(self) -> str: ...
    @property
    def priority(self) -> int: ...


# The key of a requester's share of a queue: the name of the queue and the id of the requester.
Share = tuple[str, str]


class Ranks(NamedTuple):
    """The rank of each job (None if the job must wait for a cap) and the current time of the database."""

    by_job: Mapping[str, int | None]
    now: int | None


class FairShares:
    """The virtual times of queues and requesters, which determine the ranks of jobs. Thread-safe."""

    def __init__(
        self,
        database: Database,
        *,
        advance_every_ms: int = 100,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database, self._advance_every_s = database, advance_every_ms / 1000
        self._monotonic = monotonic
        self._charge = self._charge_statement()
        self._advance = _advance_statement()
        new_queue = database.insert(queues).values(
            queue=sa.bindparam("of_queue"), virtual_time=sa.bindparam("reached", type_=sa.BigInteger)
        )
        self._make_queue = new_queue.on_conflict_do_nothing()
        self._idle, self._forget = _idle_statement(), _forget_statement()
        self._virtual_times = sa.select(queues.c.queue, queues.c.virtual_time).where(
            queues.c.queue.in_(sa.bindparam("names", expanding=True))
        )
        self._claimed: dict[str, int] = {}
        self._missing: set[str] = set()  # the queues that may lack a row in the table `queues`
        self._advanced_at: dict[str, float] = {}
        self._lock = threading.Lock()

    def ranks(
        self,
        connection: sa.Connection,
        jobs: Iterable[WaitingJob],
        *,
        also_locked: Iterable[Share] = (),
        past_cap: bool = False,
    ) -> Ranks:
        """Charge each requester for its jobs; return the ranks of the jobs.

        The jobs of a share get ascending ranks in the order of `jobs`. If a requester has a cap, its jobs get
        the rank None, and the requester is not charged. With `past_cap`, its jobs get ranks, too: the caller
        has checked that the cap has room for them. The shares in `also_locked` are locked, too, because the
        transaction may charge them later, and on Postgres a transaction must lock all its shares in sorted
        order.
        """
        by_share: dict[Share, list[WaitingJob]] = {share: [] for share in also_locked}
        for job in jobs:
            by_share.setdefault((job.queue, job.requester_id), []).append(job)
        if not by_share:
            return Ranks({}, None)
        ranks: dict[str, int | None] = {}
        now = None
        for row in connection.execute(self._charge, as_parameter(_demands(by_share, past_cap=past_cap))):
            now, own = row.now, by_share[row.queue, row.requester_id]
            if row.max_running is not None and not past_cap:
                ranks |= dict.fromkeys((job.job_id for job in own), None)
            elif own:
                first, step = row.finish - row.charged, row.charged // len(own)
                ranks |= {job.job_id: first + place * step for place, job in enumerate(own)}
        return Ranks(ranks, now)

    def make_queues(self) -> None:
        """Insert a row for each queue that a claim found without a row. Call this after the claim.

        The rows are inserted in a separate transaction. If a claim inserted the rows, other claims would wait
        for the end of this claim, and two claims from several queues could deadlock.

        This process notes virtual times that it could not write. If the stored virtual time of a queue has
        reached the noted value, drop the noted value, so that claims do not try again to write this value.
        """
        with self._lock:
            new = {name: self._claimed[name] for name in sorted(self._missing) if name in self._claimed}
            self._missing.clear()
        if not new:
            return
        with self._database.transaction() as connection:
            for name, virtual_time in new.items():
                connection.execute(self._make_queue, {"of_queue": name, "reached": virtual_time})
            reached = connection.execute(self._virtual_times, {"names": list(new)}).all()
        with self._lock:
            for row in reached:
                if self._claimed.get(row.queue, math.inf) <= row.virtual_time:
                    del self._claimed[row.queue]

    def note_claimed(self, connection: sa.Connection, queue: str, rank: int | None) -> None:
        """Raise the virtual time of a queue to the highest rank that was claimed from the queue.

        This process writes the row at most once in `advance_every_ms`. If another claim has locked the row,
        do not wait, but let a later claim write this rank: otherwise all claims from a queue would wait for
        one row. A requester that arrives between two writes starts at the last written time, which is
        slightly too early.
        """
        reached = self._due_to_write(queue, rank)
        if reached is None:
            return
        written = connection.execute(self._advance, {"of_queue": queue, "reached": reached}).all()
        if not written:  # another claim has locked the row or written a later time, or there is no row
            with self._lock:
                self._claimed[queue] = max(reached, self._claimed.get(queue, 0))
                self._missing.add(queue)

    def _due_to_write(self, queue: str, rank: int | None) -> int | None:
        """Return the highest rank that was claimed since the last write, or None if no write is due."""
        now = self._monotonic()
        with self._lock:
            if rank is not None:
                self._claimed[queue] = max(rank, self._claimed.get(queue, 0))
            is_time = now - self._advanced_at.get(queue, -math.inf) >= self._advance_every_s
            if queue not in self._claimed or not is_time:
                return None
            self._advanced_at[queue] = now
            return self._claimed.pop(queue)

    def forget_idle(self, connection: sa.Connection, limit: int) -> int:
        """Delete shares without an unfinished job, at most `limit`; return how many.

        Without this deletion, the table could grow without end, because a requester can name any number of
        queues. A requester whose idle share was deleted gets its next rank too early, but by less than one
        turn.
        """
        idle = connection.execute(self._idle, {"limit": limit}).all()
        return connection.execute(self._forget, as_parameter(row._asdict() for row in idle)).rowcount

    def _charge_statement(self) -> sa.Executable:
        rows = Rows(
            {
                "queue": TEXT,
                "requester_id": TEXT,
                "jobs": INTEGER,
                "low": INTEGER,
                "high": INTEGER,
                "past_cap": INTEGER,
            }
        )
        share, limits = fair_shares.c, self._limits(rows)
        weight = sa.func.coalesce(limits.c.weight, DEFAULT_WEIGHT)
        free = sa.or_(limits.c.max_running.is_(None), rows["past_cap"] == 1)
        charged = sa.case((free, rows["jobs"] * (sa.literal(JOB_COST, sa.BigInteger) // weight)), else_=0)
        virtual_time = sa.func.coalesce(queues.c.virtual_time, 0)
        wanted = (
            sa.select(
                rows["queue"],
                rows["requester_id"],
                virtual_time + charged,
                charged,
                rows["high"],
                sa.case((rows["low"] == rows["high"], 0), else_=1),
                limits.c.max_running,
            )
            .select_from(
                rows.table.outerjoin(queues, queues.c.queue == rows["queue"]).outerjoin(
                    limits, limits.c.requester_id == rows["requester_id"]
                )
            )
            .where(sa.true())  # SQLite's parser needs a WHERE between SELECT and ON CONFLICT.
        )
        insert = self._database.insert(fair_shares).from_select([c.name for c in share], wanted)
        new = insert.excluded
        # `new.finish - new.charged` is the virtual time of the queue. A share whose finish is at or before
        # this time has no more ready jobs.
        has_ended = share.finish <= new.finish - new.charged
        mixed = sa.case(
            (new.charged == 0, share.is_mixed),
            (has_ended, new.is_mixed),
            (share.priority != new.priority, 1),
            (new.is_mixed == 1, 1),
            else_=share.is_mixed,
        )
        statement: sa.Executable = insert.on_conflict_do_update(
            index_elements=[share.queue, share.requester_id],
            set_={
                "finish": sa.case((has_ended, new.finish), else_=share.finish + new.charged),
                "charged": new.charged,
                "priority": sa.case((new.charged == 0, share.priority), else_=new.priority),
                "is_mixed": mixed,
                "max_running": new.max_running,
            },
        ).returning(
            share.queue,
            share.requester_id,
            share.finish,
            share.charged,
            share.max_running,
            self._database.now.label("now"),
        )
        return statement

    def _limits(self, rows: Rows) -> sa.FromClause:
        """Return the limits of the requesters; on Postgres, lock their rows until the transaction ends.

        `requester set` waits for these locks, so that it finds all jobs that were ranked by the old limits.
        """
        if not self._database.engines.locks_rows:
            return requesters
        columns = (requesters.c.requester_id, requesters.c.weight, requesters.c.max_running)
        named = requesters.c.requester_id.in_(sa.select(rows["requester_id"]))
        locked = sa.select(*columns).where(named).order_by(requesters.c.requester_id)
        return locked.with_for_update(read=True, key_share=True).cte("limits").prefix_with("MATERIALIZED")


def _advance_statement() -> sa.Executable:
    virtual_time = sa.bindparam("reached", type_=sa.BigInteger)
    behind = sa.select(queues.c.queue).where(
        queues.c.queue == sa.bindparam("of_queue"), queues.c.virtual_time < virtual_time
    )
    unlocked = behind.with_for_update(skip_locked=True).cte("behind").prefix_with("MATERIALIZED")
    return (
        sa.update(queues)
        .values(virtual_time=virtual_time)
        .where(queues.c.queue.in_(sa.select(unlocked.c.queue)))
        .returning(queues.c.queue)
    )


def is_mixed() -> sa.ColumnElement[int]:
    """Return a subquery that is 1 if the ready jobs in the share of a job row can differ in priority.

    The outer query selects the row from `inbox_jobs`.
    """
    share = fair_shares.c
    mixed = sa.select(share.is_mixed).where(
        share.queue == inbox_jobs.c.queue, share.requester_id == inbox_jobs.c.requester_id
    )
    return mixed.correlate(inbox_jobs).scalar_subquery()


def _idle_statement() -> sa.Executable:
    share = fair_shares.c
    idle = sa.select(share.queue, share.requester_id).where(_is_idle())
    return idle.limit(sa.bindparam("limit")).with_for_update(skip_locked=True, of=fair_shares)


def _forget_statement() -> sa.Executable:
    rows, share = Rows({"queue": TEXT, "requester_id": TEXT}), fair_shares.c
    named = sa.select(rows["queue"], rows["requester_id"])
    # Check again, because a job may have been inserted between the first check and the lock.
    same = sa.tuple_(share.queue, share.requester_id).in_(named)
    return sa.delete(fair_shares).where(same, _is_idle())


def _is_idle() -> sa.ColumnElement[bool]:
    share, job = fair_shares.c, inbox_jobs.c
    return ~has_unfinished_job(job.requester_id == share.requester_id, job.queue == share.queue)


def _demands(
    by_share: Mapping[Share, Sequence[WaitingJob]], *, past_cap: bool
) -> Iterator[dict[str, str | int]]:
    """Yield one row per share, with the number of jobs to charge. Sort the rows to avoid deadlocks."""
    for (queue, requester_id), jobs in sorted(by_share.items()):
        priorities = {job.priority for job in jobs} or {0}
        yield {
            "queue": queue,
            "requester_id": requester_id,
            "jobs": len(jobs),
            "low": min(priorities),
            "high": max(priorities),
            "past_cap": int(past_cap),
        }
