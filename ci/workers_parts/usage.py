"""The CPU seconds, requests and transactions that a fleet of workers uses during a measurement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

# The contract with remote workers allows one transaction for this number of heartbeats.
_BEATS_OF_A_TRANSACTION = 10


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Counters that only increase. The difference of two `Usage` values is the usage between their times."""

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
        """Return the CPU use of the simulated workers in cores. Near 1, the workers are the bottleneck."""
        return self.fleet_cpu / self.seconds

    @property
    def api_ms_per_request(self) -> float:
        return 1000 * self.api_cpu / self.requests

    @property
    def postgres_ms_per_request(self) -> float:
        return 1000 * self.postgres_cpu / self.requests

    @property
    def transactions_per_life(self) -> float:
        """Return the transactions per job, after subtracting one transaction for each ten heartbeats."""
        return (self.transactions - self.beats / _BEATS_OF_A_TRANSACTION) / self.ended

    @property
    def writes_per_life(self) -> float:
        return self.writes / self.ended


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the percentile by nearest rank: `percent` % of the values are not larger than this value."""
    ordered = sorted(values)
    rank = -(-percent * len(ordered) // 100)
    return ordered[max(rank, 1) - 1]


def claims_in(log: str) -> int:
    """Return the number of queries for claimable jobs in the log of a Postgres server.

    The server must log all statements. In a log entry of several lines, each line after the first begins with
    a tab.
    """
    entries = log.replace("\n\t", " ").splitlines()
    # Claims and sweeps use SKIP LOCKED, but only claims also read `paused_at`. So search each entry for the
    # two texts.
    return sum("SKIP LOCKED" in entry and "paused_at" in entry for entry in entries)
