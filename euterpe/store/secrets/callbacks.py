"""Seal the queries of webhook and refresh URLs, and open them when the URLs are called.

The queries are stored separately from the credentials, because the credentials are deleted when the job is
over. The job's webhooks can still be delivered for more than a day after its end, and can be replayed much
later.
"""

from functools import lru_cache

import sqlalchemy as sa

from euterpe.crypto.envelope import Sealed, callbacks_context, seal, unseal
from euterpe.crypto.key_provider import KeyProvider
from euterpe.domain.canonical import is_hidden, with_query
from euterpe.store.engine.batch_rows import AnyRow
from euterpe.store.engine.database import Database
from euterpe.store.queue.inbox import ClaimedJob
from euterpe.store.tables import inbox_jobs

_job = inbox_jobs.c
SEALED_CALLBACKS = (
    _job.callbacks_encrypted,
    _job.callbacks_dek_wrapped,
    _job.callbacks_kek_id,
    _job.callbacks_encryption_version,
)
_CACHE_SIZE = 1_000


class Callbacks:
    """Seal and open the queries of callback URLs, with a cache of plaintexts."""

    def __init__(self, database: Database, keys: KeyProvider, *, remembered: int = _CACHE_SIZE) -> None:
        self._database, self._keys = database, keys
        # Cache the plaintexts, so that the query that all events of a job share is decrypted only once.
        self._open = lru_cache(maxsize=remembered)(self._unseal)

    def seal_first(self, job_id: str, requester_id: str, queries: bytes | None) -> Sealed | None:
        """Return the sealed queries to store with a new job, or None if there are no queries."""
        if queries is None:
            return None
        return seal(queries, callbacks_context(job_id, requester_id), self._keys)

    def webhook_url(self, url: str, job_id: str, requester_id: str, sealed: Sealed | None) -> str:
        """Return the URL with its query, to deliver the job's events. Keep this URL in memory only."""
        if sealed is None:
            return url
        return with_query(url, self._open(job_id, requester_id, sealed), "status_webhook_url")

    def for_job(self, job: ClaimedJob) -> bytes | None:
        """Return the queries of the job's callback URLs, or None if the refresh URL has no query.

        The caller uses only the query of the refresh URL.
        """
        if not is_hidden(job.spec.get("refresh_url")):
            return None
        with self._database.snapshot() as connection:
            row = connection.execute(sa.select(*SEALED_CALLBACKS).where(_job.job_id == job.job_id)).first()
        sealed = None if row is None else sealed_callbacks(row)
        return None if sealed is None else self._open(job.job_id, job.requester_id, sealed)

    def _unseal(self, job_id: str, requester_id: str, sealed: Sealed) -> bytes:
        return unseal(sealed, callbacks_context(job_id, requester_id), self._keys)


def sealed_callbacks(row: AnyRow) -> Sealed | None:
    """Return the sealed queries in the columns `SEALED_CALLBACKS` of a row, or None if the job has none."""
    if row.callbacks_encrypted is None:
        return None
    return Sealed(
        bytes(row.callbacks_encrypted),
        bytes(row.callbacks_dek_wrapped),
        row.callbacks_kek_id,
        row.callbacks_encryption_version,
    )
