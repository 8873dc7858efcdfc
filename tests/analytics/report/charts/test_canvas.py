import pytest

from euterpe.analytics.report.charts.canvas import canvas, fitted, gutter, moments, ticks


@pytest.mark.parametrize(
    ("top", "expected"),
    [
        (0, [0, 1]),
        (5, [0, 1, 2, 3, 4, 5]),
        (0.3, [0, 0.1, 0.2, 0.3]),
        (1_087, [0, 500, 1_000, 1_500]),
        (1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
    ],
)
def test_ticks_are_round_and_reach_the_top(top: float, expected: list[float]) -> None:
    assert ticks(top) == pytest.approx(expected)


@pytest.mark.parametrize("top", [0.0007, 3, 17.5, 99, 101, 123_456, 9.9e11])
def test_ticks_are_few(top: float) -> None:
    found = ticks(top)
    assert 2 <= len(found) <= 7
    assert found[-2] < top <= found[-1] * 1.000001


@pytest.mark.parametrize(("least", "most"), [(0.2, 0.3), (1, 1), (130, 95_000), (5, 1e12), (1e12, 2e12)])
def test_there_are_at_least_two_moments_in_order(least: float, most: float) -> None:
    found = moments(least, most)
    assert len(found) >= 2
    assert found == sorted(found)


def test_a_long_label_ends_in_dots() -> None:
    assert fitted("a requester with a very long name", 80) == "a request…"
    assert fitted("short", 80) == "short"
    assert gutter(["a requester with a very long name"], 80) == 80


def test_a_chart_says_what_it_is_and_how_wide() -> None:
    assert 'role="img" aria-label="Jobs" class="wide"' in canvas(800, 10, "Jobs")
    assert 'class="narrow"' in canvas(340, 10, "Jobs")
