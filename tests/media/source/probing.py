"""Probe a clip in the process of the test, with given bounds."""

from pathlib import Path

from euterpe.media.source.media_info import MediaInfo
from euterpe.media.source.packets import DEFAULT_BOUNDS, Bounds, Budget
from euterpe.media.source.probe import probe

# With these bounds, even a small file is not read as a whole.
BOTH_ENDS = Bounds(whole=Budget(0, 0))


def probed(path: Path, bounds: Bounds = DEFAULT_BOUNDS) -> MediaInfo:
    with path.open("rb") as file:
        return MediaInfo.parse(probe(file.fileno(), bounds), path.stat().st_size)
