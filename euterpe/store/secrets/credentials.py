"""Seal the storage credentials of jobs, and open them only for the worker that owns the job."""

import sqlalchemy as sa

from euterpe.crypto.envelope import Sealed, credentials_context, seal, unseal
from euterpe.crypto.key_provider import KeyProvider
from euterpe.domain.retry import may_refresh
from euterpe.domain.states import JobStatus, Lane
from euterpe.store.engine.batch_rows import AnyRow
from euterpe.store.engine.database import Database
from euterpe.store.errors import Conflict, NotFound
from euterpe.store.queue.inbox import ClaimedJob
from euterpe.store.tables import inbox_jobs

_job = inbox_jobs.c
# True if the job will never run again. `job_transitions.py` has deleted the credentials of such a job.
_IS_OVER = _job.status.in_((JobStatus.SUCCEEDED, JobStatus.DEAD_LETTER)) | sa.and_(
    _job.status == JobStatus.FAILED, _job.attempt_count >= _job.max_attempts
)
_SEALED = (
    _job.requester_id,
    _job.status,
    _IS_OVER.label("is_over"),
    _job.credential_version,
    _job.refresh_count,
    _job.storage_creds_encrypted,
    _job.storage_creds_dek_wrapped,
    _job.storage_creds_kek_id,
    _job.storage_creds_encryption_version,
)


class Credentials:
    """Seal, open and replace the storage credentials of jobs."""

    def __init__(self, database: Database, keys: KeyProvider) -> None:
        self._database, self._keys = database, keys

    def seal_first(self, job_id: str, requester_id: str, secret: bytes | None) -> Sealed | None:
        """Return the sealed credentials to store with a new job, or None if there is no secret."""
        if secret is None:
            return None
        return seal(secret, credentials_context(job_id, requester_id, 1), self._keys)

    def open(self, job: ClaimedJob) -> tuple[bytes | None, int]:
        """Return the plaintext (None without credentials) and its version.

        Raise Conflict if the claim is stale. The caller must keep the plaintext in memory only.
        """
        with self._database.snapshot() as connection:
            row = connection.execute(sa.select(*_SEALED).where(owned_by(job))).one_or_none()
        if row is None:
            raise Conflict(f"job {job.job_id} is not owned by this claim any more")
        if row.storage_creds_encrypted is None:
            return None, row.credential_version
        context = credentials_context(job.job_id, row.requester_id, row.credential_version)
        return unseal(_sealed(row), context, self._keys), row.credential_version

    def replace(
        self, job_id: str, requester_id: str, secret: bytes, *, claim: ClaimedJob | None = None
    ) -> int:
        """Store new credentials; return their version, which is one higher than the version before.

        A worker passes its claim, because a stale worker must not overwrite the newer credentials of the next
        worker. Raise Conflict if the claim is stale or the job is over.
        """
        own = () if claim is None else (owned_by(claim),)
        while True:
            with self._database.snapshot() as connection:
                wanted = sa.select(*_SEALED).where(
                    _job.job_id == job_id, _job.requester_id == requester_id, *own
                )
                row = connection.execute(wanted).one_or_none()
            if row is None and claim is not None:
                raise Conflict(f"job {job_id} is not owned by this claim any more")
            if row is None:
                raise NotFound(f"there is no job {job_id!r}")
            if row.is_over:
                raise Conflict(f"job {job_id} is {row.status}; it does not need credentials any more")
            version = int(row.credential_version) + 1
            # Seal outside the transaction, because a key provider may be a remote service.
            sealed = seal(secret, credentials_context(job_id, requester_id, version), self._keys)
            if self._store(job_id, version, sealed, *own):
                return version

    def _store(self, job_id: str, version: int, sealed: Sealed, *where: sa.ColumnElement[bool]) -> bool:
        changed = sa.update(inbox_jobs).where(
            _job.job_id == job_id, _job.credential_version == version - 1, ~_IS_OVER, *where
        )
        with self._database.transaction() as connection:
            result = connection.execute(
                changed.values(
                    credential_version=version,
                    storage_creds_encrypted=sealed.ciphertext,
                    storage_creds_dek_wrapped=sealed.dek_wrapped,
                    storage_creds_kek_id=sealed.kek_id,
                    storage_creds_encryption_version=sealed.version,
                    updated_at=self._database.now,
                )
            )
            return result.rowcount == 1

    def begin_refresh(self, job: ClaimedJob, max_refreshes: int) -> bool:
        """Count one refresh against the job's refresh budget; return False if the budget is spent."""
        with self._database.transaction() as connection:
            counted = sa.select(_job.refresh_count).where(owned_by(job)).with_for_update()
            count = connection.execute(counted).scalar_one_or_none()
            if count is None:
                raise Conflict(f"job {job.job_id} is not owned by this claim any more")
            if not may_refresh(count, max_refreshes):
                return False
            connection.execute(sa.update(inbox_jobs).where(owned_by(job)).values(refresh_count=count + 1))
            return True


def owned_by(job: ClaimedJob) -> sa.ColumnElement[bool]:
    return sa.and_(
        _job.job_id == job.job_id, _job.claim_version == job.claim_version, _job.lane == Lane.LEASED
    )


def _sealed(row: AnyRow) -> Sealed:
    return Sealed(
        row.storage_creds_encrypted,
        row.storage_creds_dek_wrapped,
        row.storage_creds_kek_id,
        row.storage_creds_encryption_version,
    )
