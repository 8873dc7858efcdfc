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

    most_in_a_row: int = 5  # for codes of `LIMITED_CODES`; the next one is charged
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
        """Return whether the job was handed back so often in a row that its next hand-back is charged."""
        return limited_in_a_row(attempts) >= self.most_in_a_row


def limited_in_a_row(attempts: Sequence[Mapping[str, Any]]) -> int:
    """Count the latest ended attempts that were handed back for a code of `LIMITED_CODES`. A drain in between
    counts as nothing."""
    count = 0
    for attempt in reversed([attempt for attempt in attempts if attempt["ended_at"] is not None]):
        if attempt["outcome"] != "released":
            break
        if attempt["error"] is not None and attempt["error"]["code"] in LIMITED_CODES:
            count += 1
    return count
