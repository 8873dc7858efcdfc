"""Tests of the refusal of sources whose packets end before the end that their headers declare."""

from dataclasses import replace

import pytest

from euterpe.media.errors import MediaError
from euterpe.media.planning.truncation import refuse_truncated
from euterpe.media.source.media_info import MediaInfo, StreamInfo
from tests.media.planning.facts import AUDIO, SUBTITLE, VIDEO, info


def ended(stream: StreamInfo, measured: float | None, declared: float | None) -> MediaInfo:
    return info(replace(stream, duration_seconds=measured, end_seconds=measured, declared_seconds=declared))


@pytest.mark.parametrize("stream", [VIDEO, AUDIO])
def test_a_source_that_is_cut_off_is_refused(stream: StreamInfo) -> None:
    with pytest.raises(MediaError, match=r"6\.67 s of 10\.00 s") as refused:
        refuse_truncated(ended(stream, 6.67, 10.0))
    assert refused.value.code == "source_truncated"


@pytest.mark.parametrize(
    ("measured", "declared"),
    [(10.0, 10.0), (9.76, 10.0), (12.0, 10.0), (598.5, 600.0), (None, 10.0), (6.0, None), (0.2, 0.4)],
)
def test_small_differences_and_unknown_ends_are_no_damage(
    measured: float | None, declared: float | None
) -> None:
    refuse_truncated(ended(VIDEO, measured, declared))


def test_more_than_two_seconds_are_missing_media_in_a_film_of_any_length() -> None:
    with pytest.raises(MediaError):
        refuse_truncated(ended(VIDEO, 3597.5, 3600.0))


def test_a_container_may_declare_the_end_in_place_of_the_length() -> None:
    late = replace(AUDIO, duration_seconds=5.0, first_seconds=5.0, end_seconds=10.0, declared_seconds=10.0)
    refuse_truncated(info(late))


def test_only_pictures_and_sound_count() -> None:
    refuse_truncated(ended(SUBTITLE, 1.0, 10.0))
