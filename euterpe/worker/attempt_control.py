"""The deadline and the stop signal of one attempt, its results, and the exceptions that interrupt it."""

import threading
import time
from collections.abc import Callable
from enum import Enum, auto
from typing import TypeVar

import structlog

from euterpe.crypto.errors import KeyProviderUnavailable
from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.errors import EuterpeError
from euterpe.domain.leased_job import LeasedJob, Unavailable
from euterpe.runtime.retry import retry
from euterpe.worker.meter import UsageMeter
from euterpe.worker.outage_log import OutageLog
from euterpe.worker.remote.server_errors import WorkerKeyRefused

_log = structlog.get_logger(__name__)
# A stopping worker waits at most this long for its control plane. Jobs that it cannot release in this time
# are reclaimed when their leases expire.
_STOP_WRITE_S = 3.0
# An attempt that still runs this long after its deadline is treated as hung in a call that never returns. Its
# lease is no longer extended, so that another worker can claim the job.
_HANGS_S = 60.0
# An attempt waits at most this long for the key provider. The attempt does not fail at once, because a
# restart of the key provider must not waste the work of a long attempt.
_KEYS_WAIT_S = 60.0
# An attempt waits at most this long for a refused API key to be accepted again: twice the default lease of
# 60 s. Without this limit, the attempts of a revoked key would keep their slots up to their deadlines.
_REFUSED_KEY_WAIT_S = 120.0
R = TypeVar("R")
Clock = Callable[[], float]


class AttemptResult(Enum):
    """The result of an attempt, for the worker that ran the attempt."""

    SUCCEEDED = auto()
    FAILED = auto()  # charged to the job
    RELEASED = auto()  # released without a charge, and the worker needs no self-check
    WORKER_FAULT = auto()  # released without a charge, and the worker must run its self-check
    LEASE_LOST = auto()


class Interruption(EuterpeError):
    """Base class of the exceptions that end an attempt at any point."""

    code = "attempt_ended"


class LeaseLost(Interruption):
    """Raised when the job has another owner or is finished. The attempt must not write anything more."""

    code = "lease_lost"


class CancelRequested(Interruption):
    code = ErrorCode.CANCELED


class WorkerStopping(Interruption):
    """Raised when the worker is stopping and will not finish the attempt."""

    code = "worker_stopping"


class AttemptTimeout(Interruption):
    code = ErrorCode.ATTEMPT_TIMEOUT


class AttemptControl:
    """The deadline and the stop signal of one attempt.

    The attempt calls `check` at each point at which it can stop.
    """

    def __init__(
        self,
        job: LeasedJob,
        timeout_s: float,
        clock: Clock = time.monotonic,
        *,
        keys_wait_s: float = _KEYS_WAIT_S,
        refused_key_wait_s: float = _REFUSED_KEY_WAIT_S,
        on_uploading: Callable[["AttemptControl"], None] = lambda _: None,
    ) -> None:
        self.job, self._on_uploading = job, on_uploading
        self._keys_wait_s, self._refused_key_wait_s = keys_wait_s, refused_key_wait_s
        self.clock, self._ends_at, self._timeout_s = clock, clock() + timeout_s, timeout_s

        self.meter = UsageMeter()
        self._end: Interruption | None = None
        self._outages = OutageLog("control_plane_unavailable")
        self._refused_at: float | None = None
        self._changed = threading.Event()

    def check(self) -> None:
        """Raise when the attempt must stop."""
        if self._end is not None:
            raise self._end
        if self.clock() > self._ends_at:
            raise AttemptTimeout(f"the attempt took longer than its {self._timeout_s:g} seconds")

    def leave_slot(self) -> None:
        """Give the slot to another attempt, because this attempt only has to upload its outputs."""
        self._on_uploading(self)

    def wait(self, seconds: float) -> None:
        """Sleep for `seconds`. Raise as soon as the attempt must stop."""
        self._changed.wait(max(0.0, min(seconds, self._ends_at - self.clock())))
        self.check()

    @property
    def seconds_left(self) -> float:
        return max(0.0, self._ends_at - self.clock())

    def time_left(self) -> float:
        """Return the seconds until the deadline. Raise when the attempt must stop."""
        self.check()
        return self.seconds_left

    @property
    def is_hung(self) -> bool:
        return self.clock() > self._ends_at + _HANGS_S

    def end(self, reason: Interruption) -> None:
        """Signal the attempt to stop. Keep the first reason, unless the new reason is a lost lease."""
        if self._end is None or isinstance(reason, LeaseLost):
            self._end = reason
        if isinstance(reason, WorkerStopping):
            self._ends_at = min(self._ends_at, self.clock() + _STOP_WRITE_S)
        self._changed.set()

    def retry_while_unavailable(self, call: Callable[[], R], *, keys_wait_s: float | None = None) -> R:
        """Return the result of `call`.

        While the control plane or the key provider is unavailable, retry with backoff until the attempt's
        deadline. A wait for the key provider ends earlier: after `keys_wait_s` (None means the default
        limit), or when the attempt must stop. Raise `LeaseLost` if the API key of the worker stays refused.
        """
        keys_until = self.clock() + (self._keys_wait_s if keys_wait_s is None else keys_wait_s)

        def has_time_left(error: Exception) -> bool:
            if isinstance(error, Unavailable):
                self._outages.failed(error)
                self._check_key(error)
                return self.seconds_left > 0
            _log.warning("key_provider_unavailable", error=str(error))
            self.check()
            return self.clock() < keys_until

        def sleep(seconds: float) -> None:
            time.sleep(min(self.seconds_left, seconds))

        result = retry(call, on=(Unavailable, KeyProviderUnavailable), may_retry=has_time_left, sleep=sleep)
        self._outages.ended()
        self._refused_at = None
        return result

    def _check_key(self, error: Unavailable) -> None:
        """Raise `LeaseLost` if the API key of the worker has been refused for too long."""
        if not isinstance(error, WorkerKeyRefused):
            self._refused_at = None
            return
        now = self.clock()
        self._refused_at = now if self._refused_at is None else self._refused_at
        if now - self._refused_at >= self._refused_key_wait_s:
            raise LeaseLost(f"the API key of the worker is refused: {error}") from None
