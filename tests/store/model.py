"""A model of the inbox in plain Python, against which the store is tested."""

from dataclasses import dataclass, field

from euterpe.domain.states import FINISHED, IN_PROGRESS, JOB_TRANSITIONS, JobStatus, Lane


@dataclass
class ModelJob:
    job_id: str
    queue: str
    group: str | None
    priority: int
    max_attempts: int
    created_at: int
    available_at: int
    status: JobStatus = JobStatus.QUEUED
    lane: Lane = Lane.READY
    version: int = 0
    attempts: int = 0
    lease_ends: int | None = None
    canceling: bool = False
    events: list[JobStatus] = field(default_factory=list)

    def move(self, target: JobStatus) -> None:
        assert target in JOB_TRANSITIONS[self.status], "valid-transitions"
        self.status = target
        self.events.append(target)
        if target in FINISHED:
            self.lane = Lane.REST
        if target not in IN_PROGRESS:
            self.lease_ends = None


class Model:
    def __init__(self) -> None:
        self.jobs: dict[str, ModelJob] = {}
        self.limits: dict[tuple[str, str], int] = {}
        self.paused: set[str] = set()

    def enqueue(self, job: ModelJob, now: int, limit: int) -> None:
        if job.group is not None:
            self.limits.setdefault((job.queue, job.group), limit)
        self.jobs[job.job_id] = job
        self._put_in_lane(job, now)

    def _put_in_lane(self, job: ModelJob, now: int) -> None:
        """Move a queued job to DELAYED, BLOCKED or READY. Then admit jobs of groups."""
        if job.available_at > now:
            job.lane = Lane.DELAYED
        else:
            job.lane = Lane.READY if job.group is None else Lane.BLOCKED
        self.admit()

    def admit(self) -> None:
        for (queue, group), limit in self.limits.items():
            members = [j for j in self.jobs.values() if (j.queue, j.group) == (queue, group)]
            ready = [j for j in members if j.lane is Lane.READY]
            running = [j for j in members if j.lane is Lane.LEASED]
            blocked = [j for j in members if j.lane is Lane.BLOCKED]
            if blocked and not ready and len(running) < limit:
                min(blocked, key=lambda j: (j.created_at, j.job_id)).lane = Lane.READY

    def promote(self, now: int) -> None:
        for job in self.jobs.values():
            if job.lane is Lane.DELAYED and job.available_at <= now:
                job.lane = Lane.READY if job.group is None else Lane.BLOCKED
        self.admit()

    def expired(self, now: int) -> list[ModelJob]:
        return [j for j in self.jobs.values() if j.lease_ends is not None and j.lease_ends < now]

    def claimable(self, queues: tuple[str, ...], limit: int) -> list[ModelJob]:
        """Return the jobs to claim next. Jobs of equal priority are ordered by the time they became ready."""
        found: list[ModelJob] = []
        for queue in queues:
            ready = [j for j in self.jobs.values() if j.queue == queue and j.lane is Lane.READY]
            if queue not in self.paused:
                found += sorted(ready, key=lambda j: (-j.priority, j.available_at, j.job_id))
        return found[:limit]

    def claim(self, job: ModelJob, lease_ends: int) -> None:
        assert job.attempts < job.max_attempts, "budget"
        assert job.lane is Lane.READY, "one-owner"
        job.move(JobStatus.CLAIMED)
        job.lane, job.lease_ends = Lane.LEASED, lease_ends
        job.version += 1
        job.attempts += 1
        self.admit()

    def requeue(self, job: ModelJob, now: int, available_at: int | None = None) -> None:
        job.move(JobStatus.QUEUED)
        job.canceling = False
        if available_at is not None:
            job.available_at = available_at
        # A job that is released without a delay moves to its new lane at once.
        job.lane = Lane.REST
        self._put_in_lane(job, now)

    def retry(self, job: ModelJob, now: int) -> None:
        job.move(JobStatus.QUEUED)
        job.canceling, job.available_at = False, now
        # The next sweep moves the job to READY, or to BLOCKED if it has a group.
        job.lane = Lane.DELAYED

    def fail(self, job: ModelJob, *, dead_letter: bool = False) -> None:
        job.move(JobStatus.FAILED)
        if dead_letter:
            job.move(JobStatus.DEAD_LETTER)
        self.admit()

    def cancel_queued(self, job: ModelJob) -> None:
        job.version += 1
        job.move(JobStatus.CLAIMED)
        self.fail(job)
