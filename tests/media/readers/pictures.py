"""Read numbered pictures and flashes with their times."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tests.media.readers.media import Floats, Media, frames, plane
from tests.media.sources.number_blocks import read

# With combing, a line differs from both neighbouring lines by at least this much.
_COMB = 40.0


@dataclass(frozen=True)
class NumberedPicture:
    number: int
    seconds: float


def numbered_pictures(media: Media) -> list[NumberedPicture]:
    """Return the numbered pictures in the order of presentation. Raise if a picture shows no number."""
    return [NumberedPicture(read(plane(frame)), seconds) for seconds, frame in frames(media)]


def numbers(media: Media) -> list[int]:
    return [picture.number for picture in numbered_pictures(media)]


def picture_times(media: Media) -> list[float]:
    """Return the times of all pictures of a film."""
    return [seconds for seconds, _ in frames(media)]


def intervals(media: Media) -> tuple[float, float]:
    """Return the shortest and the longest time between two consecutive pictures."""
    steps = [after - before for before, after in pairwise(picture_times(media))]
    return min(steps), max(steps)


def flashes(media: Media) -> list[float]:
    """Return the time of each white picture that begins the film or follows a picture that is not white."""
    whites = [(seconds, plane(frame).mean() > 128) for seconds, frame in frames(media)]
    before = [False, *(is_white for _, is_white in whites)]
    return [seconds for (seconds, is_white), was in zip(whites, before, strict=False) if is_white and not was]


def combing(media: Media) -> float:
    """Return the share of combed pixels in the picture that has the most of them.

    A combed pixel differs from the lines above and below.
    """
    return max(_combed_share(plane(frame)) for _, frame in frames(media))


def _combed_share(luma: Floats) -> float:
    over, under = luma[1:-1] - luma[:-2], luma[1:-1] - luma[2:]
    sticks_out = (np.minimum(over, under) > _COMB) | (np.maximum(over, under) < -_COMB)
    return float(sticks_out.mean())
