"""Seal the keys of encrypted HLS outputs, and open them only for the worker that owns the job.

The keys are stored separately from the job's credentials, because new credentials replace the old credentials
as a whole. The new credentials do not contain the keys, and the API cannot read the old keys to copy them.
"""

import json

import sqlalchemy as sa

from euterpe.crypto.envelope import Sealed, hls_keys_context, seal, unseal
from euterpe.crypto.errors import CannotDecrypt
from euterpe.crypto.key_provider import KeyProvider
from euterpe.store.engine.database import Database
from euterpe.store.errors import Conflict
from euterpe.store.queue.inbox import ClaimedJob
from euterpe.store.secrets.credentials import owned_by
from euterpe.store.tables import inbox_jobs

_job = inbox_jobs.c
_SEALED = (
    _job.hls_key_encrypted,
    _job.hls_key_dek_wrapped,
    _job.hls_key_kek_id,
    _job.hls_key_encryption_version,
)


class HlsKeys:
    """Seal and open the keys of HLS outputs."""

    def __init__(self, database: Database, keys: KeyProvider) -> None:
        self._database, self._keys = database, keys

    def seal_first(self, job_id: str, requester_id: str, keys: bytes | None) -> Sealed | None:
        """Return the sealed keys to store with a new job, or None if the job has no keys."""
        if keys is None:
            return None
        return seal(keys, hls_keys_context(job_id, requester_id), self._keys)

    def open(self, job: ClaimedJob) -> dict[str, bytes]:
        """Return the key of each encrypted output of the job, by the name of the output.

        Raise Conflict if the claim is stale, and CannotDecrypt if an encrypted output has no key. The caller
        must keep the keys in memory only.
        """
        names = [output["name"] for output in job.spec.get("outputs") or () if output.get("encryption")]
        if not names:
            return {}
        with self._database.snapshot() as connection:
            row = connection.execute(sa.select(*_SEALED).where(owned_by(job))).one_or_none()
        if row is None:
            raise Conflict(f"job {job.job_id} is not owned by this claim any more")
        if row.hls_key_encrypted is None:
            raise CannotDecrypt
        sealed = Sealed(
            bytes(row.hls_key_encrypted),
            bytes(row.hls_key_dek_wrapped),
            row.hls_key_kek_id,
            row.hls_key_encryption_version,
        )
        opened = json.loads(unseal(sealed, hls_keys_context(job.job_id, job.requester_id), self._keys))
        if not opened.keys() >= set(names):  # a key is missing, so somebody has changed the stored spec
            raise CannotDecrypt
        return {name: bytes.fromhex(opened[name]) for name in names}
