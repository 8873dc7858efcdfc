"""The parameters of a synthetic history. A plan always yields the same rows, in independent blocks."""

from collections.abc import Callable
from dataclasses import dataclass

from euterpe.analytics.errors import AnalyticsError

OnProgress = Callable[[int], object]  # called with the number of jobs generated so far

BLOCK = 10_000  # jobs
DAY_MS = 86_400_000
_MOST_JOBS = 1_000_000_000
# The last third of the history has a newer ffmpeg.
UPGRADED_AFTER = 2 / 3


@dataclass(frozen=True)
class HistoryPlan:
    """A history of `jobs` jobs of `requesters` requesters, accepted in the `days` before `until_ms`.

    With `regresses`, the newer ffmpeg is slower with one profile and fails twice as often with another.
    In every block, each of the `outages` makes 20 consecutive jobs of one profile fail with `outage_code`.
    """

    jobs: int
    seed: int
    until_ms: int
    days: int = 28
    requesters: int = 12
    regresses: bool = True
    outages: int = 0
    outage_code: str = "source_unreachable"

    def __post_init__(self) -> None:
        limits = {
            "jobs": (0, _MOST_JOBS),
            "seed": (0, 2**63 - 1),
            "days": (1, 3_660),
            "requesters": (1, 500),
            "outages": (0, 1_000),
        }
        for name, (least, most) in limits.items():
            if not least <= getattr(self, name) <= most:
                raise AnalyticsError(f"{name} must be from {least} to {most}, not {getattr(self, name)}")

    @property
    def since_ms(self) -> int:
        return self.until_ms - self.days * DAY_MS

    @property
    def upgraded_ms(self) -> int:
        return self.since_ms + int(self.days * DAY_MS * UPGRADED_AFTER)

    @property
    def blocks(self) -> int:
        return -(-self.jobs // BLOCK)

    def jobs_of(self, index: int) -> range:
        return range(index * BLOCK, min((index + 1) * BLOCK, self.jobs))
