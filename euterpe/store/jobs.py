"""Reading jobs, their attempts and their events. Never their credentials."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from euterpe.domain.states import JobStatus, Lane, OutboxStatus
from euterpe.store.database import Database
from euterpe.store.errors import NotFound
from euterpe.store.rows import AnySelect
from euterpe.store.tables import (
    idempotency_keys,
    inbox_jobs,
    job_attempts,
    job_groups,
    job_outbox_events,
)

_SHOWN = [column for column in inbox_jobs.c if not column.name.startswith("storage_creds_")]


class Jobs:
    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, job_id: str, *, requester_id: str | None = None) -> dict[str, Any]:
        wanted = sa.select(*_SHOWN).where(inbox_jobs.c.job_id == job_id)
        if requester_id is not None:
            wanted = wanted.where(inbox_jobs.c.requester_id == requester_id)
        found = self._all(wanted)
        if not found:
            raise NotFound(f"there is no job {job_id!r}")
        return found[0]

    def page(
        self,
        *,
        statuses: Sequence[JobStatus] = (),
        requester_id: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> list[dict[str, Any]]:
        """Newest first; `before` is the last job id of the page before."""
        wanted = sa.select(*_SHOWN).order_by(inbox_jobs.c.job_id.desc()).limit(limit)
        if statuses:
            wanted = wanted.where(inbox_jobs.c.status.in_(statuses))
        if requester_id is not None:
            wanted = wanted.where(inbox_jobs.c.requester_id == requester_id)
        if before is not None:
            wanted = wanted.where(inbox_jobs.c.job_id < before)
        return self._all(wanted)

    def attempts(self, job_id: str) -> list[dict[str, Any]]:
        wanted = sa.select(job_attempts).where(job_attempts.c.job_id == job_id)
        return self._all(wanted.order_by(job_attempts.c.claim_version))

    def events(self, job_id: str) -> list[dict[str, Any]]:
        wanted = sa.select(job_outbox_events).where(job_outbox_events.c.job_id == job_id)
        return self._all(wanted.order_by(job_outbox_events.c.sequence))

    def event(self, event_id: str) -> dict[str, Any]:
        found = self._all(sa.select(job_outbox_events).where(job_outbox_events.c.event_id == event_id))
        if not found:
            raise NotFound(f"there is no event {event_id!r}")
        return found[0]

    def deliveries(
        self,
        *,
        statuses: Sequence[OutboxStatus] = (),
        requester_id: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> list[dict[str, Any]]:
        """Events, newest first."""
        event = job_outbox_events.c
        wanted = sa.select(job_outbox_events).order_by(event.event_id.desc()).limit(limit)
        if statuses:
            wanted = wanted.where(event.status.in_(statuses))
        if requester_id is not None:
            wanted = wanted.where(event.requester_id == requester_id)
        if before is not None:
            wanted = wanted.where(event.event_id < before)
        return self._all(wanted)

    def backlog(self) -> list[dict[str, Any]]:
        """How many jobs of each queue are in each lane; those that are done with are not counted."""
        job = inbox_jobs.c
        lanes = [lane for lane in Lane if lane is not Lane.REST]
        # A literal for each lane, because the indexes that leave history out are partial.
        counts = [
            sa.select(job.queue, job.lane, sa.func.count().label("jobs"))
            .where(job.lane == sa.literal_column(f"'{lane}'"))
            .group_by(job.queue, job.lane)
            for lane in lanes
        ]
        return self._all(sa.union_all(*counts))

    def erase(self, requester_id: str) -> None:
        """Deletes every trace of a requester's jobs: a bench cleans up with it."""
        own = sa.select(inbox_jobs.c.job_id).where(inbox_jobs.c.requester_id == requester_id)
        with self._database.transaction() as connection:
            for table in (job_attempts, job_outbox_events):
                connection.execute(sa.delete(table).where(table.c.job_id.in_(own)))
            for table in (inbox_jobs, idempotency_keys, job_groups):
                connection.execute(sa.delete(table).where(table.c.requester_id == requester_id))

    def _all(self, wanted: AnySelect | sa.CompoundSelect[*tuple[Any, ...]]) -> list[dict[str, Any]]:
        with self._database.snapshot() as connection:
            return [dict(row) for row in connection.execute(wanted).mappings()]
