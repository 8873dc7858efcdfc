"""The rows of queue jobs: their key, their leases, their groups, and the moves between their lanes.

Every change of a status goes through `QueueJobRows.apply`. Each transaction that makes room in a group, or
that adds a job to a group, admits the group's next job, as `groups.py` requires.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from euterpe.domain.states import Lane, QueueJobStatus, check_queue_job_transition
from euterpe.store.engine.batch_rows import TEXT, AnyRow, Rows, as_parameter
from euterpe.store.engine.database import Database
from euterpe.store.engine.wakeup import Topic
from euterpe.store.queue.fairness.groups import GroupedTable, Groups
from euterpe.store.queue.leases import LeasedTable
from euterpe.store.queue.transition import Shape, Transition
from euterpe.store.tables import queue_groups, queue_jobs

_job = queue_jobs.c
_ENDS = (QueueJobStatus.SUCCEEDED, QueueJobStatus.FAILED)
QUEUE_GROUPS = GroupedTable(
    jobs=queue_jobs,
    groups=queue_groups,
    order=("available_at", "place"),
    returned=("queue_job_id",),
    admitted=(Lane.READY,),
    # A group keeps its limit as long as one of its jobs exists, because a job without a limit of its own
    # relies on the limit that an earlier job has set.
    in_use=tuple(lane for lane in Lane if lane is not Lane.CAPPED),
)


@dataclass(frozen=True, order=True)
class QueueGroup:
    """The key of a group of queue jobs."""

    queue: str
    group_id: str


def queue_job_id(queue: str, job_id: str) -> str:
    """Return the key of a job.

    The key contains the length of the queue's name. So the job `c` of the queue `a/b` and the job `b/c` of
    the queue `a` have different keys.
    """
    return f"{len(queue)}/{queue}/{job_id}"


class QueueJobRows:
    """The table of queue jobs under the lease protocol."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.groups = Groups(database, QUEUE_GROUPS)
        self.leased = LeasedTable(
            database,
            queue_jobs,
            check=check_queue_job_transition,
            order=[_job.available_at, _job.place],
            value_types={"error": TEXT},
            columns=lambda shape, rows: _columns(shape, rows, database.now),
            returning=(
                _job.queue_job_id,
                _job.queue,
                _job.group_id,
                _job.available_at,
                _job.attempt_count,
                _job.lease_expires_at,
            ),
            leased_index="queue_jobs_leased",
            heartbeat_returning=(_job.lease_expires_at,),
        )
        rows = Rows({"key": TEXT, "lane": TEXT})
        self._move = (
            sa.update(queue_jobs)
            .values(lane=rows["lane"])
            .where(
                _job.queue_job_id == rows["key"],
                _job.status == sa.literal_column(f"'{QueueJobStatus.QUEUED}'"),
            )
        )

    def apply(self, connection: sa.Connection, transitions: Sequence[Transition]) -> Sequence[AnyRow]:
        """Write transitions, and admit the next jobs of their groups. Return the rows that were changed."""
        written = self.leased.write(connection, transitions)
        if any(one.lane is Lane.READY for one in transitions):
            self.database.announce(connection, Topic.QUEUE_JOBS)
        self.admit(connection, written)
        return written

    def admit(self, connection: sa.Connection, rows: Iterable[AnyRow], *, locked: bool = False) -> None:
        """Admit the next job of each group of these rows that has room.

        `locked` means that this transaction has locked the groups already.
        """
        groups = {QueueGroup(row.queue, row.group_id) for row in rows if row.group_id is not None}
        admitted = self.groups.next_in_line(connection, groups, locked=locked)
        self.move(connection, {row.queue_job_id: Lane.READY for row in admitted})

    def move(self, connection: sa.Connection, lanes: Mapping[str, Lane]) -> None:
        """Move waiting jobs to other lanes."""
        if not lanes:
            return
        rows = [{"key": key, "lane": lanes[key]} for key in sorted(lanes)]
        connection.execute(self._move, as_parameter(rows))
        if Lane.READY in lanes.values():
            self.database.announce(connection, Topic.QUEUE_JOBS)


def _columns(shape: Shape, rows: Rows | None, now: sa.ColumnElement[int]) -> Mapping[str, object]:
    columns: dict[str, object] = {}
    if rows is not None:
        columns["last_error"] = sa.func.coalesce(rows["error"], _job.last_error)
    if shape.target in _ENDS:
        columns["finished_at"] = now
    return columns
