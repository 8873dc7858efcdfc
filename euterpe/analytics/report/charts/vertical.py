"""Charts over time, from left to right: stacked columns, and lines."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from euterpe.analytics.report.charts.canvas import canvas, gutter, ticks, wide, words
from euterpe.analytics.report.html import Html, join, tag

_HEIGHT, _ABOVE, _BELOW = 200, 12, 24
_FEET_APART = 28
_THICKEST = 48


@dataclass(frozen=True)
class StackedColumn:
    """A column for a day or a week. `values` has one value for each series; an unknown value is None."""

    label: str
    title: str
    values: tuple[float | None, ...]


class _Plot:
    """The layout of a chart: its scales, grid and labels."""

    def __init__(
        self, columns: Sequence[StackedColumn], top: float, show: Callable[[float], str], width: int
    ) -> None:
        self._columns, self._show, self._width = columns, show, width
        self._ticks = ticks(top)
        self._left = gutter([show(tick) for tick in self._ticks], width / 4)
        self.each = (width - self._left - 1) / len(columns)
        self.foot = _ABOVE + _HEIGHT

    def x(self, n: int) -> float:
        return self._left + self.each * n

    def y(self, value: float) -> float:
        return self.foot - _HEIGHT * value / self._ticks[-1]

    def drawn(self, label: str, *content: Html) -> Html:
        return canvas(self._width, self.foot + _BELOW, label, *self._grid(), *content, *self._labels())

    def _grid(self) -> list[Html]:
        return [
            join(
                tag("line", x1=self._left, x2=self._width, y1=self.y(tick), y2=self.y(tick), class_="grid"),
                words(self._show(tick), self._left - 6, self.y(tick) + 4, "soft", "end"),
            )
            for tick in self._ticks
        ]

    def _labels(self) -> list[Html]:
        """Return the labels of every n-th column, with the smallest n for which labels do not touch."""
        room = max(wide(column.label) for column in self._columns) + _FEET_APART
        step = max(1, -int(-room // self.each))
        return [
            words(
                column.label,
                min(self.x(n) + self.each / 2, self._width - wide(column.label) / 2),
                self.foot + 17,
                "soft",
                "middle",
            )
            for n, column in enumerate(self._columns)
            if n % step == 0
        ]


def stacked(
    columns: Sequence[StackedColumn],
    styles: Sequence[str],
    label: str,
    show: Callable[[float], str],
    width: int,
) -> Html:
    plot = _Plot(columns, max(sum(filter(None, column.values)) for column in columns), show, width)
    thick = min(plot.each - min(plot.each * 0.2, 6), _THICKEST)
    drawn = []
    for n, column in enumerate(columns):
        parts, height = [tag("title", column.title), _hover(plot, n)], 0.0
        for value, style in zip(column.values, styles, strict=True):
            if value:
                top, foot = plot.y(height + value), plot.y(height)
                parts.append(
                    tag(
                        "rect",
                        x=plot.x(n) + (plot.each - thick) / 2,
                        y=top,
                        width=thick,
                        height=foot - top,
                        class_=style,
                    )
                )
                height += value
        drawn.append(tag("g", *parts))
    return plot.drawn(label, *drawn)


def lines(
    columns: Sequence[StackedColumn],
    styles: Sequence[str],
    label: str,
    show: Callable[[float], str],
    width: int,
) -> Html:
    plot = _Plot(columns, max((v for column in columns for v in column.values if v), default=0), show, width)
    drawn = [
        path
        for n, style in enumerate(styles)
        for path in _line(plot, [column.values[n] for column in columns], style)
    ]
    hovers = [tag("g", tag("title", column.title), _hover(plot, n)) for n, column in enumerate(columns)]
    return plot.drawn(label, *drawn, *hovers)


def _line(plot: _Plot, values: Sequence[float | None], style: str) -> list[Html]:
    """Return lines with a break at each missing value. A single value between two breaks becomes a dot."""
    runs: list[list[tuple[float, float]]] = [[]]
    for n, value in enumerate(values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append((plot.x(n) + plot.each / 2, plot.y(value)))
    return [
        tag("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in run), class_=f"line {style}")
        if len(run) > 1
        else tag("circle", cx=run[0][0], cy=run[0][1], r=3.5, class_=style)
        for run in runs
        if run
    ]


def _hover(plot: _Plot, n: int) -> Html:
    return tag("rect", x=plot.x(n), y=_ABOVE, width=plot.each, height=_HEIGHT, class_="hover")
