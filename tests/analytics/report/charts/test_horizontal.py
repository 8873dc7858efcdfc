import re

import pytest

from euterpe.analytics.report import words
from euterpe.analytics.report.charts.horizontal import Bar, PercentileRange, bars, ranges

widths = pytest.mark.parametrize("width", [800, 340])


def bar(label: str, *values: float, mark: float | None = None) -> Bar:
    styles = ("work", "waste")
    parts = tuple(zip(values, styles, strict=False))
    return Bar(label, parts, f"{sum(values):g}", f"{label} has {sum(values):g}", mark)


def a_range(label: str, p50: float, p95: float, p99: float) -> PercentileRange:
    return PercentileRange(label, p50, p95, p99, words.duration_ms(p50), f"{label} takes {p50:g}")


def found(chart: str, pattern: str) -> list[float]:
    return [float(value) for value in re.findall(pattern, chart)]


@widths
def test_bars_are_in_proportion(width: int) -> None:
    chart = bars([bar("a", 30, 10), bar("b", 60)], "Cost", width)
    low, high = found(chart, r'width="([\d.]+)" height="14" class="work"')
    (waste,) = found(chart, r'width="([\d.]+)" height="14" class="waste"')
    assert high == pytest.approx(2 * low, rel=0.01)
    assert low == pytest.approx(3 * waste, rel=0.01)


@widths
def test_nothing_is_drawn_outside(width: int) -> None:
    rows = [bar("a long name, longer than the others", 30, 10, mark=90), bar("b", 0.00001), bar("c", 0)]
    chart = bars(rows, "Cost", width)
    assert all(0 <= x <= width for x in found(chart, r'\bx\d?="([-\d.]+)"'))
    timed = ranges(
        [("", [a_range("a", 0, 5, 1e12)]), ("x", [a_range("b", 3, 3, 3)])],
        "T",
        words.duration_ms,
        width,
        60_000,
    )
    assert all(0 <= x <= width for x in found(timed, r'\bx\d?="([-\d.]+)"'))


def test_the_smallest_bar_is_still_visible() -> None:
    assert found(bars([bar("a", 1e9), bar("b", 1)], "Cost", 800), r'width="([\d.]+)" height="14"')[1] == 1


@widths
def test_a_row_has_its_numbers_as_text_and_as_tooltip(width: int) -> None:
    chart = bars([bar("a", 30), bar("<b>", 60)], "Cost", width)
    assert re.findall("<title>(.*?)</title>", chart) == ["a has 30", "&lt;b&gt; has 60"]
    assert ">30</text>" in chart


def test_a_mark_stands_at_its_value() -> None:
    chart = bars([bar("a", 50, mark=50.0)], "Sizes", 800)
    (mark,) = found(chart, r'<line x1="([\d.]+)"[^>]*class="mark"')
    ((x, wide),) = [
        tuple(map(float, pair)) for pair in re.findall(r'<rect x="([\d.]+)"[^>]*width="([\d.]+)"', chart)
    ]
    assert mark == pytest.approx(x + wide, abs=0.2)


def test_a_note_stands_at_its_bar_and_is_never_crossed_out() -> None:
    chart = bars([bar("a", 10, mark=100.0), bar("b", 99, mark=100.0)], "Sizes", 800)
    (mark, _) = found(chart, r'<line x1="([\d.]+)"[^>]*class="mark"')
    short, long = found(chart, r'<text x="([\d.]+)" y="[\d.]+" class="soft"')
    assert short < mark - 500
    assert long > mark


@widths
def test_a_range_goes_from_the_median_to_the_99th_percentile(width: int) -> None:
    chart = ranges([("", [a_range("a", 1_000, 10_000, 60_000)])], "Times", words.duration_ms, width)
    ((left, right),) = [
        tuple(map(float, pair)) for pair in re.findall(r'x1="([\d.]+)" x2="([\d.]+)"[^>]*line tail', chart)
    ]
    (middle,) = found(chart, r'<circle cx="([\d.]+)"')
    (body,) = found(chart, r'x2="([\d.]+)"[^>]*line body')
    assert left == middle < body < right


def test_the_axis_of_times_has_round_durations() -> None:
    chart = ranges([("", [a_range("a", 1_500, 10_000, 3_000_000)])], "Times", words.duration_ms, 800)
    assert re.findall(r'text-anchor="middle">(.*?)</text>', chart) == [
        "1 s",
        "10 s",
        "1 min",
        "10 min",
        "1 h",
    ]


@pytest.mark.parametrize("days", [10, 30, 300])
def test_times_beyond_the_longest_tick_are_drawn_too(days: int) -> None:
    long = days * 86_400_000.0
    chart = ranges([("", [a_range("a", long, long, long)])], "Times", words.duration_ms, 800)
    assert len(re.findall(r'class="grid"', chart)) >= 2


def test_groups_have_headings_and_a_limit_crosses_all() -> None:
    groups = [("h264", [a_range("encode", 5, 6, 7)]), ("av1", [a_range("encode", 50, 60, 70)])]
    chart = ranges(groups, "Times", words.duration_ms, 800, mark=60.0)
    assert re.findall(r'class="strong">(.*?)</text>', chart) == ["h264", "av1"]
    assert found(chart, r'y2="([\d.]+)" class="mark"') == [104]
