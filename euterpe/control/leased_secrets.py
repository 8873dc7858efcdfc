"""Answer a remote worker's questions about its job: its secrets, newer secrets, and rival jobs.

The secrets are decrypted only when the owner of the lease asks for them, and immediately sealed to the public
key of its worker.
"""

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from euterpe.control.refresher import Refresher
from euterpe.control.reported_attempts import AttemptRefused
from euterpe.crypto.handover import credentials_info, read_public_key, seal_to
from euterpe.domain.leased_job import RefreshReason, RefreshResult
from euterpe.store.engine.ids import is_id
from euterpe.store.errors import Conflict
from euterpe.store.queue.attempt_answers import AttemptKey, ReportRefusal
from euterpe.store.queue.claims import ClaimedJob
from euterpe.store.store import Store


@dataclass(frozen=True)
class OpenSecrets:
    """The secrets of a job, in plain text. Keep them in memory only."""

    key: AttemptKey
    credential_version: int
    storage: bytes | None = field(repr=False)
    hls_keys: Mapping[str, bytes] = field(repr=False)

    def document(self) -> dict[str, object]:
        storage = None if self.storage is None else b64encode(self.storage).decode()
        return {"storage": storage, "hls_keys": {name: key.hex() for name, key in self.hls_keys.items()}}

    def sealed_to(self, public_key: str) -> bytes:
        """Return the secrets, sealed so that only the worker can read them. Raise `MalformedPublicKey`."""
        info = credentials_info(self.key.job_id, self.key.attempt_id, self.credential_version)
        return seal_to(read_public_key(public_key), json.dumps(self.document()).encode(), info)


@dataclass(frozen=True)
class Refreshed:
    """The result of a refresh. `calls_left` is 0 if a further refresh cannot return newer credentials."""

    credential_version: int
    result: RefreshResult
    calls_left: int


class LeasedSecrets:
    """Answer questions about leased jobs. Thread-safe.

    All methods block. They raise `AttemptRefused` if the attempt does not hold its job.
    """

    def __init__(self, store: Store, refresher: Refresher, *, lease_ms: int, max_refreshes: int) -> None:
        self._store, self._refresher = store, refresher
        self._lease_ms, self._max_refreshes = lease_ms, max_refreshes

    def open(self, key: AttemptKey) -> OpenSecrets:
        """Return the newest secrets of the job. The errors of `euterpe.crypto.errors` may be raised, too."""
        job = self.held(key)
        with _refused_if_stale():
            storage, version = self._store.credentials.open(job)
            return OpenSecrets(key, version, storage, self._store.hls_keys.open(job))

    def refresh(self, key: AttemptKey, credential_version: int, reason: RefreshReason) -> Refreshed:
        with _refused_if_stale():
            result = self._refresher.refresh(self.held(key), credential_version, reason)
        return self.refreshed(self.held(key), result)

    def refreshed(self, job: ClaimedJob, result: RefreshResult) -> Refreshed:
        """Return the result of a refresh of this job, with the calls that are left."""
        left = max(0, self._max_refreshes - job.refresh_count)
        return Refreshed(job.credential_version, result, 0 if result is RefreshResult.REFUSED else left)

    def is_rival(self, key: AttemptKey, other_id: str) -> bool | None:
        """Return whether the other job is unfinished, or succeeded after this attempt began."""
        if not is_id(other_id):  # anyone with write access to the object store may have written this id
            return None
        with _refused_if_stale():
            return self._store.jobs.is_rival(key.job_id, key.claim_version, other_id)

    def held(self, key: AttemptKey) -> ClaimedJob:
        """Return the job that the attempt holds."""
        job = self._store.held_jobs.get(key, lease_ms=self._lease_ms)
        if isinstance(job, ReportRefusal):
            raise AttemptRefused(job)
        return job


@contextmanager
def _refused_if_stale() -> Iterator[None]:
    try:
        yield
    except Conflict:
        raise AttemptRefused(ReportRefusal.LEASE_LOST) from None
