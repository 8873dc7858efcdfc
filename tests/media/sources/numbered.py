"""Make films whose pictures show their number, at constant, variable or jittered picture rates."""

import random
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from pathlib import Path

from tests.media.sources.cache import Sources
from tests.media.sources.number_blocks import draw
from tests.media.sources.planes import X264, Plane, encode, encode_at, grey

SIZE = (160, 90)
NTSC_FILM, NTSC, NTSC_DOUBLE = "24000/1001", "30000/1001", "60000/1001"
_TICK = Fraction(1, 90_000)


def pictures(count: int, size: tuple[int, int] = SIZE, first: int = 0) -> list[Plane]:
    """Return pictures with the numbers from `first` on."""
    return [grey(draw(number, *size)) for number in range(first, first + count)]


def constant(
    sources: Sources,
    count: int = 50,
    rate: str = "25",
    *,
    size: tuple[int, int] = SIZE,
    container: str = "mp4",
    arguments: str = X264,
) -> Path:
    """Return a film of `count` pictures at a constant rate."""
    kind = arguments.split()[1] if arguments != X264 else "x264"
    name = f"numbered-{count}-{rate.replace('/', '-')}-{size[0]}x{size[1]}-{kind}.{container}"
    return sources.get(
        name, lambda path: encode(path, pictures(count, size), rate, size=size, arguments=arguments)
    )


def _timed(sources: Sources, name: str, ticks: Sequence[int], last_ticks: int, container: str) -> Path:
    return sources.get(
        f"{name}.{container}",
        lambda path: encode_at(path, pictures(len(ticks)), ticks, _TICK, last_ticks),
    )


def variable(sources: Sources, container: str = "mp4") -> Path:
    """Return a film at 60, then 7.5, then 24 pictures per second: 64 pictures in 3.6 s."""
    steps = [1500] * 30 + [12_000] * 12 + [3750] * 22
    return _timed(sources, "variable", [0, *accumulate(steps[:-1])], steps[-1], container)


def with_burst(sources: Sources, container: str = "mp4") -> Path:
    """Return a film with 25 pictures per second, interrupted by a quarter of a second with 240 per second."""
    steps = [3600] * 25 + [375] * 60 + [3600] * 25
    return _timed(sources, "burst", [0, *accumulate(steps[:-1])], steps[-1], container)


def jittered_at_60(sources: Sources, container: str = "mp4") -> Path:
    """Return a film of 120 pictures at 60 pictures per second, each up to 7 ms early or late."""
    moved = random.Random(1)
    ticks = [0, *(1500 * place + moved.randint(-630, 630) for place in range(1, 120))]
    return _timed(sources, "jittered-60", ticks, 1500, container)


def jittered(sources: Sources, container: str = "mp4") -> Path:
    """Return a film of 50 pictures at 25 pictures per second, each up to 15 ms early or late."""
    moved = random.Random(1)
    ticks = [0, *(3600 * place + moved.randint(-1350, 1350) for place in range(1, 50))]
    return _timed(sources, "jittered", ticks, 3600, container)


def long_last_picture(sources: Sources) -> Path:
    """Return a film of 26 pictures in 3 s as MKV. The last picture is shown for two seconds."""
    ticks = [3600 * place for place in range(26)]
    return _timed(sources, "long-last-picture", ticks, 180_000, "mkv")
