"""Read the job of an attempt for the control plane, which has only the key of the attempt."""

import sqlalchemy as sa

from euterpe.domain.states import Lane
from euterpe.store.engine.database import Database
from euterpe.store.queue.attempt_answers import AttemptKey, ReportRefusal, missing_jobs
from euterpe.store.queue.claims import ClaimedJob
from euterpe.store.queue.event_rows import CONTEXT_COLUMNS, context_of
from euterpe.store.tables import inbox_jobs, job_attempts

_job, _attempt = inbox_jobs.c, job_attempts.c
_COLUMNS = (
    _job.job_id,
    _job.claim_version,
    _job.worker_id,
    _job.lease_expires_at,
    _job.attempt_count,
    _job.max_attempts,
    _job.refresh_count,
    _job.credential_version,
    _job.priority,
    _job.spec,
    *CONTEXT_COLUMNS,
)


class HeldJobs:
    """The jobs that attempts hold.

    If the lease of an attempt has expired, but was not swept, the attempt still holds its job.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, key: AttemptKey, *, lease_ms: int) -> ClaimedJob | ReportRefusal:
        """Return the job that this attempt holds, or the reason why the attempt does not hold its job.

        `lease_ms` is the length of the leases that the caller grants; it is not stored in a row.
        """
        wanted = (
            sa.select(*_COLUMNS)
            .join_from(inbox_jobs, job_attempts, _attempt.job_id == _job.job_id)
            .where(
                _job.job_id == key.job_id,
                _job.claim_version == key.claim_version,
                _job.lane == Lane.LEASED,
                _attempt.attempt_id == key.attempt_id,
                _attempt.claim_version == key.claim_version,
            )
        )
        with self._database.snapshot() as connection:
            row = connection.execute(wanted).one_or_none()
            if row is None:
                return missing_jobs(connection, [key.job_id]).get(key.job_id, ReportRefusal.LEASE_LOST)
        return ClaimedJob(
            job_id=row.job_id,
            requester_id=row.requester_id,
            attempt_id=key.attempt_id,
            claim_version=row.claim_version,
            worker_id=row.worker_id,
            lease_ms=lease_ms,
            lease_expires_at=row.lease_expires_at,
            attempt_count=row.attempt_count,
            max_attempts=row.max_attempts,
            refresh_count=row.refresh_count,
            credential_version=row.credential_version,
            queue=row.queue,
            priority=row.priority,
            group_id=row.group_id,
            spec=row.spec,
            context=context_of(row),
        )
