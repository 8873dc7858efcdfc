"""Draw the accepted jobs of a block: one NumPy array per field, one entry per job."""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from euterpe.synthesize.customers import customer
from euterpe.synthesize.history_plan import Floats, HistoryPlan, Ints, arrivals


class EncodeProfile(NamedTuple):
    name: str | None  # None if the jobs list their outputs and name no profile
    # The share of all jobs that use this profile.
    share: float
    speed: float  # seconds of media encoded per second
    cores: float
    kbit_per_second: float  # total of all outputs
    outputs: int
    vmaf: float | None  # mean score
    failing: float  # the factor by which the probability of a failure of ffmpeg is multiplied


PROFILES = (
    EncodeProfile("h264-720p", 0.42, 6.0, 3.4, 2_400, 1, 93.5, 1.0),
    EncodeProfile("audio-aac", 0.14, 55.0, 1.0, 128, 1, None, 0.5),
    EncodeProfile("hevc-1080p", 0.16, 2.2, 3.8, 3_200, 1, 95.0, 1.0),
    EncodeProfile("av1-1080p", 0.08, 1.5, 3.9, 2_100, 1, 96.0, 1.5),
    EncodeProfile("hls-ladder", 0.14, 1.9, 3.9, 8_200, 1, 94.0, 4.0),
    EncodeProfile(None, 0.06, 4.0, 3.0, 3_000, 3, 94.5, 1.5),
)
# With the newer ffmpeg, one profile is encoded 12 % slower, and another profile fails twice as often.
SLOWER_SINCE, SLOWER = "hevc-1080p", 0.88
FAILS_MORE_SINCE, FAILS_MORE = "hls-ladder", 2.0
FFMPEG_BEFORE, FFMPEG_SINCE = "9.0.2", "9.1"


def of_each(field: str) -> npt.NDArray[np.float64]:
    """Return this field of every profile, as floats; None becomes NaN."""
    return np.array([getattr(profile, field) for profile in PROFILES], dtype=np.float64)


def only(name: str, factor: float) -> npt.NDArray[np.float64]:
    """Return `factor` for the profile `name` and 1 for all others."""
    return np.array([factor if profile.name == name else 1.0 for profile in PROFILES])


Bools = npt.NDArray[np.bool_]

QUEUES = ("default", "express", "bulk")
SCHEMES = ("s3", "gs", "az", "https", "file")
CONTAINERS = ("mov", "matroska", "mpegts", "avi")
_CONTAINER_SHARES = (0.66, 0.2, 0.11, 0.03)
_PRIORITIES = {"default": 50, "express": 80, "bulk": 10}
GROUPS = 40
# The exponent of Zipf's law: requester n has about 1/n of the jobs of the first requester.
_ZIPF = 1.1
_MEDIAN_SECONDS, _LONGEST_SECONDS = 150, 14_400
_MEDIAN_BITS = 8e6


@dataclass(frozen=True)
class JobColumns:
    """The jobs of a block; each field is an array with one entry per job."""

    created_ms: Ints
    not_before_ms: Ints  # 0 if the requester set no time
    requester: Ints
    profile: Ints
    queue: Ints
    priority: Ints
    group: Ints  # 0 if the job has no group
    max_attempts: Ints
    scheme: Ints
    container: Ints
    seconds: Floats  # multiples of 1/64, so that their sums are exact
    bytes: Ints
    refreshes: Bools
    hears_progress: Bools

    def __len__(self) -> int:
        return len(self.created_ms)


def draw_jobs(plan: HistoryPlan, index: int, rng: np.random.Generator) -> JobColumns:
    created = arrivals(plan, index, rng)
    count = len(created)
    shares, mixes = _shares(plan)
    requester = _choose(rng, count, shares)
    profile = (rng.random(count)[:, None] > mixes[requester]).sum(axis=1)
    of = [customer(number) for number in range(plan.requesters)]
    queue = np.array([QUEUES.index(one.queue) for one in of])[requester]
    usual = np.array([_PRIORITIES[name] for name in QUEUES])[queue]
    in_group = np.array([one.has_groups for one in of])[requester] & (rng.random(count) < 0.35)
    seconds = np.clip(rng.lognormal(np.log(_MEDIAN_SECONDS), 1.05, count), 1, _LONGEST_SECONDS)
    seconds = np.round(seconds * 64) / 64
    later = created + rng.integers(1_800_000, 8 * 3_600_000, count)
    return JobColumns(
        created_ms=created,
        not_before_ms=np.where(rng.random(count) < 0.01, later, 0),
        requester=requester,
        profile=profile,
        queue=queue,
        priority=np.where(rng.random(count) < 0.05, 90, usual),
        group=np.where(in_group, rng.integers(1, GROUPS + 1, count), 0),
        max_attempts=np.array([3, 5, 1])[_choose(rng, count, np.array([0.9, 0.06, 0.04]))],
        scheme=np.array([SCHEMES.index(one.scheme) for one in of])[requester],
        container=_choose(rng, count, np.array(_CONTAINER_SHARES)),
        seconds=seconds,
        bytes=(seconds * rng.lognormal(np.log(_MEDIAN_BITS), 0.6, count) / 8).astype(np.int64),
        refreshes=np.array([one.refreshes for one in of])[requester],
        hears_progress=np.array([one.wants("progress") for one in of])[requester],
    )


@lru_cache(maxsize=4)
def _shares(plan: HistoryPlan) -> tuple[Floats, Floats]:
    """Return each requester's share of all jobs, and the cumulative shares of the profiles in these jobs."""
    rng = np.random.default_rng([plan.seed, 2**32])  # no block uses this number in its seed
    shares = 1 / np.arange(1, plan.requesters + 1) ** _ZIPF
    mixes = of_each("share") * rng.lognormal(0, 0.7, (plan.requesters, len(PROFILES)))
    cumulated = np.cumsum(mixes / mixes.sum(axis=1, keepdims=True), axis=1)
    # Drop the last bound, so that a draw above all remaining bounds gets the last profile. Rounding may make
    # the last bound less than 1, and a draw above the last bound would then have no profile.
    return shares / shares.sum(), cumulated[:, :-1]


def _choose(rng: np.random.Generator, count: int, shares: Floats) -> Ints:
    return rng.choice(len(shares), count, p=shares)
