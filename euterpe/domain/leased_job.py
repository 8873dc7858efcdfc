"""The values that a worker and its control plane exchange: jobs, heartbeats, progress, ends, credentials.

These values are the same for a local worker, whose control plane is the store, and for a remote worker, whose
control plane answers over HTTP.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from euterpe.domain.errors import EuterpeError

RefreshReason = Literal["forbidden", "expiring"]
# The largest number of warnings of a job. 20 outputs of a source with 32 streams could have 640.
MAX_WARNINGS = 100


class Unavailable(EuterpeError):
    """The control plane cannot answer now, but the same call can succeed later.

    If only the answer was lost, the control plane has already executed the call. Nevertheless, the caller can
    safely repeat every call.
    """

    code = "unavailable"
    retryable = True


class StaleClaim(EuterpeError):
    """The claim is over: another owner has the job, or the job has ended."""

    code = "stale_claim"


@dataclass(frozen=True)
class LeasedJob:
    """A job that is leased to a worker. `spec` has no secrets."""

    job_id: str
    attempt_id: str
    worker_id: str
    claim_version: int
    lease_ms: int
    attempt_count: int
    max_attempts: int
    queue: str
    spec: Mapping[str, Any]
    # The control plane that leased the job to the worker finds the claim by this value. No other part
    # of Euterpe reads this value.
    handle: object = field(repr=False, compare=False)


@dataclass(frozen=True)
class ProgressFigures:
    percent: float
    eta_seconds: float | None = None
    speed: float | None = None  # seconds of media per second


@dataclass(frozen=True)
class Heartbeat:
    """The heartbeat of one job.

    `timings` has the resources that the attempt has used so far, or is None if they have not changed.
    """

    job: LeasedJob
    timings: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class HeartbeatAnswer:
    """The ids of the jobs that the worker still holds, and of the jobs among them that are to be canceled."""

    held: frozenset[str]
    cancel_requested: frozenset[str]


class End(StrEnum):
    """The end of an attempt: its stored outcome, or `STALE`."""

    SUCCEEDED = "succeeded"
    REQUEUED = "requeued"  # The job is queued again, after a charged attempt.
    RELEASED = "released"  # The job is queued again, without a charge.
    FAILED = "failed"  # The job failed, or became a dead letter.
    CANCELED = "canceled"
    STALE = "stale"  # Nothing was written, because the claim is over.

    @classmethod
    def of(cls, outcome: str | None) -> "End":
        """Return the end for a stored outcome. Return `STALE` for an expired lease or an unknown outcome."""
        return next((end for end in cls if end.value == outcome), cls.STALE)


@dataclass(frozen=True)
class JobSecrets:
    """The secrets that a worker needs for a job. The worker stores these secrets in memory only.

    `storage` is the secret part of the spec (`canonical.split_secrets`), or None. `hls_keys` has the key of
    each encrypted HLS output, by the name of the output. `clock_ahead_s` is how far the wall clock of this
    machine is ahead of the clock of the control plane.
    """

    credential_version: int
    storage: bytes | None = field(repr=False)
    hls_keys: Mapping[str, bytes] = field(repr=False)
    clock_ahead_s: float = 0.0


class RefreshResult(StrEnum):
    """The result of a call for newer credentials."""

    ADVANCED = "advanced"  # Newer credentials are stored.
    PROMISED = "promised"  # The requester will send newer credentials.
    FAILED = "failed"  # The requester sent no credentials. A later call can succeed.
    REFUSED = "refused"  # The job has no refresh_url, or its refresh budget is spent.
