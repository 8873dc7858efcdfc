import re
from collections.abc import Sequence
from itertools import pairwise

import pytest

from euterpe.analytics.report import words
from euterpe.analytics.report.charts.vertical import StackedColumn, lines, stacked
from euterpe.analytics.report.html import Html

STYLES = ("succeeded", "failed")


def columns(*values: tuple[float | None, ...]) -> list[StackedColumn]:
    return [StackedColumn(f"{n + 1} Nov", f"day {n + 1}", value) for n, value in enumerate(values)]


def draw(*values: tuple[float | None, ...], width: int = 800) -> Html:
    return stacked(columns(*values), STYLES, "Jobs", words.count, width)


def numbers(chart: str, element: str, style: str, name: str) -> Sequence[float]:
    found = re.findall(rf'<{element} [^>]*\b{name}="([-\d.]+)"[^>]*class="{style}"', chart)
    return [float(value) for value in found]


def test_heights_are_in_proportion_and_stand_on_each_other() -> None:
    chart = draw((30, 10), (60, 0))
    (low, high), (failed,) = (
        numbers(chart, "rect", "succeeded", "height"),
        numbers(chart, "rect", "failed", "height"),
    )
    assert high == pytest.approx(2 * low, abs=0.2)
    assert low == pytest.approx(3 * failed, abs=0.3)
    (foot, _), (above,) = numbers(chart, "rect", "succeeded", "y"), numbers(chart, "rect", "failed", "y")
    assert foot == pytest.approx(above + failed, abs=0.1)


def test_every_day_has_its_numbers_as_tooltip() -> None:
    assert re.findall("<title>(.*?)</title>", draw((1, 0), (0, 0), (2, 1))) == ["day 1", "day 2", "day 3"]


def test_a_day_without_jobs_is_a_gap() -> None:
    assert len(numbers(draw((1, 0), (0, 0), (2, 1)), "rect", "succeeded", "height")) == 2


def test_nothing_at_all_is_an_empty_chart() -> None:
    assert numbers(draw((0, 0)), "rect", "succeeded", "height") == []


def test_the_column_of_a_single_day_has_a_limited_width() -> None:
    assert numbers(draw((5, 0)), "rect", "succeeded", "width") == [48]


def test_labels_of_days_do_not_touch() -> None:
    for width in (800, 340):
        feet = [
            float(x) for x in re.findall(r'<text x="([\d.]+)" y="229"', draw(*[(1, 1)] * 90, width=width))
        ]
        assert len(feet) > 2
        assert min(right - left for left, right in pairwise(feet)) > 50


def test_nothing_is_drawn_outside() -> None:
    chart = draw(*[(n, n) for n in range(40)], width=340)
    assert all(0 <= float(x) <= 340 for x in re.findall(r'\bx\d?="([-\d.]+)"', chart))
    assert all(0 <= float(y) <= 236 for y in re.findall(r'\by\d?="([-\d.]+)"', chart))


def test_a_line_is_broken_where_nothing_is_known() -> None:
    values = columns((1, None), (2, 5), (None, None), (4, None))
    chart = lines(values, ("work", "slots"), "Busy", words.number, 800)
    assert len(re.findall('<polyline [^>]*class="line work"', chart)) == 1
    assert len(re.findall('<circle [^>]*class="work"', chart)) == 1
    assert len(re.findall('<circle [^>]*class="slots"', chart)) == 1
