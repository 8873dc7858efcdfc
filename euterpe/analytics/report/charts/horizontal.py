"""Horizontal charts with one item per row: bars, and ranges from the median to the 99th percentile."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from euterpe.analytics.report.charts.canvas import canvas, fitted, gutter, is_narrow, moments, wide, words
from euterpe.analytics.report.html import Html, tag

_THICK = 14
_FOOT = 22


@dataclass(frozen=True)
class Bar:
    """A bar. `parts` are pairs of value and style, from left to right. `mark` is a value for comparison."""

    label: str
    parts: tuple[tuple[float, str], ...]
    note: str
    title: str
    mark: float | None = None


@dataclass(frozen=True)
class PercentileRange:
    label: str
    p50: float
    p95: float
    p99: float
    note: str
    title: str


class _Rows:
    """The layout of a row: label, bar and note in one line; on a phone, label and note above the bar."""

    def __init__(
        self,
        rows: Sequence[Bar] | Sequence[PercentileRange],
        width: int,
        *,
        inset: float,
        names: Sequence[str] = (),
    ) -> None:
        self.width, self.narrow = width, is_narrow(width)
        self.step, self.middle = (42, 28) if self.narrow else (26, 13)
        self.left = inset if self.narrow else gutter([*(row.label for row in rows), *names], width * 0.36)
        self.right = inset if self.narrow else max(wide(row.note) for row in rows) + 14

    @property
    def across(self) -> float:
        return self.width - self.left - self.right

    def texts(self, row: Bar | PercentileRange, top: float, end: float) -> list[Html]:
        """Return the label and the note.

        In a wide chart the note begins at x = `end`, the end of the bar. A narrow chart does not use `end`.
        """
        note = row.note
        if self.narrow:
            label = fitted(row.label, self.width - wide(note) - 10)
            return [words(label, 0, top + 14), words(note, self.width, top + 14, "soft", "end")]
        label, base = fitted(row.label, self.left - 10), top + self.middle + 4
        return [words(label, self.left - 8, base, anchor="end"), words(note, end, base, "soft")]


def bars(rows: Sequence[Bar], label: str, width: int) -> Html:
    most = max(max(sum(value for value, _ in row.parts), row.mark or 0) for row in rows) or 1
    lay = _Rows(rows, width, inset=0)
    drawn = [_bar(row, lay.step * n, lay, lay.across / most) for n, row in enumerate(rows)]
    height = lay.step * len(rows)
    axis = tag("line", x1=lay.left, x2=lay.left, y1=0, y2=height, class_="grid")
    return canvas(width, height + 2, label, *([] if lay.narrow else [axis]), *drawn)


def _bar(row: Bar, top: float, lay: _Rows, scale: float) -> Html:
    parts, x, y = [], lay.left, top + lay.middle
    for value, style in row.parts:
        if value:
            thin = max(value * scale, 1)
            parts.append(tag("rect", x=x, y=y - _THICK / 2, width=thin, height=_THICK, class_=style))
            x += value * scale
    if row.mark is not None:
        at = lay.left + row.mark * scale
        parts.append(tag("line", x1=at, x2=at, y1=y - 11, y2=y + 11, class_="mark"))
        if x <= at < x + wide(row.note) + 12:  # otherwise the mark would cross the note
            x = at
    return tag("g", tag("title", row.title), *parts, *lay.texts(row, top, x + 6))


def ranges(
    groups: Sequence[tuple[str, Sequence[PercentileRange]]],
    label: str,
    show: Callable[[float], str],
    width: int,
    mark: float | None = None,
) -> Html:
    """Draw milliseconds on a logarithmic axis and a line at `mark`. A group without a name has no heading."""
    rows = [row for _, group in groups for row in group]
    # The labels of the first and the last tick extend beyond the axis by half their width.
    lay = _Rows(rows, width, inset=20, names=[name for name, _ in groups])
    lowest = min((value for row in rows for value in (row.p50, mark) if value), default=1)
    axis = moments(lowest, max([mark or 0, *(row.p99 for row in rows)]))
    scale = lay.across / math.log(axis[-1] / axis[0])

    def x(value: float) -> float:
        return lay.left + scale * math.log(min(max(value, axis[0]), axis[-1]) / axis[0])

    drawn, top = [], 0.0
    for name, group in groups:
        if name:
            drawn.append(words(name, 0, top + 18, "strong"))
            top += 26
        for row in group:
            drawn.append(_range(row, top, lay, x))
            top += lay.step
    grid = [tag("line", x1=x(tick), x2=x(tick), y1=0, y2=top, class_="grid") for tick in axis]
    feet = [words(show(tick), x(tick), top + 15, "soft", "middle") for tick in _spaced_ticks(axis, x, show)]
    limit = [] if mark is None else [tag("line", x1=x(mark), x2=x(mark), y1=0, y2=top, class_="mark")]
    return canvas(width, top + _FOOT, label, *grid, *limit, *drawn, *feet)


def _range(row: PercentileRange, top: float, lay: _Rows, x: Callable[[float], float]) -> Html:
    y = top + lay.middle
    return tag(
        "g",
        tag("title", row.title),
        tag("rect", x=0, y=top, width=lay.width, height=lay.step, class_="hover"),
        tag("line", x1=x(row.p50), x2=x(row.p99), y1=y, y2=y, class_="line tail"),
        tag("line", x1=x(row.p50), x2=x(row.p95), y1=y, y2=y, class_="line body"),
        tag("circle", cx=x(row.p50), cy=y, r=5, class_="middle"),
        *lay.texts(row, top, lay.left + lay.across + 14),
    )


def _spaced_ticks(
    axis: Sequence[float], x: Callable[[float], float], show: Callable[[float], str]
) -> list[float]:
    """Return the ticks whose labels do not touch."""
    shown: list[float] = []
    end = -math.inf
    for tick in axis:
        half = wide(show(tick)) / 2
        if x(tick) - half > end + 6:
            shown.append(tick)
            end = x(tick) + half
    return shown
