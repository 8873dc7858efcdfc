"""A job's spec with its credentials, which are refreshed when storage refuses them (contract §7)."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import structlog

from euterpe.crypto.errors import KeyProviderUnavailable
from euterpe.domain.credentials import Side, StorageCredentials, credentials_for
from euterpe.domain.error_codes import RetryClass
from euterpe.domain.leased_job import JobSecrets, RefreshReason, RefreshResult
from euterpe.domain.spec import JobSpec
from euterpe.runtime.retry import jittered
from euterpe.storage.errors import StorageError
from euterpe.worker.attempt_control import AttemptControl
from euterpe.worker.control_plane import ControlPlane
from euterpe.worker.requirements import understood_spec

_log = structlog.get_logger(__name__)
R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class RefreshTimings:
    """Durations of the refresh of credentials, in seconds."""

    # The longest wait for new credentials after the requester's response has promised them.
    promise_s: float = 60.0
    look_every_s: float = 0.5  # the pause between two reads during the wait for promised credentials
    # The pause after a call that returned no new credentials. The pause doubles each time, so that the
    # requester's service has time to restart.
    first_pause_s: float = 1.0
    expires_soon_s: float = 60.0  # credentials that expire within this time are refreshed before their use


DEFAULT_TIMINGS = RefreshTimings()


class CredentialAccess:
    """A job's spec with its secrets, in the newest version from the control plane. Thread-safe.

    When storage refuses the credentials of several threads, one thread loads new credentials for all of them.
    """

    def __init__(
        self,
        plane: ControlPlane,
        control: AttemptControl,
        *,
        timings: RefreshTimings = DEFAULT_TIMINGS,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._plane, self._control, self._job, self._timings = plane, control, control.job, timings
        self._wall_clock = wall_clock
        secrets = self._read()
        self._clock_ahead_s = secrets.clock_ahead_s
        # The keys of encrypted HLS outputs, by the name of the output. A refresh never changes them.
        self.hls_keys = secrets.hls_keys
        self.spec, self._version = self._with(secrets), secrets.credential_version
        self._refreshed_early = 0  # the version for which the last early refresh was made
        self._lock = threading.RLock()

    def on(self, side: Side, work: Callable[[JobSpec, StorageCredentials | None], R]) -> R:
        """Run `work` with the credentials of `side`.

        If storage refuses the credentials, repeat `work` with newer credentials.
        """
        with self._lock:
            if self._expires_soon(side) and self._refreshed_early != self._version:
                self._refreshed_early = self._version
                self._refresh_early()
        while True:
            with self._lock:
                spec, version = self.spec, self._version
            try:
                return work(spec, credentials_for(spec.credentials, side))
            except StorageError as refused:
                self._control.check()  # the cause of the error may be the attempt's timeout
                if refused.retry_class is not RetryClass.CREDENTIALS:
                    raise
                with self._lock:
                    if self._version == version and not self._refresh("forbidden"):
                        # A retry would fail again. A person must first supply new credentials, and then retry
                        # the job.
                        raise refused.with_class(RetryClass.PERMANENT) from None

    def now(self, side: Side) -> tuple[JobSpec, StorageCredentials | None]:
        """Return the spec and the credentials of `side`, without a refresh even if they have expired."""
        with self._lock:
            return self.spec, credentials_for(self.spec.credentials, side)

    def _read(self, keys_wait_s: float | None = None) -> JobSecrets:
        return self._control.retry_while_unavailable(
            lambda: self._plane.secrets(self._job), keys_wait_s=keys_wait_s
        )

    def _with(self, secrets: JobSecrets) -> JobSpec:
        return understood_spec(self._job.spec, secrets.storage)

    def _expires_soon(self, side: Side) -> bool:
        credentials = credentials_for(self.spec.credentials, side)
        if credentials is None or credentials.expires_at is None:
            return False
        # Without this correction, a worker whose clock is an hour fast would refresh valid credentials.
        now = self._wall_clock() - self._clock_ahead_s
        return credentials.expires_at / 1000 - now < self._timings.expires_soon_s

    def _refresh_early(self) -> None:
        """Refresh credentials that expire soon. While the key provider is unavailable, do nothing.

        The old credentials are still valid. If the old credentials expire during the work, storage refuses
        them. After this refusal, another refresh waits for the key provider.
        """
        try:
            self._refresh("expiring")
        except KeyProviderUnavailable as error:
            _log.warning("early_refresh_skipped", job_id=self._job.job_id, error=str(error))

    def _refresh(self, reason: RefreshReason) -> bool:
        """Load newer credentials. If none are stored, let the control plane request them from the requester.

        Return whether newer credentials were loaded. After a refusal by storage, repeat the request until the
        refresh budget is spent. For credentials that expire soon, make only one request. The rest of the
        budget is for refusals by storage.
        """
        pause = self._timings.first_pause_s
        # For credentials that expire soon, do not wait for the key provider: they could expire meanwhile.
        keys_wait_s = 0.0 if reason == "expiring" else None
        while not self._load_newer(keys_wait_s):
            self._control.check()
            result = self._control.retry_while_unavailable(
                lambda: self._plane.refresh(self._job, self._version, reason), keys_wait_s=keys_wait_s
            )
            if result is RefreshResult.REFUSED:
                return False
            if result is not RefreshResult.FAILED and self._await_newer():
                return True
            if reason == "expiring":
                return False
            self._control.wait(jittered(pause))
            pause *= 2
        return True

    def _await_newer(self) -> bool:
        """Wait for the newer credentials that the response contained or promised.

        Return whether these credentials arrived.
        """
        until = time.monotonic() + self._timings.promise_s
        while not self._load_newer():
            if time.monotonic() > until:
                _log.warning("refresh_failed", error="no new credentials came in time")
                return False
            self._control.wait(self._timings.look_every_s)
        return True

    def _load_newer(self, keys_wait_s: float | None = None) -> bool:
        secrets = self._read(keys_wait_s)
        if secrets.credential_version <= self._version:
            return False
        self.spec, self._version = self._with(secrets), secrets.credential_version
        return True
