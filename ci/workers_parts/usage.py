"""What a fleet of workers uses in a stretch of time: CPU seconds, requests and transactions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

# The contract of workers allows one transaction for this many heartbeats.
_BEATS_OF_A_TRANSACTION = 10


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Counters that only rise. The difference of two readings is what was used between them."""

    seconds: float
    api_cpu: float
    postgres_cpu: float
    fleet_cpu: float
    transactions: int
    writes: int  # transactions that wrote
    requests: int
    beats: int
    ended: int  # jobs

    def __sub__(self, earlier: Usage) -> Usage:
        names = [field.name for field in fields(self)]
        return Usage(**{name: getattr(self, name) - getattr(earlier, name) for name in names})

    @property
    def api_share(self) -> float:
        """Return the CPU use of the API in cores."""
        return self.api_cpu / self.seconds

    @property
    def fleet_share(self) -> float:
        """Return the CPU use of the simulated workers in cores; near 1, they are the bottleneck."""
        return self.fleet_cpu / self.seconds

    @property
    def api_ms_per_request(self) -> float:
        return 1000 * self.api_cpu / self.requests

    @property
    def postgres_ms_per_request(self) -> float:
        return 1000 * self.postgres_cpu / self.requests

    @property
    def transactions_per_life(self) -> float:
        """Return the transactions of a job, without one for each ten heartbeats."""
        return (self.transactions - self.beats / _BEATS_OF_A_TRANSACTION) / self.ended

    @property
    def writes_per_life(self) -> float:
        return self.writes / self.ended


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the smallest value that is not exceeded by `percent` of the values (nearest rank)."""
    ordered = sorted(values)
    rank = -(-percent * len(ordered) // 100)
    return ordered[max(rank, 1) - 1]


def claims_in(log: str) -> int:
    """Return how often a claim looked for jobs, from the log of a Postgres server that logs all statements.

    An entry may have several lines: those after the first begin with a tab.
    """
    entries = log.replace("\n\t", " ").splitlines()
    # A claim also reads whether the queue is paused. A sweep does not.
    return sum("SKIP LOCKED" in entry and "paused_at" in entry for entry in entries)
