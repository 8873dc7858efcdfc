"""The values between a worker and its control plane: leased jobs, heartbeats, progress, ends, credentials.

These values are the same for a local worker, whose control plane is the store, and for a remote worker, whose
control plane answers over HTTP.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from euterpe.domain.errors import EuterpeError

RefreshReason = Literal["forbidden", "expiring"]


class Unavailable(EuterpeError):
    """The control plane cannot answer now, and the same call may succeed later.

    The call may have been carried out, if only its answer was lost. Every call may therefore be repeated.
    """

    code = "unavailable"
    retryable = True


class StaleClaim(EuterpeError):
    """The claim is over: another owner has the job, or the job has ended."""

    code = "stale_claim"


@dataclass(frozen=True)
class LeasedJob:
    """A job that a worker holds until its lease expires. `spec` has no secrets."""

    job_id: str
    attempt_id: str
    worker_id: str
    claim_version: int
    lease_ms: int
    attempt_count: int
    max_attempts: int
    queue: str
    spec: Mapping[str, Any]
    # The control plane finds the claim by this value. Only the control plane that made the job reads it.
    handle: object = field(repr=False, compare=False)


@dataclass(frozen=True)
class ProgressFigures:
    percent: float
    eta_seconds: float | None = None
    speed: float | None = None  # seconds of media per second


@dataclass(frozen=True)
class Heartbeat:
    """The heartbeat of one job. `timings` has the resources that the attempt has used, if they changed."""

    job: LeasedJob
    timings: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class HeartbeatAnswer:
    """The ids of the jobs that are still held, and of the held jobs whose cancel was requested."""

    held: frozenset[str]
    cancel_requested: frozenset[str]


class End(StrEnum):
    """The outcome of an attempt, as it is stored, or `STALE`."""

    SUCCEEDED = "succeeded"
    REQUEUED = "requeued"  # the job is queued again, after a charged attempt
    RELEASED = "released"  # the job is queued again, without a charge
    FAILED = "failed"  # the job failed, or became a dead letter
    CANCELED = "canceled"
    STALE = "stale"  # nothing was written, because the claim is over

    @classmethod
    def of(cls, outcome: str | None) -> "End":
        """Return the end for a stored outcome. An expired lease and an unknown outcome are stale."""
        return next((end for end in cls if end.value == outcome), cls.STALE)


@dataclass(frozen=True)
class JobSecrets:
    """The secrets that a worker needs for a job. The worker keeps them in memory only.

    `storage` is the secret part of the spec (`canonical.split_secrets`), or None. `hls_keys` has the key of
    each encrypted HLS output, by the name of the output.
    """

    credential_version: int
    storage: bytes | None = field(repr=False)
    hls_keys: Mapping[str, bytes] = field(repr=False)


class RefreshResult(StrEnum):
    """The result of a call for newer credentials."""

    ADVANCED = "advanced"  # newer credentials are stored
    PROMISED = "promised"  # the requester will send them
    FAILED = "failed"  # the requester gave none; a later call may succeed
    REFUSED = "refused"  # the job has no refresh_url, or its refresh budget is spent
