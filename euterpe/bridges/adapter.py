"""The port between a bridge and a foreign queue. Each foreign system has one adapter.

All methods run on the event loop of the bridge and never block it. They raise `ForeignUnavailable` if the
foreign system does not answer, for example while Redis restarts; the bridge repeats the call later.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from euterpe.domain.errors import EuterpeError

Json = Mapping[str, Any]


class ForeignUnavailable(EuterpeError):
    """The foreign system did not answer. The call may have been carried out there."""

    code = "foreign_queue_unavailable"


@dataclass(frozen=True)
class ForeignJob:
    """A job of a foreign queue that this bridge holds under a lease of that queue."""

    job_id: str
    source_ref: str
    name: str  # by which the mapping chooses: BullMQ's job name, OmniQ's `payload.type`, the task of a stream
    data: Json | None  # the payload, or None if it is no JSON object
    priority: int = 0  # in the words of the foreign queue
    # How many attempts the foreign queue makes. None if it makes only one: then Euterpe retries.
    attempts: int | None = None
    # What the foreign queue has recorded of earlier failures, or None if it keeps no record. A failure of an
    # attempt that is in none of these texts was never reported: a bridge was killed before.
    past_failures: tuple[str, ...] | None = None
    # The foreign queue makes this attempt by itself, because it has no word for a failure without a retry.
    ignores_final_failures: bool = False
    handle: Any = field(default=None, repr=False, compare=False)  # what the adapter needs for its calls


class ForeignLease(StrEnum):
    """The answer of a foreign queue to a heartbeat."""

    HELD = "held"
    LOST = "lost"  # stop reporting; never cancel the job, because its next holder attaches to it
    CANCELED = "canceled"  # the producer has canceled the job


class Told(StrEnum):
    """The answer of a foreign queue to the end of a job."""

    DONE = "done"  # recorded now, or by an earlier call whose answer was lost
    LOST = "lost"  # another holder has the job, and reports it
    GONE = "gone"  # the producer has removed the job


@dataclass(frozen=True)
class ForeignFailure:
    """The failure of a job, as the foreign queue records it.

    `retry` tells whether the foreign queue may try again, by its own rules. `mark` names the attempt: an
    adapter whose foreign queue keeps a record of failures writes it there, for `ForeignJob.past_failures`.
    """

    code: str
    message: str
    retry: bool
    mark: str = ""


class ForeignAdapter(Protocol):
    """The calls of one foreign queue."""

    beat_interval_s: float

    async def start(self) -> None:
        """Connect, and prepare the queue. Raise `ForeignUnavailable`, or `BridgeError` for a wrong set-up."""
        ...

    async def examine(self) -> str:
        """Connect, and return the versions of both sides. Change nothing. Only checks call this."""
        ...

    async def take(self, limit: int, wait_s: float) -> Sequence[ForeignJob]:
        """Take up to `limit` jobs. Wait at most `wait_s` for the first."""
        ...

    async def beat(self, jobs: Sequence[ForeignJob]) -> Sequence[ForeignLease]:
        """Extend the leases of these jobs; return the state of each, in order."""
        ...

    async def progress(self, job: ForeignJob, percent: float) -> None:
        """Report the progress of a running job. A lost report is not repeated."""
        ...

    async def succeed(self, job: ForeignJob, result: Json) -> Told:
        """End the job with its result: job id, outputs and warnings of the status document."""
        ...

    async def fail(self, job: ForeignJob, failure: ForeignFailure) -> Told:
        """End the attempt with this failure."""
        ...

    async def release(self, job: ForeignJob) -> None:
        """Hand the job back, so that another bridge takes it. The bridge is stopping."""
        ...

    async def stop(self) -> None:
        """Close all connections. Other bridges take the jobs that are still held when their leases expire."""
        ...


class BridgeError(EuterpeError):
    """The configuration of a bridge is wrong; the message says what to change."""

    code = "bridge_misconfigured"
