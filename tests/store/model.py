"""The inbox as a page of plain Python: what the store must do, without a database."""

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
    told: list[JobStatus] = field(default_factory=list)

    def move(self, target: JobStatus) -> None:
        assert target in JOB_TRANSITIONS[self.status], "valid-transitions"
        self.status = target
        self.told.append(target)
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
        self._line_up(job, now)

    def _line_up(self, job: ModelJob, now: int) -> None:
        """Where a queued job waits."""
        if job.available_at > now:
            job.lane = Lane.DELAYED
        else:
            job.lane = Lane.READY if job.group is None else Lane.BLOCKED
        self.admit()

    def admit(self) -> None:
        for (queue, group), limit in self.limits.items():
            members = [j for j in self.jobs.values() if (j.queue, j.group) == (queue, group)]
            ready = [j for j in members if j.lane is Lane.READY]
            at_work = [j for j in members if j.lane is Lane.LEASED]
            blocked = [j for j in members if j.lane is Lane.BLOCKED]
            if blocked and not ready and len(at_work) < limit:
                min(blocked, key=lambda j: (j.created_at, j.job_id)).lane = Lane.READY

    def promote(self, now: int) -> None:
        for job in self.jobs.values():
            if job.lane is Lane.DELAYED and job.available_at <= now:
                job.lane = Lane.READY if job.group is None else Lane.BLOCKED
        self.admit()

    def expired(self, now: int) -> list[ModelJob]:
        return [j for j in self.jobs.values() if j.lease_ends is not None and j.lease_ends < now]

    def claimable(self, queues: tuple[str, ...], limit: int) -> list[ModelJob]:
        """Return jobs that may be claimed next. Among equals the order is that of becoming ready."""
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
        # Handed back without a delay it is in line at once, whatever it once waited for.
        job.lane = Lane.REST
        self._line_up(job, now)

    def retry(self, job: ModelJob, now: int) -> None:
        job.move(JobStatus.QUEUED)
        job.canceling, job.available_at = False, now
        # Of a group, it is in line again at the next tidying.
        job.lane = Lane.DELAYED

    def fail(self, job: ModelJob, *, bury: bool = False) -> None:
        job.move(JobStatus.FAILED)
        if bury:
            job.move(JobStatus.DEAD_LETTER)
        self.admit()

    def cancel_queued(self, job: ModelJob) -> None:
        job.version += 1
        job.move(JobStatus.CLAIMED)
        self.fail(job)
