"""Tests of bit rates: they are computed from the sizes of the files, as RFC 8216 defines them."""

from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from euterpe.media.packaging.bit_rates import BitRate, bit_rate
from euterpe.media.packaging.rendition import Segment
from tests.media.packaging.renditions import VIDEO, video


def test_the_peak_is_that_of_a_run_of_segments() -> None:
    assert bit_rate(VIDEO, 5) == BitRate(peak=600_000 * 8 // 4, average=ceil(1_500_000 * 8 / 13))
    # A segment shorter than half of the target duration counts only together with its neighbours.
    short = video(segments=(Segment(0, 5000, 100), Segment(5000, 1000, 9000), Segment(6000, 5000, 100)))
    assert bit_rate(short, 5).peak == ceil(9100 * 8 / 6)


def test_a_film_of_one_short_segment_has_a_rate() -> None:
    assert bit_rate(video(segments=(Segment(0, 100, 1000),)), 1) == BitRate(80_000, 80_000)


def test_encryption_pads_every_segment() -> None:
    one = video(segments=(Segment(0, 1000, 32), Segment(1000, 1000, 33)))
    assert bit_rate(one, 1, is_encrypted=True) == BitRate(48 * 8, 48 * 8)


def test_the_highest_rates_are_taken_apart() -> None:
    assert BitRate.highest([BitRate(10, 1), BitRate(5, 3)]) == BitRate(10, 3)
    assert BitRate.highest([]) == BitRate(0, 0)


@given(st.lists(st.tuples(st.integers(1, 8000), st.integers(1, 10**6)), min_size=1, max_size=30))
def test_no_run_of_segments_exceeds_the_peak(rows: list[tuple[int, int]]) -> None:
    segments, start = [], 0
    for duration, size in rows:
        segments.append(Segment(start, duration, size))
        start += duration
    target = max(1, *(int(duration / 1000 + 0.5) for duration, _ in rows))
    found = bit_rate(video(segments=tuple(segments)), target)
    assert found.average <= found.peak
    for first in range(len(rows)):
        for last in range(first, len(rows)):
            ticks = sum(duration for duration, _ in rows[first : last + 1])
            if target * 500 <= ticks <= target * 1500:
                assert sum(size for _, size in rows[first : last + 1]) * 8000 / ticks <= found.peak
