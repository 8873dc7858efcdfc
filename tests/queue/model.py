"""A model of a queue in plain Python, against which `euterpe.queue` is tested."""

from dataclasses import dataclass, field

TIMEOUT_MS, BACKOFF_MS = 5_000, 700


@dataclass
class ModelJob:
    job_id: str
    group: str | None
    max_attempts: int
    available_at: int
    place: int
    status: str = "queued"
    lane: str = "ready"
    attempts: int = 0
    token: str | None = None
    lease_ends: int | None = None

    @property
    def turn(self) -> tuple[int, int]:
        return self.available_at, self.place


@dataclass
class Model:
    jobs: dict[str, ModelJob] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    is_paused: bool = False

    def publish(self, job: ModelJob, now: int, due: int, limit: int) -> None:
        if job.job_id in self.jobs:
            return
        if job.group is not None:
            self.limits.setdefault(job.group, limit or 1)
        self.jobs[job.job_id] = job
        job.available_at = max(now, due)
        self._wait(job, is_delayed=due > now)

    def _wait(self, job: ModelJob, *, is_delayed: bool) -> None:
        job.status, job.token, job.lease_ends = "queued", None, None
        waiting = "ready" if job.group is None else "blocked"
        job.lane = "delayed" if is_delayed else waiting
        self.admit()

    def admit(self) -> None:
        for group, limit in self.limits.items():
            members = [job for job in self.jobs.values() if job.group == group]
            blocked = [job for job in members if job.lane == "blocked"]
            running = sum(job.lane == "leased" for job in members)
            if blocked and running < limit and not any(job.lane == "ready" for job in members):
                min(blocked, key=lambda job: job.turn).lane = "ready"

    def next(self) -> ModelJob | None:
        ready = [job for job in self.jobs.values() if job.lane == "ready"]
        return min(ready, key=lambda job: job.turn, default=None)

    def claim(self, job: ModelJob, token: str, now: int) -> None:
        assert job.attempts < job.max_attempts
        job.status, job.lane, job.token = "claimed", "leased", token
        job.lease_ends = now + TIMEOUT_MS
        job.attempts += 1
        self.admit()

    def finish(self, job: ModelJob, status: str) -> None:
        job.status, job.lane, job.token, job.lease_ends = status, "rest", None, None
        self.admit()

    def fail(self, job: ModelJob, now: int) -> None:
        if job.attempts >= job.max_attempts:
            self.finish(job, "failed")
        else:
            job.available_at = now + BACKOFF_MS
            self._wait(job, is_delayed=True)

    def promote(self, now: int) -> int:
        due = [job for job in self.jobs.values() if job.lane == "delayed" and job.available_at <= now]
        for job in due:
            job.lane = "ready" if job.group is None else "blocked"
        self.admit()
        return len(due)

    def reap(self, now: int) -> int:
        expired = [job for job in self.jobs.values() if job.lease_ends is not None and job.lease_ends < now]
        # Reap all expired jobs before the groups admit their next jobs, as one transaction does.
        for job in expired:
            job.lane, job.lease_ends = "reaped", None
        for job in expired:
            job.token = None
            if job.attempts >= job.max_attempts:
                job.status, job.lane = "failed", "rest"
            else:
                job.status, job.lane, job.available_at = "queued", "delayed", now + BACKOFF_MS
        self.admit()
        return len(expired)
