"""How much the service takes on, of one requester and of all."""

from dataclasses import dataclass

from euterpe.domain.job_limits import NO_LIMITS, JobLimits


@dataclass(frozen=True, kw_only=True)
class ApiLimits:
    max_body_bytes: int = 262_144
    max_unfinished: int = 10_000  # jobs of one requester
    max_unfinished_of_all: int = 1_000_000
    waits_per_requester: int = 100  # event streams and long polls at once
    waits: int = 2_000
    of_a_job: JobLimits = NO_LIMITS
