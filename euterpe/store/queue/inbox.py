"""The worker's side of the inbox: claim, heartbeat, advance, fail, release and sweep jobs."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import MappingProxyType

import sqlalchemy as sa

from euterpe.domain.retry import (
    Backoff,
    JobDecision,
    JobError,
    canceled,
    lease_expired,
)
from euterpe.domain.rows import Json
from euterpe.domain.states import JobStatus, Lane, lane_when_queued
from euterpe.domain.text import check_text
from euterpe.store.checks import (
    MAX_BATCH,
    WEEK_MS,
    check_count,
    check_documents,
    check_name,
)
from euterpe.store.engine.batch_rows import AnyRow
from euterpe.store.engine.database import Database
from euterpe.store.engine.group_commit import GroupCommit
from euterpe.store.queue.event_rows import CONTEXT_COLUMNS, EventContext, context_of
from euterpe.store.queue.failures import FAILURE_COLUMNS, FailureWriter
from euterpe.store.queue.fairness.job_picker import JobPicker
from euterpe.store.queue.job_transitions import JobTransitions
from euterpe.store.queue.lanes import lane_is
from euterpe.store.queue.leases import Holding
from euterpe.store.queue.sweep import ROWS_PER_SWEEP, SweepTimer
from euterpe.store.queue.transition import Fence, Transition
from euterpe.store.tables import inbox_jobs

_job = inbox_jobs.c
_NO_ACCOUNTS: Mapping[str, Mapping[str, object]] = MappingProxyType({})


@dataclass(frozen=True)
class ClaimedJob:
    """A job that this worker owns until the lease expires."""

    job_id: str
    requester_id: str
    claim_version: int
    worker_id: str
    lease_ms: int
    attempt_count: int
    max_attempts: int
    refresh_count: int
    credential_version: int
    queue: str
    priority: int
    group_id: str | None
    spec: Json
    context: EventContext = field(repr=False)

    @property
    def holding(self) -> Holding:
        return Holding(self.job_id, self.claim_version)


@dataclass(frozen=True)
class HeartbeatResult:
    """The ids of the jobs that are still held, and of the held jobs whose cancel was requested."""

    held: frozenset[str]
    cancel_requested: frozenset[str]


class Inbox:
    """The operations of workers on jobs. Every write is fenced: it changes nothing if its claim is stale."""

    def __init__(
        self,
        database: Database,
        transitions: JobTransitions,
        *,
        backoff: Backoff | None = None,
        sweep_every_ms: int = 100,
    ) -> None:
        self._database, self._transitions = database, transitions
        self._failures = FailureWriter(transitions, backoff or Backoff())
        self._sweep_timer = SweepTimer(sweep_every_ms, self.sweep)
        self._expired = transitions.jobs.expired(FAILURE_COLUMNS)
        self.shares = transitions.admission.shares
        self._picker = JobPicker(transitions.jobs, self.shares, _CLAIMED)
        self._steps: GroupCommit[Transition, bool] = GroupCommit(
            self._advance_batch, name="advance", max_wait_s=database.write_wait_s
        )

    def claim(
        self, worker_id: str, limit: int, *, queues: Sequence[str] = ("default",), lease_ms: int = 60_000
    ) -> list[ClaimedJob]:
        """Claim up to `limit` jobs, in the order of `queues`; start and count an attempt of each job."""
        check_name(worker_id, "worker_id")
        check_count(limit, "limit", 1, MAX_BATCH)
        check_count(lease_ms, "lease_ms", 1, WEEK_MS)
        # `tuple` would split a single string into one queue per letter.
        queues = (queues,) if isinstance(queues, str) else tuple(dict.fromkeys(queues))
        for queue in queues:
            check_text("queue", queue, "queues")
        claimed = self._sweep_timer.claim_with_sweep(
            lambda: self._database.claim_in_batches(
                limit, lambda part: self._claim_some(worker_id, part, queues, lease_ms)
            )
        )
        self.shares.make_queues()
        return claimed

    def _claim_some(
        self, worker_id: str, limit: int, queues: Sequence[str], lease_ms: int
    ) -> list[ClaimedJob]:
        with self._database.transaction() as connection:
            picked: list[AnyRow] = []
            for queue in queues:
                if len(picked) < limit:
                    picked += self._picker.pick(connection, queue, limit - len(picked))
            contexts = [context_of(row) for row in picked]
            claims = [
                Transition.claim(
                    Fence(row.job_id, row.claim_version, JobStatus.QUEUED),
                    JobStatus.CLAIMED,
                    worker_id=worker_id,
                    lease_ms=lease_ms,
                    context=context,
                )
                for row, context in zip(picked, contexts, strict=True)
            ]
            held = self._transitions.apply(connection, claims)
        return [
            _claimed(row, context, held[row.job_id], worker_id, lease_ms)
            for row, context in zip(picked, contexts, strict=True)
            if row.job_id in held
        ]

    def sweep(self, limit: int = ROWS_PER_SWEEP) -> int:
        """Promote due jobs, revoke expired leases and admit capped jobs; return the number of these jobs."""
        admission = self._transitions.admission
        with self._database.transaction() as connection:
            due = admission.promote_due(connection, limit)
        # Use three transactions. A single transaction would lock jobs after it has locked shares, and would
        # lock groups in two rounds, so not in sorted order. It could deadlock with a transaction that locks
        # jobs before shares.
        with self._database.transaction() as connection:
            expired = connection.execute(self._expired, {"limit": limit}).all()
            self._failures.write(
                connection, expired, [lease_expired(row.status) for row in expired], has_expired=True
            )
        with self._database.transaction() as connection:
            admitted = admission.admit_capped(connection, limit)
        return len(expired) + due + admitted

    def heartbeat(
        self,
        jobs: Sequence[ClaimedJob],
        *,
        lease_ms: int | None = None,
        used: Mapping[str, Mapping[str, object]] = _NO_ACCOUNTS,
    ) -> HeartbeatResult:
        """Extend the leases in one statement; by default, use the `lease_ms` of the first job's claim.

        The worker has lost each job that is not in `held` of the result. `used` has the resources that the
        attempts have used so far, by job id. A second statement writes `used` for the jobs that are held.
        """
        if not jobs:
            return HeartbeatResult(frozenset(), frozenset())
        lease_ms = jobs[0].lease_ms if lease_ms is None else lease_ms
        check_count(lease_ms, "lease_ms", 1, WEEK_MS)
        check_documents(used)
        with self._database.transaction() as connection:
            rows = self._transitions.jobs.heartbeat(connection, [job.holding for job in jobs], lease_ms)
            held = {row.job_id for row in rows}
            self._transitions.account(connection, used, [job.holding for job in jobs if job.job_id in held])
        canceled = frozenset(row.job_id for row in rows if row.cancel_requested_at is not None)
        return HeartbeatResult(frozenset(row.job_id for row in rows), canceled)

    def advance(self, steps: Sequence[Transition]) -> frozenset[str]:
        """Advance each job; return the ids of the jobs still held. The caller must stop the lost jobs."""
        with self._database.transaction() as connection:
            return frozenset(self._transitions.apply(connection, steps))

    def start(self) -> None:
        """Start the thread that commits submitted steps."""
        self._steps.start()

    def submit_advance(self, step: Transition) -> "Future[bool]":
        """Advance a job in a group commit with concurrent callers.

        The result of the future is False for a stale claim.
        """
        return self._steps.submit(step)

    def close(self) -> None:
        """Commit the submitted steps, then stop."""
        self._steps.stop()

    def _advance_batch(self, steps: Sequence[Transition]) -> list[bool]:
        held = self.advance(steps)
        return [step.key in held for step in steps]

    def fail(
        self, job: ClaimedJob, error: JobError, *, timings: Mapping[str, object] | None = None
    ) -> JobDecision | None:
        """Requeue, fail or dead-letter the job; return the decision, or None if the claim is stale."""
        check_documents({"timings": timings})
        with self._database.transaction() as connection:
            rows = self._owned(connection, job)
            decisions = self._failures.write(connection, rows, [error for _ in rows], timings=timings)
        return decisions[0] if decisions else None

    def release(
        self,
        job: ClaimedJob,
        *,
        delay_ms: int = 0,
        reason: JobError | None = None,
        timings: Mapping[str, object] | None = None,
    ) -> bool:
        """Release a job without charging the attempt, because the job was not at fault.

        Return False for a stale claim. `reason` is stored as the job's last error. If the cancel of the job
        was requested, fail the job instead.
        """
        check_count(delay_ms, "delay_ms", 0, WEEK_MS)
        check_documents({"timings": timings})
        with self._database.transaction() as connection:
            rows = self._owned(connection, job)
            if any(row.cancel_requested_at is not None for row in rows):
                errors = [canceled(row.status) for row in rows]
                return bool(self._failures.write(connection, rows, errors, timings=timings))
            releases = [_release(row, delay_ms, reason, timings) for row in rows]
            return bool(self._transitions.apply(connection, releases))

    def _owned(self, connection: sa.Connection, job: ClaimedJob) -> Sequence[AnyRow]:
        held = sa.select(*FAILURE_COLUMNS).where(
            _job.job_id == job.job_id,
            _job.claim_version == job.claim_version,
            lane_is(inbox_jobs, Lane.LEASED),
        )
        return connection.execute(held.with_for_update()).all()


_CLAIMED = (
    _job.job_id,
    _job.claim_version,
    _job.max_attempts,
    _job.refresh_count,
    _job.credential_version,
    _job.spec,
    *CONTEXT_COLUMNS,
)


def _claimed(
    row: AnyRow, context: EventContext, written: AnyRow, worker_id: str, lease_ms: int
) -> ClaimedJob:
    return ClaimedJob(
        job_id=row.job_id,
        requester_id=row.requester_id,
        claim_version=written.claim_version,
        worker_id=worker_id,
        lease_ms=lease_ms,
        attempt_count=written.attempt_count,
        max_attempts=row.max_attempts,
        refresh_count=row.refresh_count,
        credential_version=row.credential_version,
        queue=row.queue,
        priority=row.priority,
        group_id=row.group_id,
        spec=row.spec,
        context=context,
    )


def _release(
    row: AnyRow, delay_ms: int, reason: JobError | None, timings: Mapping[str, object] | None
) -> Transition:
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
