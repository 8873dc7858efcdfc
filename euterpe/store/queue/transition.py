"""Transitions: a fenced change of a row's status is one frozen value, which named constructors build."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol, Self

from euterpe.domain.errors import InvalidTransition
from euterpe.domain.retry import JobError
from euterpe.domain.states import IN_PROGRESS, JobStatus, Lane, lane_when_queued
from euterpe.store.checks import check_reported_fields
from euterpe.store.engine.batch_rows import AnyRow
from euterpe.store.queue.event_rows import EventContext, context_of

NOTHING: Mapping[str, object] = MappingProxyType({})


class Claim(Protocol):
    """A job that a worker has claimed."""

    @property
    def job_id(self) -> str: ...
    @property
    def claim_version(self) -> int: ...
    @property
    def worker_id(self) -> str: ...
    @property
    def lease_ms(self) -> int: ...
    @property
    def context(self) -> EventContext: ...


class Fence(NamedTuple):
    """The key, version and status of a row, as the caller has read them.

    A fence is stale once the version or the status of the row has changed.
    """

    key: str
    claim_version: int
    status: str


class Shape(NamedTuple):
    """The part of a transition that determines the text of its UPDATE."""

    source: str
    target: str
    lane: Lane | None  # None: unchanged
    is_leased: bool  # after the transition
    raises_version: bool
    attempts: int  # added to attempt_count
    owners_differ: bool = False  # each row of the batch has its own owner and lease


class Transition(NamedTuple):
    """A change of one row's status, fenced by the version and the status that the caller has read."""

    key: str
    claim_version: int
    source: str
    target: str
    lane: Lane | None = None
    worker_id: str | None = None  # the owner after the transition; None: no owner
    lease_ms: int | None = None  # the length of the lease from now; None: no lease
    raises_version: bool = False  # True for a new owner, or to fence off the old owner
    attempts: int = 0
    delay_ms: int | None = None  # the row cannot be claimed before this time has passed
    values: Mapping[str, object] = NOTHING  # the `value_types` of the table define the allowed keys
    context: EventContext | None = None  # the data for the event; only for jobs
    owners_differ: bool = False  # True to share a statement with transitions of other owners
    attempt_id: str | None = None  # the id of the attempt that begins; only for claims of jobs
    claim_id: str | None = None  # the request that claims the job

    @classmethod
    def claim(
        cls,
        fence: Fence,
        target: str,
        *,
        worker_id: str,
        lease_ms: int,
        context: EventContext | None = None,
        attempt_id: str | None = None,
        claim_id: str | None = None,
        hold_ms: int | None = None,
        owners_differ: bool = False,
    ) -> Self:
        """Return a claim: the row gets an owner, a lease and a new version, and an attempt is counted.

        A claim of a job needs `attempt_id`. No heartbeat extends the lease of a job after `hold_ms`. Set
        `owners_differ` if the batch has claims of several workers.
        """
        owner = (Lane.LEASED, worker_id, lease_ms)
        return cls(
            *fence,
            target,
            *owner,
            raises_version=True,
            attempts=1,
            values=NOTHING if hold_ms is None else {"hold_ms": hold_ms},
            context=context,
            owners_differ=owners_differ,
            attempt_id=attempt_id,
            claim_id=claim_id,
        )

    @classmethod
    def claim_to_cancel(cls, fence: Fence, target: str, *, worker_id: str, context: EventContext) -> Self:
        """Return the claim of a queued job that is to be canceled. No attempt is counted."""
        owner = (Lane.LEASED, worker_id, 0)
        return cls(*fence, target, *owner, raises_version=True, context=context)

    @classmethod
    def advance(
        cls, job: Claim, source: JobStatus, target: JobStatus, values: Mapping[str, object] = NOTHING
    ) -> Self:
        """Return the next step of a claimed job. The step renews the lease, or ends it if the job succeeds.

        `values` may contain progress, outputs, source_info, warnings and timings. Raise `InvalidTransition`
        for a job that is not in progress.
        """
        if source not in IN_PROGRESS:
            raise InvalidTransition(source, target, "only a job in progress can advance")
        if values:
            check_reported_fields(values)
        fence = (job.job_id, job.claim_version, source)
        if target == JobStatus.SUCCEEDED:
            return cls(*fence, target, Lane.REST, values=values, context=job.context)
        return cls(*fence, target, None, job.worker_id, job.lease_ms, values=values, context=job.context)

    @classmethod
    def step(
        cls,
        fence: Fence,
        target: JobStatus,
        *,
        worker_id: str,
        lease_ms: int,
        values: Mapping[str, object],
        context: EventContext,
    ) -> Self:
        """Return the next step of a job in progress, for its owner `worker_id`. The step renews the lease.

        Steps of different workers may share one UPDATE statement.
        """
        step = cls(*fence, target, None, worker_id, lease_ms, values=values, context=context)
        return step._replace(owners_differ=True)

    @classmethod
    def release(
        cls,
        fence: Fence,
        target: str,
        lane: Lane,
        *,
        delay_ms: int | None = None,
        values: Mapping[str, object] = NOTHING,
        context: EventContext | None = None,
    ) -> Self:
        """Return a release: the row loses its owner, and the attempt is not counted."""
        return cls(*fence, target, lane, attempts=-1, delay_ms=delay_ms, values=values, context=context)

    @classmethod
    def finish(
        cls,
        fence: Fence,
        target: str,
        lane: Lane,
        *,
        delay_ms: int | None = None,
        values: Mapping[str, object] = NOTHING,
        context: EventContext | None = None,
    ) -> Self:
        """Return a transition after which the row has no owner, and is finished or can be claimed again."""
        return cls(*fence, target, lane, delay_ms=delay_ms, values=values, context=context)

    @classmethod
    def expire(
        cls,
        fence: Fence,
        target: str,
        lane: Lane,
        *,
        delay_ms: int | None = None,
        values: Mapping[str, object] = NOTHING,
        context: EventContext | None = None,
    ) -> Self:
        """Return the end of an attempt whose lease has expired.

        The transition raises the version, so that the owner is fenced off at once, before the next claim.
        """
        end = cls.finish(fence, target, lane, delay_ms=delay_ms, values=values, context=context)
        return end._replace(raises_version=True)

    @classmethod
    def retry(
        cls,
        fence: Fence,
        target: str,
        lane: Lane,
        *,
        attempts: int = 0,
        context: EventContext | None = None,
    ) -> Self:
        """Return a retry of a finished row. The row is due now. Add `attempts` to its attempt count."""
        return cls(*fence, target, lane, attempts=attempts, delay_ms=0, context=context)

    @property
    def shape(self) -> Shape:
        is_leased = self.lease_ms is not None
        changes = (self.raises_version, self.attempts, self.owners_differ)
        return Shape(self.source, self.target, self.lane, is_leased, *changes)

    @property
    def has_values(self) -> bool:
        return self.delay_ms is not None or bool(self.values)

    def row(self) -> dict[str, object]:
        """Return the transition as a row of a batch."""
        # The fence comes last, so that no value from a worker can overwrite it.
        fence = {"key": self.key, "version": self.claim_version, "source": self.source}
        row = {**self.values, **fence} if self.values else fence
        if self.owners_differ:
            row = {**row, "owner": self.worker_id, "owner_lease_ms": self.lease_ms}
        return row if self.delay_ms is None else {**row, "delay_ms": self.delay_ms}

    def parameters(self) -> dict[str, object]:
        """Return the parameters that all rows of a batch share."""
        shared: dict[str, object] = {"target": self.target}
        if self.lane is not None:
            shared["to_lane"] = self.lane
        if self.owners_differ:
            return shared
        shared["worker"] = self.worker_id
        if self.lease_ms is not None:
            shared["lease_ms"] = self.lease_ms
        return shared


def release_of(
    row: AnyRow, delay_ms: int, reason: JobError | None, timings: Mapping[str, object] | None
) -> Transition:
    """Return the release of a job that a worker holds. `row` has the `FAILURE_COLUMNS` of the job."""
    values: dict[str, object] = {"outcome": "released"}
    if reason is not None:
        values["last_error"] = reason.document()
    if timings is not None:
        values["timings"] = timings
    return Transition.release(
        Fence(row.job_id, row.claim_version, row.status),
        JobStatus.QUEUED,
        lane_when_queued(row.group_id, delay_ms),
        delay_ms=delay_ms or None,
        values=values,
        context=context_of(row),
    )
