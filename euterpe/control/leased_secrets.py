"""Answer a remote worker's questions about its job: its secrets, newer secrets, and rival jobs.

The secrets are decrypted only when the worker that owns the lease asks for them, and immediately sealed to
the public key of this worker.
"""

import json
import threading
import time
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
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
    """The result of a refresh, and the number of refreshes that the job may still use.

    `calls_left` is also 0 if a further refresh cannot return newer credentials.
    """

    credential_version: int
    result: RefreshResult
    calls_left: int


class _RefreshResults:
    """The results of the latest refreshes of this process. Thread-safe.

    A worker repeats a call after 45 s at the latest, so results are kept for a minute.
    """

    def __init__(
        self, *, kept_s: float = 60.0, most: int = 10_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._kept_s, self._most, self._clock = kept_s, most, clock
        self._lock = threading.Lock()
        self._results: OrderedDict[object, tuple[float, Future[Refreshed]]] = OrderedDict()

    def of(self, call: object, refresh: Callable[[], Refreshed]) -> Refreshed:
        """Return the result of a call that may arrive several times.

        Only the first copy of the call calls `refresh`. Later copies wait for the result of the first copy.
        """
        with self._lock:
            self._forget_old()
            known = self._results.get(call)
            result: Future[Refreshed] = Future() if known is None else known[1]
            if known is None:
                self._results[call] = self._clock(), result
        if known is None:
            try:
                result.set_result(refresh())
            except BaseException as error:
                with self._lock:
                    self._results.pop(call, None)  # let a later copy of the call try again
                result.set_exception(error)
                raise
        return result.result()

    def _forget_old(self) -> None:
        while self._results:
            began_at, _ = next(iter(self._results.values()))
            if began_at + self._kept_s > self._clock() and len(self._results) < self._most:
                return
            self._results.popitem(last=False)


class LeasedSecrets:
    """Answer questions about leased jobs. Thread-safe.

    All methods block. They raise `AttemptRefused` if the attempt does not hold its job.
    """

    def __init__(self, store: Store, refresher: Refresher, *, lease_ms: int, max_refreshes: int) -> None:
        self._store, self._refresher = store, refresher
        self._lease_ms, self._max_refreshes = lease_ms, max_refreshes
        self._results = _RefreshResults()

    def open(self, key: AttemptKey) -> OpenSecrets:
        """Return the newest secrets of the job. The errors of `euterpe.crypto.errors` may be raised, too."""
        job = self.held(key)
        with _refused_if_stale():
            storage, version = self._store.credentials.open(job)
            return OpenSecrets(key, version, storage, self._store.hls_keys.open(job))

    def refresh(
        self,
        key: AttemptKey,
        credential_version: int,
        reason: RefreshReason,
        *,
        refresh_id: str | None = None,
    ) -> Refreshed:
        """Call the requester once, unless newer credentials are stored already.

        A worker or a proxy may send the same request twice, with the same `refresh_id`. The second request
        gets the result of the first one, because each call to the requester counts against the refresh
        budget.
        """

        def refresh() -> Refreshed:
            with _refused_if_stale():
                result = self._refresher.refresh(self.held(key), credential_version, reason)
            return self.refreshed(self.held(key), result)

        return refresh() if refresh_id is None else self._results.of((key, refresh_id), refresh)

    def refreshed(self, job: ClaimedJob, result: RefreshResult) -> Refreshed:
        """Return the result of a refresh, and the number of refreshes that this job may still use."""
        left = max(0, self._max_refreshes - job.refresh_count)
        return Refreshed(job.credential_version, result, 0 if result is RefreshResult.REFUSED else left)

    def is_rival(self, key: AttemptKey, other_id: str) -> bool | None:
        """Return whether job `other_id` is unfinished, or succeeded after this attempt began.

        Return None if there is no such job.
        """
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
