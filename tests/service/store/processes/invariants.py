"""The books of a database, read as a whole when all is over, and the invariants that they must show."""

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
class Life:
    job: Any
    events: list[Any] = field(default_factory=list)
    attempts: list[Any] = field(default_factory=list)

    @property
    def told(self) -> list[JobStatus]:
        return [JobStatus(event.type.removeprefix("job.")) for event in self.events]

    def told_by_claim(self) -> dict[int, list[JobStatus]]:
        """What happened under each claim_version, after the claim itself."""
        chapters: list[list[JobStatus]] = []
        for status in self.told:
            if status is JobStatus.CLAIMED:
                chapters.append([])
            else:
                chapters[-1].append(status)
        versions = [attempt.claim_version for attempt in self.attempts]
        return dict(zip(versions, chapters, strict=True))


def read_lives(store: Store) -> dict[str, Life]:
    with store.database.snapshot() as connection:
        jobs = connection.execute(sa.select(inbox_jobs)).all()
        event = job_outbox_events.c
        told = sa.select(event.job_id, event.type, event.sequence).order_by(event.sequence)
        events = connection.execute(told)
        attempts = connection.execute(sa.select(job_attempts).order_by(job_attempts.c.claim_version))
        lives = {job.job_id: Life(job) for job in jobs}
        for row in events:
            assert row.job_id in lives, "event-per-transition: an event of no job"
            lives[row.job_id].events.append(row)
        for row in attempts:
            lives[row.job_id].attempts.append(row)
    return lives


def unfinished(store: Store) -> bool:
    """Whether a job waits or is at work."""
    lane = inbox_jobs.c.lane
    with store.database.snapshot() as connection:
        lanes = set(connection.execute(sa.select(lane).distinct().where(lane != Lane.REST)).scalars())
    assert lanes != {Lane.BLOCKED}, "jobs wait for their place in a group where nobody is at work"
    return bool(lanes)


def check_lives(lives: Mapping[str, Life]) -> None:
    """Of jobs that are all over."""
    check_stories(lives)
    for job_id, life in lives.items():
        _check_rest(job_id, life)


def check_stories(lives: Mapping[str, Life]) -> None:
    for job_id, life in lives.items():
        _check_story(job_id, life)


def _check_story(job_id: str, life: Life) -> None:
    told = life.told
    sequences = [event.sequence for event in life.events]
    assert sequences == list(range(1, len(told) + 1)), f"event-per-transition: {job_id} has {sequences}"
    assert life.job.event_sequence == len(told), f"event-per-transition: {job_id}"
    for source, target in pairwise([JobStatus.QUEUED, *told]):
        assert target in JOB_TRANSITIONS[source], f"valid-transitions: {job_id} told {told}"
    is_now = [JobStatus.QUEUED, *told][-1]
    assert is_now == life.job.status, f"event-per-transition: {job_id} is {life.job.status}, told {told}"
    ends = [status for status in told if status in TERMINAL]
    assert len(ends) <= 1, f"terminal-forever: {job_id} ended as {ends}"
    given_back = sum(attempt.outcome == "released" for attempt in life.attempts)
    assert life.job.attempt_count == len(life.attempts) - given_back, f"budget: {job_id}"
    assert life.job.attempt_count <= life.job.max_attempts, f"budget: {job_id}"


def _check_rest(job_id: str, life: Life) -> None:
    job = life.job
    assert job.lane == Lane.REST, f"{job_id} is {job.status} still"
    lease = (job.worker_id, job.lease_expires_at, job.heartbeat_at)
    assert lease == (None, None, None), f"no-lease-at-rest: {job_id} has {lease}"
    assert len(life.attempts) == life.told.count(JobStatus.CLAIMED), f"budget: {job_id}"
    assert all(attempt.ended_at is not None for attempt in life.attempts), f"nothing-left: {job_id}"
    if job.status == JobStatus.DEAD_LETTER:
        assert job.attempt_count == job.max_attempts, f"budget: {job_id} was given up too early"


class Ledger:
    """What the workers say that they did."""

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

    def check(self, lives: Mapping[str, Life], *, complete: bool) -> None:
        """Against what the database knows. Where workers were killed they could not always say what
        they had done: then it is not `complete`."""
        told = {job_id: life.told_by_claim() for job_id, life in lives.items()}
        attempts = {(a.job_id, a.claim_version): a for life in lives.values() for a in life.attempts}
        for pair, owners in self.owners.items():
            assert len(owners) == 1, f"one-owner: {pair} was held by {owners}"
            assert attempts[pair].worker_id == owners[0], f"one-owner: {pair}"
        if complete:
            assert set(attempts) == set(self.owners), "one-owner: claims that nobody made"
        for pair, attempt in attempts.items():
            job_id, version = pair
            swept = attempt.outcome == "lease_expired"
            stayed = _without_sweep(told[job_id][version]) if swept else told[job_id][version]
            said = self.accepted[pair]
            # Each write that was accepted is in the chapter of its own claim, in its order: none of
            # them came late, and no event tells of a write that nobody made.
            agrees = said == stayed if complete else said == stayed[: len(said)]
            assert agrees, f"fenced-writes: under {pair} was told {stayed}, written {said}; {attempt.outcome}"


def _without_sweep(told: Sequence[JobStatus]) -> Sequence[JobStatus]:
    spent = [JobStatus.FAILED, JobStatus.DEAD_LETTER]
    return told[:-2] if told[-2:] == spent else told[:-1]


def check_group_limits(lives: Iterable[Life], limits: Mapping[str, int]) -> None:
    attempts: defaultdict[str, list[Any]] = defaultdict(list)
    for life in lives:
        if life.job.group_id is not None:
            attempts[life.job.group_id] += life.attempts
    assert attempts.keys() == limits.keys()
    for group, of_group in attempts.items():
        for one in of_group:
            at_work = sum(other.started_at <= one.started_at < other.ended_at for other in of_group)
            assert at_work <= limits[group], f"{group} had {at_work} at work, its limit is {limits[group]}"


def check_group_order(lives: Iterable[Life], producer_of: Mapping[str, str]) -> None:
    """First in, first out, as far as one producer's jobs are concerned: two of them race."""
    lines: defaultdict[tuple[str, str], list[Any]] = defaultdict(list)
    for life in lives:
        if life.job.group_id is not None:
            lines[life.job.group_id, producer_of[life.job.job_id]].append(life)
    for line, jobs in lines.items():
        jobs.sort(key=lambda life: (life.job.created_at, life.job.job_id))
        starts = [life.attempts[0].started_at for life in jobs]
        assert starts == sorted(starts), f"{line} did not start in its order"


def check_integrity(store: Store) -> None:
    """The file, where the engine is a file."""
    if store.database.kind is EngineKind.POSTGRES:
        return
    with store.database.snapshot() as connection:
        assert connection.exec_driver_sql("PRAGMA integrity_check").scalars().all() == ["ok"]
