"""Tests of reading numbered pictures, their times and their combing."""

import pytest

from tests.media.readers.media import end_seconds, packet_count
from tests.media.readers.pictures import combing, intervals, numbered_pictures, numbers
from tests.media.sources.cache import Sources
from tests.media.sources.numbered import NTSC, constant, jittered, long_last_picture, variable
from tests.media.sources.shapes import corners, interlaced, interlaced_after_progressive


@pytest.mark.parametrize("container", ["mp4", "mkv", "ts", "mov"])
def test_numbers_and_times_of_a_constant_rate_are_read(sources: Sources, container: str) -> None:
    found = numbered_pictures(constant(sources, 50, NTSC, container=container))
    assert [picture.number for picture in found] == [*range(50)]
    first = found[0].seconds
    for picture in found:
        assert picture.seconds - first == pytest.approx(picture.number * 1001 / 30_000, abs=0.0006)


def test_times_of_a_variable_rate_are_read(sources: Sources) -> None:
    path = variable(sources)
    assert numbers(path) == [*range(64)]
    assert intervals(path) == pytest.approx((1 / 60, 12_000 / 90_000), abs=1e-4)
    assert end_seconds(path) == pytest.approx(30 / 60 + 12 * 12_000 / 90_000 + 22 / 24, abs=0.001)


def test_jittered_times_are_read(sources: Sources) -> None:
    assert numbers(jittered(sources)) == [*range(50)]
    least, most = intervals(jittered(sources))
    assert 0.010 <= least < 0.030
    assert 0.050 < most <= 0.070


def test_a_long_last_picture_is_as_long_as_its_packet(sources: Sources) -> None:
    assert end_seconds(long_last_picture(sources)) == pytest.approx(3.0, abs=0.001)


@pytest.mark.parametrize("count", [1, 3, 10])
def test_few_pictures_are_counted(sources: Sources, count: int) -> None:
    assert numbers(constant(sources, count)) == [*range(count)]
    assert packet_count(constant(sources, count)) == count


def test_numbers_survive_scaling_and_a_strong_compression(sources: Sources) -> None:
    squeezed = constant(sources, 30, arguments="-c:v mpeg2video -q:v 12 -vf scale=64:36", container="ts")
    assert numbers(squeezed) == [*range(30)]


def test_combs_are_found_in_interlaced_pictures_only(sources: Sources) -> None:
    assert combing(interlaced(sources)) > 0.02
    assert combing(interlaced_after_progressive(sources)) > 0.02
    assert combing(corners(sources)) == 0.0
