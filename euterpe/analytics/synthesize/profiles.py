"""What is asked for, how fast it is made, and how large it becomes."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Profile(NamedTuple):
    name: str | None  # None: the job lists its outputs itself
    share: float  # of all jobs
    speed: float  # seconds of media in a second of ffmpeg
    cores: float
    kbit_per_second: float  # of all outputs together
    outputs: int
    vmaf: float | None  # about so good
    failing: float  # how often ffmpeg fails, compared with the others


PROFILES = (
    Profile("h264-720p", 0.42, 6.0, 3.4, 2_400, 1, 93.5, 1.0),
    Profile("audio-aac", 0.14, 55.0, 1.0, 128, 1, None, 0.5),
    Profile("hevc-1080p", 0.16, 2.2, 3.8, 3_200, 1, 95.0, 1.0),
    Profile("av1-1080p", 0.08, 1.5, 3.9, 2_100, 1, 96.0, 1.5),
    Profile("hls-ladder", 0.14, 1.9, 3.9, 8_200, 1, 94.0, 4.0),
    Profile(None, 0.06, 4.0, 3.0, 3_000, 3, 94.5, 1.5),
)
# What the newer ffmpeg changes: the one is slower by 12 %, the other fails twice as often.
SLOWER_SINCE, SLOWER = "hevc-1080p", 0.88
FAILS_MORE_SINCE, FAILS_MORE = "hls-ladder", 2.0
FFMPEG_BEFORE, FFMPEG_SINCE = "9.0.2", "9.1"


def of_each(field: str) -> npt.NDArray[np.float64]:
    """One figure of every profile; NaN where it has none."""
    return np.array([getattr(profile, field) for profile in PROFILES], dtype=np.float64)


def only(name: str, factor: float) -> npt.NDArray[np.float64]:
    """The factor for that profile, and 1 for all others."""
    return np.array([factor if profile.name == name else 1.0 for profile in PROFILES])
