"""Publish queue jobs. If the queue has a job with the same job_id already, change nothing."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import sqlalchemy as sa

from euterpe.domain.states import Lane, QueueJobStatus
from euterpe.store.checks import WEEK_MS, check_count, check_name
from euterpe.store.engine.batch_rows import INTEGER, TEXT, AnyColumn, Rows, as_parameter
from euterpe.store.engine.ids import new_id
from euterpe.store.engine.wakeup import Topic
from euterpe.store.queue_jobs.rows import QueueGroup, QueueJobRows, queue_job_id
from euterpe.store.tables import queue_jobs

MAX_ATTEMPTS = 1_000
MAX_RUNNING = 1_000_000
_MAX_TIME_MS = 2**53
_TEXTS = ("queue_job_id", "queue", "job_id", "group_id", "place", "payload")
_NUMBERS = ("timeout_ms", "max_attempts", "backoff_ms")


@dataclass(frozen=True, kw_only=True)
class NewQueueJob:
    """A job to publish. `payload` is JSON. `due_ms` is a Unix time in milliseconds; 0 means now.

    `group_limit` becomes the limit of the group if the group has none yet; 0 stands for a limit of 1.
    """

    queue: str
    job_id: str
    payload: str
    timeout_ms: int
    max_attempts: int
    backoff_ms: int
    due_ms: int = 0
    group_id: str | None = None
    group_limit: int = 0

    def check(self) -> None:
        """Raise InvalidSpec unless every value is valid."""
        check_name(self.queue, "queue")
        check_name(self.job_id, "job_id")
        if self.group_id is not None:
            check_name(self.group_id, "gid")
        check_count(self.timeout_ms, "timeout_ms", 1, WEEK_MS)
        check_count(self.max_attempts, "max_attempts", 1, MAX_ATTEMPTS)
        check_count(self.backoff_ms, "backoff_ms", 0, WEEK_MS)
        check_count(self.due_ms, "due_ms", 0, _MAX_TIME_MS)
        check_count(self.group_limit, "group_limit", 0, MAX_RUNNING)

    @property
    def key(self) -> str:
        return queue_job_id(self.queue, self.job_id)

    def row(self) -> dict[str, Any]:
        return {
            "queue_job_id": self.key,
            "place": new_id(),
            **{name: getattr(self, name) for name in ("queue", "job_id", "group_id", "payload", *_NUMBERS)},
            "due_ms": self.due_ms,
        }


class Publishing:
    def __init__(self, rows: QueueJobRows) -> None:
        self._rows, self._database = rows, rows.database
        self._insert = self._insert_statement()

    def publish(self, jobs: Sequence[NewQueueJob]) -> list[bool]:
        """Insert the jobs; return False for each job whose job_id exists in its queue already."""
        # Places ascend in the order of the jobs, and rows are inserted in the order of their keys, so that
        # two batches that share keys cannot deadlock.
        rows = sorted((job.row() for job in jobs), key=itemgetter("queue_job_id"))
        with self._database.transaction() as connection:
            inserted = {row.queue_job_id: row for row in connection.execute(self._insert, as_parameter(rows))}
            # Lock the groups after the jobs: this is the lock order of `groups.py`.
            self._register(connection, [job for job in jobs if job.key in inserted])
            blocked = [row for row in inserted.values() if row.lane == Lane.BLOCKED]
            self._rows.admit(connection, blocked, locked=True)
            if any(row.lane == Lane.READY for row in inserted.values()):
                self._database.announce(connection, Topic.QUEUE_JOBS)
        return [inserted.pop(job.key, None) is not None for job in jobs]

    def _register(self, connection: sa.Connection, jobs: Iterable[NewQueueJob]) -> None:
        limits: dict[QueueGroup, int] = {}
        for job in jobs:
            if job.group_id is not None:
                limits.setdefault(QueueGroup(job.queue, job.group_id), job.group_limit or 1)
        self._rows.groups.register(connection, limits)

    def _insert_statement(self) -> sa.Executable:
        now = self._database.now
        rows = Rows({**dict.fromkeys(_TEXTS, TEXT), **dict.fromkeys(_NUMBERS, INTEGER), "due_ms": INTEGER})
        is_early = rows["due_ms"] > now
        values: dict[str, AnyColumn] = {
            **{name: rows[name] for name in (*_TEXTS, *_NUMBERS)},
            "status": sa.literal_column(f"'{QueueJobStatus.QUEUED}'", sa.Text),
            "lane": sa.case(
                (is_early, sa.literal_column(f"'{Lane.DELAYED}'", sa.Text)),
                (rows["group_id"].is_not(None), sa.literal_column(f"'{Lane.BLOCKED}'", sa.Text)),
                else_=sa.literal_column(f"'{Lane.READY}'", sa.Text),
            ),
            "available_at": sa.case((is_early, rows["due_ms"]), else_=now),
            "claim_version": sa.literal_column("0", sa.BigInteger),
            "attempt_count": sa.literal_column("0", sa.BigInteger),
            "created_at": now,
        }
        # SQLite's parser needs a WHERE between SELECT and ON CONFLICT.
        wanted = sa.select(*(value.label(name) for name, value in values.items())).where(sa.true())
        insert = self._database.insert(queue_jobs).from_select(list(values), wanted)
        columns = queue_jobs.c
        statement: sa.Executable = insert.on_conflict_do_nothing(
            index_elements=[columns.queue_job_id]
        ).returning(columns.queue_job_id, columns.lane, columns.queue, columns.group_id)
        return statement
