"""Query jobs, attempts, events and deliveries. No query reads sealed secrets."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import sqlalchemy as sa

from euterpe.domain.canonical import without_callback_queries
from euterpe.domain.rows import AttemptRow, BacklogRow, DeliveryRow, EventRow, EventSummary, JobRow
from euterpe.domain.states import FINISHED, JobStatus, OutboxStatus
from euterpe.store.engine.batch_rows import AnySelect, AnyUnion
from euterpe.store.engine.database import Database
from euterpe.store.errors import Conflict, NotFound, Pruned
from euterpe.store.queue.lanes import UNFINISHED, lane_is, unfinished_jobs
from euterpe.store.tables import (
    inbox_jobs,
    job_attempts,
    job_deliveries,
    job_outbox_events,
    pruned_jobs,
)

_SEALED = ("storage_creds_", "callbacks_", "hls_key_")
_SHOWN = [column for column in inbox_jobs.c if not column.name.startswith(_SEALED)]
# The columns of a status document. Read only the spec's metadata, because 200 whole specs can be 50 MB.
_LISTED = [
    *(column for column in _SHOWN if column.name != "spec"),
    sa.cast(inbox_jobs.c.spec.op("->")(sa.literal_column("'metadata'")), sa.Text).label("metadata"),
]
# `updated_at` alone is not enough: two changes can happen in the same millisecond.
_VERSION = (
    inbox_jobs.c.event_sequence,
    inbox_jobs.c.updated_at,
    inbox_jobs.c.progress,
    inbox_jobs.c.credential_version,
    inbox_jobs.c.cancel_requested_at,
)
Version = tuple[object, ...]
Row = TypeVar("Row")


class Jobs:
    """Read-only queries over the inbox and the outbox."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, job_id: str, *, requester_id: str | None = None) -> JobRow:
        """Return a job. Raise `NotFound`, or `Pruned` if its history has been removed."""
        wanted = sa.select(*_SHOWN).where(inbox_jobs.c.job_id == job_id)
        if requester_id is not None:
            wanted = wanted.where(inbox_jobs.c.requester_id == requester_id)
        found = self._rows(JobRow, wanted)
        if not found:
            if self.pruned([job_id], requester_id=requester_id):
                raise Pruned(f"the history of job {job_id} has been removed")
            raise NotFound(f"there is no job {job_id!r}")
        # Earlier releases stored the queries of callback URLs in clear text: remove them.
        return replace(found[0], spec=without_callback_queries(dict(found[0].spec)))

    def of_source(self, source_ref: str) -> JobRow | None:
        """Return the job with this `source_ref`, or None. Raise `Pruned` if its history has been removed."""
        found = self._rows(JobRow, sa.select(*_SHOWN).where(inbox_jobs.c.source_ref == source_ref))
        if found:
            return replace(found[0], spec=without_callback_queries(dict(found[0].spec)))
        pruned = sa.select(pruned_jobs.c.job_id).where(pruned_jobs.c.source_ref == source_ref)
        with self._database.snapshot() as connection:
            job_id = connection.execute(pruned).scalar_one_or_none()
        if job_id is not None:
            raise Pruned(f"the history of job {job_id} has been removed")
        return None

    def many(self, job_ids: Sequence[str], *, requester_id: str) -> list[JobRow]:
        """Return the given jobs, in any order, with only the metadata of their specs.

        Leave out jobs that do not exist.
        """
        job = inbox_jobs.c
        some = self._database.engines.read_limit
        wanted = sa.select(*_LISTED).where(job.requester_id == requester_id)
        return [
            row
            for start in range(0, len(job_ids), some)
            for row in self._listed(wanted.where(job.job_id.in_(job_ids[start : start + some])))
        ]

    def is_rival(self, job_id: str, claim_version: int, other_id: str) -> bool | None:
        """Return whether job `other_id` is unfinished, or succeeded after this attempt of `job_id` began.

        Return None if there is no job `other_id`. Raise `Conflict` if the attempt has ended.
        """
        attempt, other = job_attempts.c, inbox_jobs.c
        began = sa.select(attempt.started_at).where(
            attempt.job_id == job_id,
            attempt.claim_version == claim_version,
            attempt.ended_at.is_(None),
        )
        rival = sa.select(other.status, other.finished_at).where(other.job_id == other_id)
        with self._database.snapshot() as connection:
            started_at = connection.execute(began).scalar_one_or_none()
            found = connection.execute(rival).one_or_none()
        if started_at is None:
            raise Conflict(f"job {job_id} has no running attempt with claim version {claim_version}")
        if found is None:
            return None
        if found.status not in FINISHED:
            return True
        return bool(found.status == JobStatus.SUCCEEDED and found.finished_at >= started_at)

    def pruned(self, job_ids: Sequence[str], *, requester_id: str | None = None) -> frozenset[str]:
        """Return the ids of those jobs whose history has been removed."""
        gone = sa.select(pruned_jobs.c.job_id).where(pruned_jobs.c.job_id.in_(job_ids))
        if requester_id is not None:
            gone = gone.where(pruned_jobs.c.requester_id == requester_id)
        with self._database.snapshot() as connection:
            return frozenset(connection.execute(gone).scalars())

    def versions(self, job_ids: Iterable[str]) -> dict[str, Version]:
        """Return for each job a value that changes whenever its status document or its events change."""
        job = inbox_jobs.c
        wanted = sa.select(job.job_id, *_VERSION).where(job.job_id.in_(list(job_ids)))
        with self._database.snapshot() as connection:
            return {job_id: tuple(version) for job_id, *version in connection.execute(wanted)}

    def unfinished(self, requester_id: str, *, at_most: int) -> int:
        """Return the number of a requester's unfinished jobs, counting up to `at_most`."""
        return self._count(inbox_jobs.c.requester_id == requester_id, at_most=at_most)

    def unfinished_of_all(self, *, at_most: int) -> int:
        return self._count(at_most=at_most)

    def _count(self, *where: sa.ColumnElement[bool], at_most: int) -> int:
        some = unfinished_jobs([inbox_jobs.c.requester_id], *where)
        counted = sa.select(sa.func.count().label("jobs")).select_from(some.limit(at_most).subquery())
        with self._database.snapshot() as connection:
            return int(connection.execute(counted).scalar_one())

    def page(
        self,
        *,
        statuses: Sequence[JobStatus] = (),
        requester_id: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> list[JobRow]:
        """Return jobs, newest first, with only the metadata of their specs.

        `before` is the id of the last job on the previous page.
        """
        job = inbox_jobs.c
        wanted = sa.select(*_LISTED).order_by(job.job_id.desc())
        if statuses:
            wanted = wanted.where(job.status.in_(statuses))
        if requester_id is not None:
            wanted = wanted.where(job.requester_id == requester_id)
        found: list[JobRow] = []
        while len(found) < limit:
            some = min(limit - len(found), self._database.engines.read_limit)
            page = self._listed((wanted if before is None else wanted.where(job.job_id < before)).limit(some))
            found += page
            if len(page) < some:
                break
            before = page[-1].job_id
        return found

    def attempts(self, job_id: str) -> list[AttemptRow]:
        """Return the attempts of a job, oldest first."""
        wanted = sa.select(job_attempts).where(job_attempts.c.job_id == job_id)
        return self._rows(AttemptRow, wanted.order_by(job_attempts.c.claim_version))

    def events(self, job_id: str, *, after: int = 0, limit: int = 500) -> list[EventRow]:
        """Return the next events of a job with a sequence number above `after`, in order."""
        event = job_outbox_events.c
        wanted = sa.select(job_outbox_events).where(event.job_id == job_id, event.sequence > after)
        return self._rows(EventRow, wanted.order_by(event.sequence).limit(limit))

    def delivery_log(self, event_id: str) -> list[DeliveryRow]:
        """Return the attempts to deliver this event, oldest first."""
        wanted = sa.select(job_deliveries).where(job_deliveries.c.event_id == event_id)
        return self._rows(DeliveryRow, wanted.order_by(job_deliveries.c.claim_version))

    def event(self, event_id: str) -> EventRow:
        wanted = sa.select(job_outbox_events).where(job_outbox_events.c.event_id == event_id)
        found = self._rows(EventRow, wanted)
        if not found:
            raise NotFound(f"there is no event {event_id!r}")
        return found[0]

    def deliveries(
        self,
        *,
        statuses: Sequence[OutboxStatus] = (),
        requester_id: str | None = None,
        job_id: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> list[EventSummary]:
        """Return events without their bodies, newest first."""
        event = job_outbox_events.c
        shown = [column for column in event if column.name != "payload"]
        wanted = sa.select(*shown).order_by(event.event_id.desc()).limit(limit)
        if statuses:
            wanted = wanted.where(event.status.in_(statuses))
        if requester_id is not None:
            wanted = wanted.where(event.requester_id == requester_id)
        if job_id is not None:
            wanted = wanted.where(event.job_id == job_id)
        if before is not None:
            wanted = wanted.where(event.event_id < before)
        return self._rows(EventSummary, wanted)

    def backlog(self) -> list[BacklogRow]:
        """Return the number of unfinished jobs in each lane of each queue."""
        job = inbox_jobs.c
        counts = [
            sa.select(job.queue, job.lane, sa.func.count().label("jobs"))
            .where(lane_is(inbox_jobs, lane))
            .group_by(job.queue, job.lane)
            for lane in UNFINISHED
        ]
        return self._rows(BacklogRow, sa.union_all(*counts))

    def _listed(self, wanted: AnySelect) -> list[JobRow]:
        return self._rows(_without_spec, wanted)

    def _rows(self, kind: Callable[..., Row], wanted: AnySelect | AnyUnion) -> list[Row]:
        """Return the result as objects of the class `kind`, whose fields have the names of the columns."""
        with self._database.snapshot() as connection:
            found = connection.execute(wanted)
            names = tuple(found.keys())
            # Do not use SQLAlchemy's mappings, which took twice as long.
            return [kind(**dict(zip(names, values, strict=True))) for values in found]


def _without_spec(*, metadata: str | None, **columns: Any) -> JobRow:
    return JobRow(**columns, spec={"metadata": json.loads(metadata or "{}")})
