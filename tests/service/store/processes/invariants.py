"""Checks of the invariants on all jobs, events and attempts of a database after a run."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import sqlalchemy as sa

from euterpe.domain.states import JOB_TRANSITIONS, JobStatus, Lane
from euterpe.store.engine.engines import EngineKind
from euterpe.store.store import Store
from euterpe.store.tables import inbox_jobs, job_attempts, job_outbox_events
from tests.service.store.processes.child_tasks import Accepted, Claimed, Pair, Refused

TERMINAL = (JobStatus.SUCCEEDED, JobStatus.DEAD_LETTER)


@dataclass
class JobLife:
    job: Any
    events: list[Any] = field(default_factory=list)
    attempts: list[Any] = field(default_factory=list)

    @property
    def statuses(self) -> list[JobStatus]:
        return [JobStatus(event.type.removeprefix("job.")) for event in self.events]

    def statuses_by_claim(self) -> dict[int, list[JobStatus]]:
        """Return the statuses that followed each claim, by claim version."""
        by_claim: list[list[JobStatus]] = []
        for status in self.statuses:
            if status is JobStatus.CLAIMED:
                by_claim.append([])
            else:
                by_claim[-1].append(status)
        versions = [attempt.claim_version for attempt in self.attempts]
        return dict(zip(versions, by_claim, strict=True))


def read_lives(store: Store) -> dict[str, JobLife]:
    with store.database.snapshot() as connection:
        jobs = connection.execute(sa.select(inbox_jobs)).all()
        event = job_outbox_events.c
        wanted = sa.select(event.job_id, event.type, event.sequence).order_by(event.sequence)
        events = connection.execute(wanted)
        attempts = connection.execute(sa.select(job_attempts).order_by(job_attempts.c.claim_version))
        lives = {job.job_id: JobLife(job) for job in jobs}
        for row in events:
            assert row.job_id in lives, "event-per-transition: an event of no job"
            lives[row.job_id].events.append(row)
        for row in attempts:
            lives[row.job_id].attempts.append(row)
    return lives


def unfinished(store: Store) -> bool:
    """Return whether a job waits or runs."""
    lane = inbox_jobs.c.lane
    with store.database.snapshot() as connection:
        lanes = set(connection.execute(sa.select(lane).distinct().where(lane != Lane.REST)).scalars())
    assert lanes != {Lane.BLOCKED}, "jobs are blocked in a group where no job runs"
    return bool(lanes)


def check_lives(lives: Mapping[str, JobLife]) -> None:
    """Check all invariants. All jobs must be finished."""
    check_events(lives)
    for job_id, life in lives.items():
        _check_rest(job_id, life)


def check_events(lives: Mapping[str, JobLife]) -> None:
    for job_id, life in lives.items():
        _check_events_of(job_id, life)


def _check_events_of(job_id: str, life: JobLife) -> None:
    statuses = life.statuses
    sequences = [event.sequence for event in life.events]
    assert sequences == list(range(1, len(statuses) + 1)), f"event-per-transition: {job_id} has {sequences}"
    assert life.job.event_sequence == len(statuses), f"event-per-transition: {job_id}"
    for source, target in pairwise([JobStatus.QUEUED, *statuses]):
        assert target in JOB_TRANSITIONS[source], f"valid-transitions: {job_id} has {statuses}"
    last = [JobStatus.QUEUED, *statuses][-1]
    assert last == life.job.status, f"event-per-transition: {job_id} is {life.job.status}, not {last}"
    ends = [status for status in statuses if status in TERMINAL]
    assert len(ends) <= 1, f"terminal-forever: {job_id} ended as {ends}"
    given_back = sum(attempt.outcome == "released" for attempt in life.attempts)
    assert life.job.attempt_count == len(life.attempts) - given_back, f"budget: {job_id}"
    assert life.job.attempt_count <= life.job.max_attempts, f"budget: {job_id}"


def _check_rest(job_id: str, life: JobLife) -> None:
    job = life.job
    assert job.lane == Lane.REST, f"{job_id} is still {job.status}"
    lease = (job.worker_id, job.lease_expires_at, job.heartbeat_at)
    assert lease == (None, None, None), f"no-lease-at-rest: {job_id} has {lease}"
    assert len(life.attempts) == life.statuses.count(JobStatus.CLAIMED), f"budget: {job_id}"
    assert all(attempt.ended_at is not None for attempt in life.attempts), f"nothing-left: {job_id}"
    if job.status == JobStatus.DEAD_LETTER:
        assert job.attempt_count == job.max_attempts, f"budget: {job_id} was given up too early"


class Ledger:
    """The claims and writes that the workers reported."""

    def __init__(self) -> None:
        self.claims: list[tuple[str, Sequence[Pair]]] = []
        self.owners: defaultdict[Pair, list[str]] = defaultdict(list)
        self.accepted: defaultdict[Pair, list[str]] = defaultdict(list)
        self.refused: Counter[Pair] = Counter()

    def note(self, worker: str, message: object) -> None:
        match message:
            case Claimed(pairs):
                self.claims.append((worker, pairs))
                for pair in pairs:
                    self.owners[pair].append(worker)
            case Accepted(pair, statuses):
                self.accepted[pair] += statuses
            case Refused(pair):
                self.refused[pair] += 1
            case _:
                pass

    def check(self, lives: Mapping[str, JobLife], *, complete: bool) -> None:
        """Compare the reports with the database.

        Pass `complete=False` if workers were killed, because some of their reports may be missing.
        """
        found = {job_id: life.statuses_by_claim() for job_id, life in lives.items()}
        attempts = {(a.job_id, a.claim_version): a for life in lives.values() for a in life.attempts}
        for pair, owners in self.owners.items():
            assert len(owners) == 1, f"one-owner: {pair} was held by {owners}"
            assert attempts[pair].worker_id == owners[0], f"one-owner: {pair}"
        if complete:
            assert set(attempts) == set(self.owners), "one-owner: claims that nobody made"
        for pair, attempt in attempts.items():
            job_id, version = pair
            swept = attempt.outcome == "lease_expired"
            expected = _without_sweep(found[job_id][version]) if swept else found[job_id][version]
            reported = self.accepted[pair]
            # The statuses after a claim must be the accepted writes of that claim, in order. This shows that
            # the store accepted no stale write, and that every event belongs to a write.
            agrees = reported == expected if complete else reported == expected[: len(reported)]
            assert agrees, f"fenced-writes: {pair} has {expected}, reported {reported}; {attempt.outcome}"


def _without_sweep(statuses: Sequence[JobStatus]) -> Sequence[JobStatus]:
    spent = [JobStatus.FAILED, JobStatus.DEAD_LETTER]
    return statuses[:-2] if statuses[-2:] == spent else statuses[:-1]


def check_group_limits(lives: Iterable[JobLife], limits: Mapping[str, int]) -> None:
    attempts: defaultdict[str, list[Any]] = defaultdict(list)
    for life in lives:
        if life.job.group_id is not None:
            attempts[life.job.group_id] += life.attempts
    assert attempts.keys() == limits.keys()
    for group, of_group in attempts.items():
        for one in of_group:
            running = sum(other.started_at <= one.started_at < other.ended_at for other in of_group)
            assert running <= limits[group], f"{group} had {running} running, its limit is {limits[group]}"


def check_group_order(lives: Iterable[JobLife], producer_of: Mapping[str, str]) -> None:
    """Check that each group starts the jobs of one producer in order.

    The order of jobs of different producers is not checked.
    """
    lines: defaultdict[tuple[str, str], list[Any]] = defaultdict(list)
    for life in lives:
        if life.job.group_id is not None:
            lines[life.job.group_id, producer_of[life.job.job_id]].append(life)
    for line, jobs in lines.items():
        jobs.sort(key=lambda life: (life.job.created_at, life.job.job_id))
        starts = [life.attempts[0].started_at for life in jobs]
        assert starts == sorted(starts), f"{line} did not start in order"


def check_integrity(store: Store) -> None:
    """Check the database file for damage, on SQLite and libSQL."""
    if store.database.kind is EngineKind.POSTGRES:
        return
    with store.database.snapshot() as connection:
        assert connection.exec_driver_sql("PRAGMA integrity_check").scalars().all() == ["ok"]
