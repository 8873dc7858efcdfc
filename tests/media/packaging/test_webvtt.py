"""Tests that WebVTT contains the texts of the cues unchanged, in segments and in one file."""

import re
from pathlib import Path

import m3u8
import pytest
import webvtt
from hypothesis import given
from hypothesis import strategies as st

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.errors import MediaError
from euterpe.media.packaging.hls import media_playlist
from euterpe.media.packaging.webvtt import Cue, PackagedSubtitles, package_subtitles

MAP = "WEBVTT\nX-TIMESTAMP-MAP=MPEGTS:0,LOCAL:00:00:00.000\n"


def packaged(*cues: Cue, seconds: float = 10.0) -> PackagedSubtitles:
    return package_subtitles(cues, name="subs", segment_seconds=4, duration_seconds=seconds, language="eng")


def texts(*cues: Cue, seconds: float = 10.0) -> dict[str, str]:
    return {file.name: file.text for file in packaged(*cues, seconds=seconds).files}


def test_a_cue_is_in_each_segment_in_which_it_is_shown() -> None:
    first, second = Cue(1, 2.5, "one"), Cue(3.999, 8.001, "two")
    one = "\n00:00:01.000 --> 00:00:02.500\none\n"
    two = "\n00:00:03.999 --> 00:00:08.001\ntwo\n"
    assert texts(second, first) == {
        "subs_00001.vtt": MAP + one + two,
        "subs_00002.vtt": MAP + two,
        "subs_00003.vtt": MAP + two,
        "subs.vtt": "WEBVTT\n" + one + two,
    }


def test_a_cue_that_ends_with_a_segment_is_not_in_the_next() -> None:
    found = texts(Cue(0, 4, "x"), Cue(4, 8, "y"))
    assert [("x" in text, "y" in text) for text in found.values()] == [
        (True, False), (False, True), (False, False), (True, True),
    ]  # fmt: skip


def test_hours_are_written() -> None:
    assert "\n27:46:39.999 --> 27:46:40.000\n" in texts(Cue(99_999.999, 100_000, "x"))["subs.vtt"]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a & b < c > d", "a &amp; b &lt; c &gt; d"),
        ("00:01 --> 00:02", "00:01 --&gt; 00:02"),
        ("one\n\n\r\n two \u2028three", "one\ntwo\nthree"),
        ("NOTE x", "NOTE x"),
        ("a\0b\x1bc\ud800d\ufffe", "abcd"),
        ("&amp;", "&amp;amp;"),
    ],
)
def test_text_is_escaped(text: str, written: str) -> None:
    assert texts(Cue(0, 1, text))["subs.vtt"] == f"WEBVTT\n\n00:00:00.000 --> 00:00:01.000\n{written}\n"


@pytest.mark.parametrize(
    "cue", [Cue(1, 1, "x"), Cue(2, 1, "x"), Cue(0, 1, " \n "), Cue(-2, -1, "x"), Cue(1, 1.0004, "x")]
)
def test_a_cue_that_shows_nothing_is_left_out(cue: Cue) -> None:
    assert texts(cue)["subs.vtt"] == "WEBVTT\n"


def test_a_cue_before_0_begins_at_0() -> None:
    assert "00:00:00.000 --> 00:00:01.000" in texts(Cue(-1, 1, "x"))["subs.vtt"]


def test_the_playlist_has_no_init_segment() -> None:
    subtitles = packaged(Cue(0, 1, "x"))
    playlist = m3u8.loads(media_playlist(subtitles.rendition, 4).text)
    assert [(one.uri, one.duration) for one in playlist.segments] == [
        ("subs_00001.vtt", 4),
        ("subs_00002.vtt", 4),
        ("subs_00003.vtt", 2),
    ]
    assert playlist.segment_map == []
    assert {file.media_type for file in subtitles.files} == {"text/vtt"}


@pytest.mark.parametrize(
    ("seconds", "segments", "durations"),
    [
        (12.005, 3, [4, 4, 4.005]),
        (12.005, None, [4, 4, 4.005]),
        (13.999, None, [4, 4, 5.999]),
        (14.0, None, [4, 4, 4, 2]),
        (14.01, 3, [4, 4, 6.01]),  # the last picture segment is also appended to its predecessor
        (14.0, 3, [4, 4, 6]),  # at 29.97 pictures per second, the last picture segment is shorter than 2 s
        (13.999, 4, [4, 4, 4, 1.999]),
        (17.0, 3, [4, 4, 4, 5]),  # the sound is much longer than the pictures
        (6.0, 4, [4, 2]),  # after gaps without pictures, segments do not begin at multiples of 4 s
        (1.0, 1, [1]),
        (0.005, 1, [0.005]),
    ],
)
def test_the_last_segment_is_at_least_half_as_long_as_the_others(
    seconds: float, segments: int | None, durations: list[float]
) -> None:
    """In an earlier version, a film of 12 s with sound of 12.005 s had a last segment of 5 ms."""
    last = Cue(seconds - 0.005, seconds, "last")
    found = package_subtitles(
        [last], name="subs", segment_seconds=4, duration_seconds=seconds, picture_segments=segments
    )
    assert [segment.duration / 1000 for segment in found.rendition.segments] == durations
    *others, end, _whole = (file.text for file in found.files)
    assert "last" in end
    assert not any("last" in text for text in others)


def test_a_film_without_cues_has_segments() -> None:
    assert texts(seconds=0.1) == {"subs_00001.vtt": MAP, "subs.vtt": "WEBVTT\n"}


def test_subtitles_that_would_fill_the_disk_are_refused() -> None:
    cues = [Cue(0, 100_000, "x" * 1000)] * 100
    with pytest.raises(MediaError) as caught:
        packaged(*cues, seconds=100_000)
    assert caught.value.code is ErrorCode.OUTPUT_TOO_LARGE


cues = st.builds(
    lambda start, length, text: Cue(start / 1000, (start + length) / 1000, text),
    st.integers(0, 20_000),
    st.integers(1, 9000),
    st.text(max_size=30),
)


@given(st.lists(cues, max_size=8))
def test_an_independent_reader_finds_every_cue(
    tmp_path_factory: pytest.TempPathFactory, given_cues: list[Cue]
) -> None:
    path = tmp_path_factory.mktemp("vtt") / "subs.vtt"
    path.write_text(texts(*given_cues)["subs.vtt"], encoding="utf-8", newline="")
    read = [(cue.start, cue.end) for cue in webvtt.read(str(path)).captions]
    shown = sorted((round(cue.start * 1000), round(cue.end * 1000)) for cue in given_cues if words(cue.text))
    assert [tuple(milliseconds(time) for time in pair) for pair in read] == shown


def words(text: str) -> str:
    """Return the part of a text that WebVTT can show."""
    return re.sub("[\x00-\x1f\x7f-\x9f\\s\ud800-\udfff\ufffe\uffff]", "", text)


def milliseconds(time: str) -> int:
    hours, minutes, seconds = time.split(":")
    return round((int(hours) * 3600 + int(minutes) * 60 + float(seconds)) * 1000)


def test_the_files_are_what_is_named(tmp_path: Path) -> None:
    subtitles = packaged(Cue(0, 1, "x"))
    names = [subtitles.rendition.segment(place) for place in range(3)] + [subtitles.rendition.whole]
    assert [file.name for file in subtitles.files] == names
    for file, segment in zip(subtitles.files, subtitles.rendition.segments, strict=False):
        (tmp_path / file.name).write_text(file.text)
        assert (tmp_path / file.name).stat().st_size == segment.size_bytes
