"""The port between a bridge and a foreign queue. Each foreign system has one adapter.

All methods run on the event loop of the bridge and never block it. They raise `ForeignUnavailable` if the
foreign system does not answer, for example while Redis restarts. The bridge then repeats the call later.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from euterpe.domain.errors import EuterpeError

Json = Mapping[str, Any]


class ForeignUnavailable(EuterpeError):
    """The foreign system did not answer. It may still have carried out the call."""

    code = "foreign_queue_unavailable"


@dataclass(frozen=True)
class ForeignJob:
    """A job of a foreign queue that this bridge holds under a lease of that queue."""

    job_id: str
    source_ref: str
    name: str  # selects the mapping: BullMQ's job name, OmniQ's `payload.type`, or the task of a stream job
    data: Json | None  # the payload, or None if it is not a JSON object
    priority: int = 0  # as the foreign queue stores it
    # The number of attempts that the foreign queue makes. None if the queue makes only one attempt, because
    # Euterpe then makes the retries.
    attempts: int | None = None
    # The texts in which the foreign queue has recorded earlier failures, or None if it keeps no record. If an
    # attempt of Euterpe has failed and none of the texts names it, a bridge was killed before its report.
    past_failures: tuple[str, ...] | None = None
    # True if the foreign queue retries every failure, even a final one, and this delivery is such a retry.
    ignores_final_failures: bool = False
    requester_id: str = ""  # the requester that submitted the job, if the foreign queue knows it
    is_canceled: bool = False  # True if the producer canceled the job before this bridge took it
    handle: Any = field(default=None, repr=False, compare=False)  # the adapter's own data for its calls


class ForeignLease(StrEnum):
    """The answer of a foreign queue to a heartbeat."""

    HELD = "held"
    LOST = "lost"  # stop reporting; do not cancel the row, because the job's next holder attaches to it
    CANCELED = "canceled"  # the producer has canceled the job


class ReportOutcome(StrEnum):
    """The answer of a foreign queue to the report that a job has ended."""

    DONE = "done"  # recorded now, or by an earlier call whose answer was lost
    LOST = "lost"  # another holder has the job, and reports it
    GONE = "gone"  # the producer has removed the job


@dataclass(frozen=True)
class ForeignFailure:
    """The failure of a job, as the foreign queue records it.

    `retry` is True if the foreign queue may retry the job by its own rules. `mark` names the attempt. If the
    foreign queue keeps a record of failures, the adapter adds the mark to the record. Later deliveries return
    the record as `ForeignJob.past_failures`.
    """

    code: str
    message: str
    retry: bool
    mark: str = ""


class ForeignAdapter(Protocol):
    """The calls of one foreign queue."""

    heartbeat_interval_s: float

    async def start(self) -> None:
        """Connect, and prepare the queue. Raise `ForeignUnavailable`, or `BridgeError` for a wrong set-up."""
        ...

    async def examine(self) -> str:
        """Connect, and return the versions of package and server, for `euterpe doctor`. Change nothing."""
        ...

    async def take(self, limit: int, wait_s: float) -> Sequence[ForeignJob]:
        """Take up to `limit` jobs. Wait at most `wait_s` for the first job."""
        ...

    async def heartbeat(self, jobs: Sequence[ForeignJob]) -> Sequence[ForeignLease]:
        """Extend the leases of these jobs; return the state of each, in order."""
        ...

    async def progress(self, job: ForeignJob, percent: float) -> None:
        """Report the progress of a running job. A lost report is not repeated."""
        ...

    async def succeed(self, job: ForeignJob, result: Json) -> ReportOutcome:
        """End the job with its result: job id, outputs and warnings of the status document."""
        ...

    async def fail(self, job: ForeignJob, failure: ForeignFailure) -> ReportOutcome:
        """End the attempt with this failure."""
        ...

    async def release(self, job: ForeignJob) -> None:
        """Hand the job back, so that another bridge can take it."""
        ...

    async def stop(self) -> None:
        """Close all connections. When the leases of held jobs expire, other bridges take these jobs."""
        ...


class BridgeError(EuterpeError):
    """The configuration of a bridge is wrong; the message says what to change."""

    code = "bridge_misconfigured"
