"""Tests of the check for truncation in sources that begin late."""

import pytest

from euterpe.media.errors import MediaError
from euterpe.media.planning.truncation import refuse_truncated
from euterpe.media.source.media_info import MediaInfo, StreamInfo


def film(container: str, start: float, end: float, declared: float) -> MediaInfo:
    video = StreamInfo(0, "video", "h264", end - start, start, end, declared_seconds=declared)
    return MediaInfo(container, 1000, end - start, (video,), start_seconds=start)


@pytest.mark.parametrize(
    ("container", "start", "end", "declared"),
    [
        ("mov", 0.0, 10.0, 10.0),
        ("mov", 7.0, 17.0, 10.0),
        ("matroska", 7.0, 17.0, 17.0),
        ("matroska", 7.0, 17.0, 10.0),
    ],
)
def test_a_source_that_begins_late_is_whole(
    container: str, start: float, end: float, declared: float
) -> None:
    refuse_truncated(film(container, start, end, declared))


@pytest.mark.parametrize(
    ("container", "start", "end", "declared"),
    [("mov", 0.0, 5.0, 10.0), ("mov", 7.0, 12.0, 10.0), ("matroska", 7.0, 12.0, 17.0)],
)
def test_a_source_that_ends_early_is_refused(
    container: str, start: float, end: float, declared: float
) -> None:
    with pytest.raises(MediaError) as refused:
        refuse_truncated(film(container, start, end, declared))
    assert refused.value.code == "source_truncated"
