"""The parts that charts share: the SVG element, axis ticks, and texts shortened to a width."""

import math
from collections.abc import Sequence
from itertools import count, takewhile

from euterpe.analytics.report.html import Content, Html, tag

_CHARACTER = 7.4  # the average width, in pixels, of a small character in the widest font of the page
_SECOND, _HOUR, _DAY = 1_000, 3_600_000, 86_400_000
_MOMENTS_MS = (
    *(1, 10, 100, _SECOND, 10 * _SECOND, 60 * _SECOND, 600 * _SECOND),
    *(_HOUR, 10 * _HOUR, _DAY, 10 * _DAY, 100 * _DAY),
)


def is_narrow(width: float) -> bool:
    return width < 500


def canvas(width: int, height: float, label: str, *content: Content) -> Html:
    return tag(
        "svg",
        *content,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width} {math.ceil(height)}",
        role="img",
        aria_label=label,
        class_="narrow" if is_narrow(width) else "wide",
    )


def words(content: str, x: float, y: float, class_: str = "", anchor: str | None = None) -> Html:
    return tag("text", content, x=x, y=y, class_=class_ or None, text_anchor=anchor)


def wide(text: str) -> float:
    return len(text) * _CHARACTER


def gutter(labels: Sequence[str], most: float) -> float:
    """Return the width of the longest label with a margin, but not more than `most`."""
    return min(max(map(wide, labels), default=0) + 10, most)


def fitted(label: str, room: float) -> str:
    fits = int(room / _CHARACTER)
    return label if len(label) <= fits else f"{label[: max(1, fits - 1)]}…"


def ticks(top: float, most: int = 5) -> list[float]:
    """Return ticks from 0 to the first tick that is not below `top`, with a step of 1, 2 or 5 times 10ⁿ."""
    if top <= 0:
        return [0.0, 1.0]
    rough = top / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(nice * power for nice in (1, 2, 5, 10) if nice * power >= rough * 0.999999)
    below = list(takewhile(lambda tick: tick < top * 0.999999, (step * n for n in count())))
    return [*below, step * len(below)]


def moments(least: float, most: float) -> list[float]:
    """Return the ticks of a logarithmic axis of time, in ms, from below `least` to above `most`."""
    first = max((n for n, moment in enumerate(_MOMENTS_MS[:-1]) if moment <= least), default=0)
    last = min((n for n, moment in enumerate(_MOMENTS_MS) if moment >= most), default=len(_MOMENTS_MS) - 1)
    return [float(moment) for moment in _MOMENTS_MS[first : max(last, first + 1) + 1]]
