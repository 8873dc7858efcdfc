"""Claim jobs for several waiting workers in one transaction, and repeat the answer to a repeated claim.

If the answer to a claim was lost, the worker repeats the claim with the same `claim_id`. The jobs that the
first claim took are found by this id in `job_attempts`, so the repetition takes no further jobs, and costs no
attempt. The id is not unique in the table, because a claim may take several jobs, and because a duplicated
request must not fail its batch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

import sqlalchemy as sa

from euterpe.domain.rows import Json
from euterpe.domain.states import JobStatus
from euterpe.domain.text import check_text
from euterpe.store.checks import MAX_BATCH, WEEK_MS, check_count, check_name
from euterpe.store.engine.batch_rows import TEXT, AnyRow, Rows, as_parameter, fetch_all
from euterpe.store.engine.database import Database
from euterpe.store.engine.ids import new_ids
from euterpe.store.queue.event_rows import CONTEXT_COLUMNS, EventContext, context_of
from euterpe.store.queue.fairness.job_picker import JobPicker
from euterpe.store.queue.fairness.requester_limits import LONGEST_TIMEOUT_S
from euterpe.store.queue.job_transitions import END_GRACE_MS, JobTransitions
from euterpe.store.queue.leases import Extension, Holding
from euterpe.store.queue.transition import Fence, Transition
from euterpe.store.tables import inbox_jobs, job_attempts

_job, _attempt = inbox_jobs.c, job_attempts.c


@dataclass(frozen=True)
class ClaimedJob:
    """A job that this worker owns until the lease expires."""

    job_id: str
    requester_id: str
    attempt_id: str
    claim_version: int
    worker_id: str
    lease_ms: int
    lease_expires_at: int  # a time of the database's clock
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
class ClaimRequest:
    """A worker's request for up to `limit` jobs from its queues, in the order of `queues`.

    A request with a `claim_id` may be repeated when its answer was lost. The id must be unique over all
    workers, because every request with the same id gets the same jobs.
    """

    worker_id: str
    limit: int
    queues: Sequence[str] = ("default",)
    lease_ms: int = 60_000
    claim_id: str | None = None

    def __post_init__(self) -> None:
        check_name(self.worker_id, "worker_id")
        check_count(self.limit, "limit", 1, MAX_BATCH)
        check_count(self.lease_ms, "lease_ms", 1, WEEK_MS)
        if self.claim_id is not None:
            check_name(self.claim_id, "claim_id")
        # `tuple` would split a single string into one queue per letter.
        queues = (self.queues,) if isinstance(self.queues, str) else tuple(dict.fromkeys(self.queues))
        for queue in queues:
            check_text("queue", queue, "queues")
        object.__setattr__(self, "queues", queues)


class ClaimResult(NamedTuple):
    """The jobs of a request.

    If `is_repetition` is true, the claim id was used before. Then `jobs` contains only those jobs of the
    earlier claim that are still held.
    """

    jobs: list[ClaimedJob]
    is_repetition: bool = False


class Claims:
    """Take jobs for requests, all in one transaction. Every request gets its own list of jobs."""

    def __init__(self, database: Database, transitions: JobTransitions) -> None:
        self._database, self._transitions = database, transitions
        self._picker = JobPicker(transitions.jobs, transitions.admission.shares, _CLAIMED)
        wanted = sa.select(Rows({"claim_id": TEXT})["claim_id"])
        # Read no large column, because thousands of workers may repeat their claims at once after a restart.
        self._attempts = (
            sa.select(
                _attempt.claim_id,
                _attempt.attempt_id,
                _attempt.job_id,
                _attempt.claim_version,
                _attempt.ended_at,
            )
            .where(_attempt.claim_id.in_(wanted), _attempt.claim_id.is_not(None))
            # Name the index: after an ANALYZE that saw no claim_id, SQLite would scan all attempts.
            .with_hint(job_attempts, "INDEXED BY attempts_claim_id", "sqlite")
        )

    def take(
        self, requests: Sequence[ClaimRequest], unsure: Sequence[ClaimRequest] = ()
    ) -> list[ClaimResult]:
        """Return the jobs of each request, in order; start and count an attempt of each new job.

        Requests with the same `claim_id` get the same jobs. If the attempts of a `claim_id` have all ended,
        its requests get nothing. A request in `unsure` gets only the jobs of an earlier claim with its
        `claim_id`. The results of `unsure` come after the results of `requests`.
        """
        with self._database.transaction() as connection:
            known = self._known(connection, requests, unsure)
            fresh = _without_repetitions(requests, known)
            picked = self._pick(connection, fresh)
            taken = self._claim(connection, fresh, picked)
        by_id = {claim_id: ClaimResult(jobs, is_repetition=True) for claim_id, jobs in known.items()}
        by_id |= {
            request.claim_id: ClaimResult(jobs)
            for request, jobs in zip(fresh, taken, strict=True)
            if request.claim_id is not None
        }
        others = iter(jobs for request, jobs in zip(fresh, taken, strict=True) if request.claim_id is None)
        return [
            by_id[request.claim_id] if request.claim_id is not None else ClaimResult(next(others))
            for request in requests
        ] + [by_id.get(request.claim_id or "", ClaimResult([])) for request in unsure]

    def _known(
        self, connection: sa.Connection, requests: Sequence[ClaimRequest], unsure: Sequence[ClaimRequest]
    ) -> dict[str, list[ClaimedJob]]:
        """Return the jobs of earlier claims with these claim ids, by claim id, and extend their leases.

        A job that is not held any more is left out. First wait for other transactions that use a claim id of
        `requests` now. Otherwise two transactions with the same id on Postgres would both find no earlier
        claim.
        """
        claiming = [request.claim_id for request in requests if request.claim_id is not None]
        of_id = {one.claim_id: one for one in (*unsure, *requests) if one.claim_id is not None}
        if not of_id:
            return {}
        if claiming:
            self._database.lock_names(connection, claiming)
        ids = as_parameter({"claim_id": name} for name in of_id)
        found = sorted(fetch_all(connection.execute(self._attempts, ids)), key=attrgetter("attempt_id"))
        begun = [row for row in found if row.ended_at is None]
        extensions = {Extension(row.job_id, row.claim_version, of_id[row.claim_id].lease_ms) for row in begun}
        held = {
            row.job_id: row for row in self._transitions.jobs.heartbeat(connection, extensions, revive=True)
        }
        jobs = self._jobs(connection, list(held))
        known: dict[str, list[ClaimedJob]] = {row.claim_id: [] for row in found}
        for row in begun:
            if row.job_id in held:
                job = jobs[row.job_id]
                fence = (row.attempt_id, row.claim_version, job.attempt_count)
                attempt = _OpenAttempt(*fence, held[row.job_id].lease_expires_at)
                known[row.claim_id].append(_claimed(job, of_id[row.claim_id], attempt, None))
        return known

    def _jobs(self, connection: sa.Connection, job_ids: Sequence[str]) -> dict[str, AnyRow]:
        """Return these jobs by id. Their specs are large, so read a few at a time."""
        some = self._database.engines.read_limit
        return {
            row.job_id: row
            for start in range(0, len(job_ids), some)
            for row in fetch_all(
                connection.execute(_HELD.where(_job.job_id.in_(job_ids[start : start + some])))
            )
        }

    def _pick(self, connection: sa.Connection, requests: Sequence[ClaimRequest]) -> list[list[AnyRow]]:
        """Lock and return the next jobs for each request.

        Serve the first queue of every request, then the second queue of every request, and so on. Among
        requests for the same queue, serve the earlier request first. Pick all jobs before the first write,
        because two rounds of writes would lock groups in two rounds, and could deadlock (groups.py).
        """
        picked: list[list[AnyRow]] = [[] for _ in requests]
        lines: dict[str, _Line] = {}
        room = min(MAX_BATCH, self._database.engines.read_limit)
        for place in range(max((len(request.queues) for request in requests), default=0)):
            for queue, numbers in _waiting_at(place, requests, picked).items():
                wanted = sum(requests[number].limit - len(picked[number]) for number in numbers)
                line = lines.setdefault(queue, _Line(queue))
                rows = line.next(connection, self._picker, min(wanted, room))
                room -= len(rows)
                for number in numbers:
                    share = requests[number].limit - len(picked[number])
                    picked[number] += rows[:share]
                    rows = rows[share:]
        return picked

    def _claim(
        self,
        connection: sa.Connection,
        requests: Sequence[ClaimRequest],
        picked: Sequence[Sequence[AnyRow]],
    ) -> list[list[ClaimedJob]]:
        count = sum(map(len, picked))
        ids, owners_differ = iter(new_ids(count) if count else ()), len(requests) > 1
        claims = [
            [_claim_of(row, request, next(ids), owners_differ=owners_differ) for row in rows]
            for request, rows in zip(requests, picked, strict=True)
        ]
        held = self._transitions.apply(connection, [claim for some in claims for claim in some])
        return [
            [
                _newly_claimed(row, request, claim, held[row.job_id])
                for row, claim in zip(rows, some, strict=True)
                if row.job_id in held
            ]
            for request, rows, some in zip(requests, picked, claims, strict=True)
        ]


class _Line:
    """The jobs that one transaction has picked from a queue.

    A transaction does not skip rows that it has locked itself, so a second pick returns the same jobs again,
    and further jobs.
    """

    def __init__(self, queue: str) -> None:
        self._queue, self._seen, self._is_empty = queue, set[str](), False

    def next(self, connection: sa.Connection, picker: JobPicker, count: int) -> list[AnyRow]:
        """Return up to `count` jobs that were not returned before."""
        if self._is_empty or count == 0:
            return []
        found = picker.pick(connection, self._queue, count + len(self._seen))
        self._is_empty = len(found) < count + len(self._seen)
        rows = [row for row in found if row.job_id not in self._seen][:count] if self._seen else found
        self._seen.update(row.job_id for row in rows)
        return rows


def _without_repetitions(requests: Sequence[ClaimRequest], known: Mapping[str, object]) -> list[ClaimRequest]:
    """Return the requests that may take new jobs.

    Leave out a request whose `claim_id` was used by an earlier claim or by an earlier request.
    """
    seen, fresh = set(known), []
    for request in requests:
        if request.claim_id is None:
            fresh.append(request)
        elif request.claim_id not in seen:
            seen.add(request.claim_id)
            fresh.append(request)
    return fresh


def _waiting_at(
    place: int, requests: Sequence[ClaimRequest], picked: Sequence[Sequence[AnyRow]]
) -> dict[str, list[int]]:
    """Return a map from each queue to the requests that need more jobs and list this queue at `place`.

    A request is given by its index.
    """
    waiting: dict[str, list[int]] = {}
    for number, request in enumerate(requests):
        if place < len(request.queues) and len(picked[number]) < request.limit:
            waiting.setdefault(request.queues[place], []).append(number)
    return waiting


_CLAIMED = (
    _job.job_id,
    _job.claim_version,
    _job.max_attempts,
    _job.refresh_count,
    _job.credential_version,
    _job.spec,
    *CONTEXT_COLUMNS,
)


_HELD = sa.select(_job.attempt_count, _job.priority, *_CLAIMED)


def _claim_of(row: AnyRow, request: ClaimRequest, attempt_id: str, *, owners_differ: bool) -> Transition:
    return Transition.claim(
        Fence(row.job_id, row.claim_version, JobStatus.QUEUED),
        JobStatus.CLAIMED,
        worker_id=request.worker_id,
        lease_ms=request.lease_ms,
        context=context_of(row),
        attempt_id=attempt_id,
        claim_id=request.claim_id,
        hold_ms=_hold_ms(row.spec),
        owners_differ=owners_differ,
    )


def _hold_ms(spec: Json) -> int | None:
    """Return how long a worker may hold a job, or None if the timeout is one of another release."""
    timeout_s = spec.get("timeout_seconds")
    if isinstance(timeout_s, int | float) and 0 <= timeout_s <= LONGEST_TIMEOUT_S:
        return int(timeout_s * 1_000) + END_GRACE_MS
    return None


def _newly_claimed(row: AnyRow, request: ClaimRequest, claim: Transition, written: AnyRow) -> ClaimedJob:
    # The claim has set `updated_at` and the lease from the same reading of the clock, so this sum is the end
    # of the lease.
    lease_expires_at = written.updated_at + request.lease_ms
    attempt = _OpenAttempt(
        str(claim.attempt_id), written.claim_version, written.attempt_count, lease_expires_at
    )
    return _claimed(row, request, attempt, claim.context)


class _OpenAttempt(NamedTuple):
    attempt_id: str
    claim_version: int
    attempt_count: int
    lease_expires_at: int


def _claimed(
    row: AnyRow, request: ClaimRequest, attempt: _OpenAttempt, context: EventContext | None
) -> ClaimedJob:
    return ClaimedJob(
        job_id=row.job_id,
        requester_id=row.requester_id,
        worker_id=request.worker_id,
        lease_ms=request.lease_ms,
        max_attempts=row.max_attempts,
        refresh_count=row.refresh_count,
        credential_version=row.credential_version,
        queue=row.queue,
        priority=row.priority,
        group_id=row.group_id,
        spec=row.spec,
        context=context or context_of(row),
        **attempt._asdict(),
    )
