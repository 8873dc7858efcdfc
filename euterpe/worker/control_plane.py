"""The port between a worker and its control plane, which owns the jobs.

`euterpe/control/store_plane.py` implements the port over the store, for workers in the same process, and
`euterpe/worker/http_plane.py` over HTTP, for remote workers. `tests/worker/test_control_plane.py` runs the
same tests on both implementations.

Each method may raise `Unavailable`. The caller may then repeat the call: if the first call was carried out,
the repeated call gets the same answer and changes nothing. Each write is fenced: it changes nothing once the
claim is over.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from euterpe.domain.leased_job import (
    End,
    Heartbeat,
    HeartbeatAnswer,
    JobSecrets,
    LeasedJob,
    ProgressFigures,
    RefreshReason,
    RefreshResult,
)
from euterpe.domain.retry import JobError
from euterpe.domain.states import JobStatus


class ControlPlane(Protocol):
    @property
    def heartbeat_interval_s(self) -> float | None:
        """Return the heartbeat interval in the last claim's answer, or None for the worker's own interval."""
        ...

    def claim(self, limit: int, *, wait_s: float) -> Sequence[LeasedJob]:
        """Claim up to `limit` jobs. Without jobs, wait up to `wait_s` for new jobs or for `wake`.

        The result can be empty although there are jobs, so call this again.
        """
        ...

    def wait(self, seconds: float) -> None:
        """Sleep until `wake` is called, for `seconds` at most."""
        ...

    def wake(self) -> None:
        """End the current `claim` or `wait` early, or the next one if none is running. Thread-safe."""
        ...

    def heartbeat(self, beats: Sequence[Heartbeat]) -> HeartbeatAnswer:
        """Extend the leases. A job that is not in `held` of the answer is lost."""
        ...

    def prove(self, job: LeasedJob, *, refers: bool) -> bool:
        """Return whether the claim is certainly valid now, so that a file may be published.

        `refers` is true if the file refers to other files. For such a file, a new heartbeat must prove the
        claim.
        """
        ...

    def advance(
        self, job: LeasedJob, source: JobStatus, target: JobStatus, values: Mapping[str, Any]
    ) -> bool:
        """Write the next status, and renew the lease. Return False for a stale claim.

        `values` may contain `source_info` and `warnings`.
        """
        ...

    def report(self, job: LeasedJob, progress: ProgressFigures) -> bool:
        """Write the progress. Return False for a stale claim."""
        ...

    def succeed(
        self, job: LeasedJob, outputs: Sequence[Mapping[str, Any]], timings: Mapping[str, Any]
    ) -> bool:
        """Record the success of a job whose status is `uploading`. Return False for a stale claim."""
        ...

    def fail(self, job: LeasedJob, error: JobError, timings: Mapping[str, Any]) -> End:
        """Record a failed attempt, which is charged to the job."""
        ...

    def release(self, job: LeasedJob, *, reason: JobError | None, timings: Mapping[str, Any]) -> End:
        """Queue the job again without a charge, because the worker is at fault or is stopping.

        If the job has used up its releases for this `reason`, charge the attempt instead.
        """
        ...

    def secrets(self, job: LeasedJob) -> JobSecrets:
        """Return the newest secrets of the job.

        Raise `StaleClaim`, or an error of `euterpe.crypto.errors`.
        """
        ...

    def refresh(self, job: LeasedJob, credential_version: int, reason: RefreshReason) -> RefreshResult:
        """Get credentials newer than version `credential_version` from the requester. Raise `StaleClaim`."""
        ...

    def is_rival(self, job: LeasedJob, other_id: str) -> bool | None:
        """Return whether job `other_id` is unfinished, or succeeded after this attempt began.

        Return None if there is no such job. Raise `StaleClaim` if the attempt is not stored any more.
        """
        ...

    def close(self) -> None:
        """Close the connections. No other call may follow."""
        ...
