"""The worker's side of the inbox: claim, heartbeat, advance and sweep jobs."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import sqlalchemy as sa

from euterpe.domain.retry import (
    Backoff,
    lease_expired,
)
from euterpe.store.checks import WEEK_MS, check_count, check_documents
from euterpe.store.engine.batch_rows import AnyRow
from euterpe.store.engine.database import Database
from euterpe.store.engine.group_commit import GroupCommit
from euterpe.store.queue.attempt_answers import AttemptKey
from euterpe.store.queue.claims import ClaimedJob, ClaimRequest, ClaimResult, Claims
from euterpe.store.queue.failures import FAILURE_COLUMNS, FailureWriter
from euterpe.store.queue.job_transitions import JobTransitions
from euterpe.store.queue.leases import Extension
from euterpe.store.queue.sweep import ROWS_PER_SWEEP, SweepTimer
from euterpe.store.queue.transition import Transition
from euterpe.store.tables import inbox_jobs, job_attempts

__all__ = ["ClaimRequest", "ClaimedJob", "ExtendedLease", "HeartbeatResult", "Inbox"]

_job = inbox_jobs.c
_NO_ACCOUNTS: Mapping[str, Mapping[str, object]] = MappingProxyType({})


@dataclass(frozen=True)
class ExtendedLease:
    """A lease that a heartbeat has extended."""

    lease_expires_at: int  # a time of the database's clock
    credential_version: int
    cancel_requested: bool


@dataclass(frozen=True)
class HeartbeatResult:
    """The ids of the jobs that are still held, and the ids of those whose cancel was requested.

    `leases` maps the id of each held job to its lease.
    """

    held: frozenset[str]
    cancel_requested: frozenset[str]
    leases: Mapping[str, ExtendedLease] = field(default_factory=dict)


def extended_lease(row: AnyRow) -> ExtendedLease:
    """Return the lease that a row of `LeasedTable.heartbeat` describes."""
    return ExtendedLease(row.lease_expires_at, row.credential_version, row.cancel_requested_at is not None)


class Inbox:
    """The operations of workers on jobs. Every write is fenced: it changes nothing if its claim is stale."""

    def __init__(
        self,
        database: Database,
        transitions: JobTransitions,
        *,
        backoff: Backoff | None = None,
        sweep_every_ms: int = 100,
        sweep_grace_ms: int = 0,
        outage_grace_ms: int = 0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Do not revoke leases in the first `sweep_grace_ms`, and for `outage_grace_ms` after an outage.

        So after an outage of the API or of the database, each running worker can revive its leases before
        they are revoked.
        """
        self._database, self._transitions = database, transitions
        self._failures = FailureWriter(transitions, backoff or Backoff())
        self._monotonic, self._revokes_from = monotonic, monotonic() + sweep_grace_ms / 1000
        self._outage_grace_s = outage_grace_ms / 1000
        self._sweep_timer = SweepTimer(sweep_every_ms, self.sweep)
        self._expired = transitions.jobs.expired(FAILURE_COLUMNS)
        self.shares = transitions.admission.shares
        self._claims = Claims(database, transitions)
        self._steps: GroupCommit[Transition, bool] = GroupCommit(
            self._advance_batch, name="advance", max_wait_s=database.write_wait_s
        )

    def claim(
        self, worker_id: str, limit: int, *, queues: Sequence[str] = ("default",), lease_ms: int = 60_000
    ) -> list[ClaimedJob]:
        """Claim up to `limit` jobs, in the order of `queues`; start and count an attempt of each job."""
        request = ClaimRequest(worker_id, limit, queues, lease_ms)
        claimed = self._sweep_timer.claim_with_sweep(
            lambda: self._database.claim_in_batches(
                limit, lambda part: self._claims.take([replace(request, limit=part)])[0].jobs
            )
        )
        self.shares.make_queues()
        return claimed

    def claim_for(
        self, requests: Sequence[ClaimRequest], unsure: Sequence[ClaimRequest] = ()
    ) -> list[ClaimResult]:
        """Claim jobs for several workers in one transaction; return the jobs of each request, in order.

        One call claims at most as many jobs as the engine's `read_limit`, so a request can get fewer jobs
        than are ready. A request with a repeated `claim_id` gets the jobs of the earlier claim again.
        Requests in `unsure` get only the jobs of earlier claims. Their results come after the results of
        `requests`.
        """
        results: list[ClaimResult] = []

        def claim() -> list[ClaimedJob]:
            results[:] = self._claims.take(requests, unsure)
            return [job for result in results for job in result.jobs]

        self._sweep_timer.claim_with_sweep(claim)
        self.shares.make_queues()
        return results

    def held_by(self, claim_id: str) -> list[AttemptKey]:
        """Return the attempts that this claim began and that have not ended."""
        attempt = job_attempts.c
        found = sa.select(attempt.job_id, attempt.attempt_id, attempt.claim_version).where(
            attempt.claim_id == claim_id, attempt.claim_id.is_not(None), attempt.ended_at.is_(None)
        )
        found = found.with_hint(job_attempts, "INDEXED BY attempts_claim_id", "sqlite")
        with self._database.snapshot() as connection:
            return [AttemptKey(*row) for row in connection.execute(found)]

    def sweep(self, limit: int = ROWS_PER_SWEEP) -> int:
        """Promote due jobs, revoke expired leases and admit capped jobs; return the number of these jobs."""
        steps: list[Callable[[sa.Connection, int], int | None]] = [
            self._transitions.admission.admit_capped,
            self._revoke_expired,
            self._transitions.admission.promote_due,
        ]
        changed = 0
        while steps:
            # After a step that has locked rows, commit, and run the remaining steps in a new transaction. One
            # transaction for all steps would lock jobs after shares. It would also lock groups in two rounds,
            # and so not in sorted order. Each of these two violations of the lock order (admission.py) could
            # cause a deadlock.
            with self._database.transaction() as connection:
                found = None
                while steps and found is None:
                    found = steps.pop()(connection, limit)
            changed += found or 0
        return changed

    def _may_revoke(self) -> bool:
        outage = self._database.outage
        # Check `is_on`, too: during an outage, `ended_at` is still the end of the previous outage. The outage
        # can last until the transaction of this sweep commits.
        is_recovered = not outage.is_on and outage.monotonic() >= outage.ended_at + self._outage_grace_s
        return is_recovered and self._monotonic() >= self._revokes_from

    def _revoke_expired(self, connection: sa.Connection, limit: int) -> int | None:
        """Revoke expired leases; return how many. Return None if no row was locked."""
        if not self._may_revoke():
            return None
        expired = connection.execute(self._expired, {"limit": limit}).all()
        if not expired:
            return None
        errors = [lease_expired(row.status) for row in expired]
        self._failures.write(connection, expired, errors, has_expired=True)
        return len(expired)

    def heartbeat(
        self,
        jobs: Sequence[ClaimedJob],
        *,
        lease_ms: int | None = None,
        used: Mapping[str, Mapping[str, object]] = _NO_ACCOUNTS,
        revive: bool = False,
    ) -> HeartbeatResult:
        """Extend the leases in one statement; by default, use the `lease_ms` of each job's claim.

        The worker has lost each job that is not in `held` of the result. `used` contains the resources that
        the attempts have used so far, by job id. A second statement writes `used` for the jobs that are held.
        With `revive`, extend also leases that have expired, but were not swept.
        """
        if not jobs:
            return HeartbeatResult(frozenset(), frozenset())
        extensions = [Extension(*job.holding, job.lease_ms if lease_ms is None else lease_ms) for job in jobs]
        for extension in extensions:
            check_count(extension.lease_ms, "lease_ms", 1, WEEK_MS)
        check_documents(used)
        with self._database.transaction() as connection:
            rows = self._transitions.jobs.heartbeat(connection, extensions, revive=revive)
            leases = {row.job_id: extended_lease(row) for row in rows}
            self._transitions.account(connection, used, [job.holding for job in jobs if job.job_id in leases])
        canceled = frozenset(job_id for job_id, lease in leases.items() if lease.cancel_requested)
        return HeartbeatResult(frozenset(leases), canceled, leases)

    def advance(self, steps: Sequence[Transition]) -> frozenset[str]:
        """Advance each job; return the ids of the jobs that are still held.

        The caller must stop its work on the other jobs, because it has lost them.
        """
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
