"""Tests of timed text files, with PyAV as the reader: texts, times, empty samples, limits."""

from pathlib import Path

import av
import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.media.errors import MediaError
from euterpe.media.packaging.timed_text import timed_text
from euterpe.media.packaging.webvtt import Cue

Sample = tuple[int, int, str]  # (start in ms, length in ms, text)


def samples(data: bytes, folder: Path) -> list[Sample]:
    path = folder / "a.mp4"
    path.write_bytes(data)
    found = []
    with av.open(str(path)) as container:
        (stream,) = container.streams
        assert stream.codec_context is not None
        assert (stream.type, stream.codec_context.codec.canonical_name) == ("subtitle", "mov_text")
        for packet in container.demux(stream):
            if text := bytes(packet):
                assert packet.pts is not None
                size = int.from_bytes(text[:2], "big")
                assert len(text) == 2 + size
                found.append((packet.pts, packet.duration or 0, text[2:].decode()))
    return found


def test_a_gap_is_an_empty_sample(tmp_path: Path) -> None:
    data = timed_text([Cue(0.5, 1.0, "a"), Cue(1.0, 1.25, "é & <b>"), Cue(2.0, 3.0, "two\nlines")])
    assert samples(data, tmp_path) == [
        (0, 500, ""),
        (500, 500, "a"),
        (1000, 250, "é & <b>"),
        (1250, 750, ""),
        (2000, 1000, "two\nlines"),
    ]


def test_texts_at_the_same_time_are_lines_of_one_text(tmp_path: Path) -> None:
    data = timed_text([Cue(0.0, 2.0, "long"), Cue(1.0, 3.0, "late"), Cue(1.0, 1.5, "short")])
    assert samples(data, tmp_path) == [
        (0, 1000, "long"),
        (1000, 500, "long\nlate\nshort"),
        (1500, 500, "long\nlate"),
        (2000, 1000, "late"),
    ]


def test_a_track_without_cues_has_a_sample(tmp_path: Path) -> None:
    assert samples(timed_text([]), tmp_path) == [(0, 1, " ")]
    assert samples(timed_text([Cue(1.0, 1.0, "no time")]), tmp_path) == [(0, 1, " ")]


def test_a_text_is_cut_between_two_characters(tmp_path: Path) -> None:
    ((_, _, text),) = samples(timed_text([Cue(0.0, 1.0, "ab" + "é" * 10_000)]), tmp_path)
    assert text == "ab" + "é" * 3_999


def test_many_texts_at_the_same_time_stay_small() -> None:
    """20,000 cues are shown at the same time. Each sample contains only eight of these cues."""
    cues = [Cue(place / 1000, 100.0, "x" * 80) for place in range(20_000)]
    assert len(timed_text(cues)) < 16_000_000


def test_long_texts_at_the_same_time_are_refused() -> None:
    """In an earlier version, such texts took 372 MB of the worker's memory."""
    cues = [Cue(place / 1000, 100.0, "x" * 1_000) for place in range(8_000)]
    with pytest.raises(MediaError) as refused:
        timed_text(cues)
    assert refused.value.code == "output_too_large"


@pytest.mark.parametrize(("is_forced", "flags"), [(False, 0), (True, 0xC0000000)])
def test_forced_subtitles_are_marked_in_their_samples(is_forced: bool, flags: int) -> None:
    data = timed_text([Cue(0.0, 1.0, "a")], is_forced=is_forced)
    at = data.index(b"tx3g") + 12
    assert int.from_bytes(data[at : at + 4], "big") == flags


_times = st.floats(-10, 100) | st.floats(-1e9, 1e9)
_cues = st.builds(Cue, _times, _times, st.text(st.characters(exclude_categories=["Cs"]), max_size=20))


@given(st.lists(_cues, max_size=12))
def test_any_cues_make_a_whole_file(cues: list[Cue]) -> None:
    data, at = timed_text(cues), 0
    kinds = []
    while at < len(data):
        kinds.append(data[at + 4 : at + 8])
        at += int.from_bytes(data[at : at + 4], "big")
    assert at == len(data)
    assert kinds == [b"ftyp", b"moov", b"mdat"]
