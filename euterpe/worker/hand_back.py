"""Handing a job back without a charge: why, how long it then pauses, and how often that may happen."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from euterpe.domain.retry import Backoff, RetryClass
from euterpe.store.inbox import ClaimedJob

# What a job could bring about by itself, again and again: a helper that it breaks, a child that it kills.
LIMITED_CODES = frozenset({"sandbox_failed", "encode_killed", "worker_exhausted", "worker_broken"})


@dataclass(frozen=True)
class HandBackPolicy:
    """Bound what a job can cost that is never charged."""

    most_free: int = 5  # of each job, for codes of `LIMITED_CODES`; from then on they are charged
    # What this worker lacks, another may have: a key that is being rolled out, a disk with room.
    first_pause_ms: int = 5_000
    # A key may be lost for good: so often, at least, such a job is tried once more.
    longest_pause_ms: int = 300_000

    def pause_ms(self, job: ClaimedJob) -> int:
        """Return a pause that grows with each claim of the job that has cost it no attempt: the versions
        count them all."""
        given_back = job.claim_version - job.attempt_count
        backoff = Backoff(self.first_pause_ms, self.longest_pause_ms)
        draw = random.random()  # noqa: S311  jitter, not a secret
        return backoff.delay_ms(given_back + 1, RetryClass.TRANSIENT, draw)

    def is_spent(self, attempts: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether the job was handed back so often that its next hand-back is charged."""
        return limited(attempts) >= self.most_free


def limited(attempts: Sequence[Mapping[str, Any]]) -> int:
    """Count the attempts that were handed back for a code of `LIMITED_CODES`.

    Over the whole job: counted since the last charge, a job with three attempts ran eighteen times.
    """
    released = [attempt for attempt in attempts if attempt["outcome"] == "released" and attempt["error"]]
    return sum(attempt["error"]["code"] in LIMITED_CODES for attempt in released)
