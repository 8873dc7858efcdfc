"""Tests that HLS and DASH show each subtitle text of the source at its time."""

from pathlib import Path
from typing import Any

import pytest

from euterpe.domain.outputs import OutputSpec
from euterpe.media.sandbox.sandbox import Sandbox
from tests.media.media_steps import make as make_files
from tests.media.outputs.product_path import Make, parsed
from tests.media.readers.renditions import hls_media, hls_variants
from tests.media.readers.subtitles import Cue, Track, dash_subtitles, hls_subtitles
from tests.media.sources.cache import Sources, ffmpeg
from tests.media.sources.captions import CAPTIONS, captioned
from tests.media.sources.numbered import constant
from tests.media.sources.sounds import CUES, subtitled, subtitled_with_longer_sound, write_cues

ADAPTIVE: dict[str, Any] = {
    "name": "a",
    "type": "adaptive",
    "segment_seconds": 1,
    "video": {"ladder": [90]},
    "subtitles": "all",
}
EXPECTED = [Cue(250, 750, CUES[0]), Cue(1250, 1750, CUES[1])]


def tracks(folder: Path) -> list[Track]:
    """Check that HLS and DASH have the same cues, and return the tracks."""
    hls, dash = hls_subtitles(folder / "a" / "master.m3u8"), dash_subtitles(folder / "a" / "manifest.mpd")
    assert [one.cues for one in hls] == [one.cues for one in dash]
    return hls


def assert_near(found: tuple[Cue, ...], expected: list[Cue]) -> None:
    assert [cue.text for cue in found] == [cue.text for cue in expected]
    for cue, planned in zip(found, expected, strict=True):
        assert abs(cue.start - planned.start) <= 1
        assert abs(cue.end - planned.end) <= 1


@pytest.mark.parametrize("codec", ["srt", "ass", "mov_text"])
def test_texts_and_times_are_those_of_the_source(make: Make, sources: Sources, codec: str) -> None:
    (track,) = tracks(make([ADAPTIVE], subtitled(sources, codec)))
    assert_near(track.cues, EXPECTED)
    assert (track.attributes["LANGUAGE"], track.attributes["NAME"]) == ("en", "English")
    assert "DEFAULT" not in track.attributes or track.attributes["DEFAULT"] == "NO"


def test_the_segments_of_texts_are_those_of_the_picture(make: Make, sources: Sources) -> None:
    """In an earlier version, a film of 2 s with sound of 2.005 s had a last text segment of 5 ms."""
    master = make([ADAPTIVE], subtitled_with_longer_sound(sources)) / "a/master.m3u8"
    (pictures,) = hls_variants(master)
    (texts,) = hls_media(master, "SUBTITLES")
    assert len(texts.segments) == len(pictures.segments) == 2


@pytest.mark.parametrize("kind", ["hls", "dash"])
def test_an_output_has_the_files_of_its_own_lists_only(make: Make, sources: Sources, kind: str) -> None:
    folder = make([ADAPTIVE | {"type": kind}], subtitled(sources, "srt")) / "a"
    names = sorted(path.name for path in folder.glob("*.vtt"))
    assert names == (["subs_en_00001.vtt", "subs_en_00002.vtt"] if kind == "hls" else ["subs_en.vtt"])


def test_a_part_shows_its_own_cues(make: Make, sources: Sources) -> None:
    (track,) = tracks(make([ADAPTIVE | {"start": 0.5, "end": 1.5}], subtitled(sources, "srt")))
    assert_near(track.cues, [Cue(0, 250, CUES[0]), Cue(750, 1000, CUES[1])])


def test_cues_move_with_a_source_that_begins_late(make: Make, sources: Sources) -> None:
    source = subtitled(sources, "srt")
    late = sources.remuxed("late-subtitled.mkv", source, "-copyts -output_ts_offset 7", before="-copyts")
    (track,) = tracks(make([ADAPTIVE], late))
    assert_near(track.cues, EXPECTED)


@pytest.mark.parametrize("wanted", ["all", ["en"], None])
def test_a_source_without_subtitles_gives_none(make: Make, sources: Sources, wanted: object) -> None:
    folder = make([ADAPTIVE | {"subtitles": wanted}], constant(sources))
    assert tracks(folder) == []
    assert not [*(folder / "a").glob("*.vtt")]


def test_each_subtitle_track_is_listed_as_a_rendition(
    sandbox: Sandbox, sources: Sources, tmp_path: Path
) -> None:
    outputs: tuple[OutputSpec, ...] = parsed([ADAPTIVE])
    made = make_files(sandbox, subtitled(sources, "srt"), outputs, tmp_path)
    assert [(one.kind, one.codec, one.language) for one in made[-1].tracks] == [
        ("video", made[-1].tracks[0].codec, None),
        ("subtitle", "wvtt", "eng"),
    ]
    texts = [file for file in made if file.name.endswith(".vtt")]
    assert {file.content_type for file in texts} == {"text/vtt"}
    assert all(file.is_part for file in texts)


def test_several_tracks_have_names_of_their_own(make: Make, sources: Sources, tmp_path: Path) -> None:
    film, source = constant(sources), tmp_path / "several.mkv"
    texts = []
    for place in range(3):
        text = tmp_path / f"{place}.srt"
        text.write_text(f"1\n00:00:00,100 --> 00:00:00,900\ntrack {place}\n")
        texts.append(f"-i {text}")
    labels = (
        "-metadata:s:s:0 language=eng -metadata:s:s:1 language=eng -metadata:s:s:2 language=fre "
        "-metadata:s:s:1 title=Commentary -disposition:s:0 forced"
    )
    ffmpeg(f"-i {film} {' '.join(texts)} -map 0 -map 1 -map 2 -map 3 -c:v copy -c:s srt {labels} {source}")
    found = tracks(make([ADAPTIVE | {"subtitles": ["fr", "en"]}], source))
    assert [(one.name, one.cues[0].text, one.attributes["NAME"]) for one in found] == [
        ("subs_fr", "track 2", "French"),
        ("subs_en", "track 0", "English"),
        ("subs_en_2", "track 1", "Commentary"),
    ]
    assert [one.attributes.get("FORCED") for one in found] in (
        [None, "YES", None],
        ["NO", "YES", "NO"],
    )


SPOKEN = (100, 200)  # the start and the length of a cue in milliseconds
HOSTILE = [
    (b"a --> b\n00:00:01.000 --> 00:00:02.000", "a --> b\n00:00:01.000 --> 00:00:02.000"),
    (b"WEBVTT\nNOTE 1 < 2 &lt; 3", "WEBVTT\nNOTE 1 < 2 &lt; 3"),
    (b"before\0after", "before"),
    (b"caf\xe9 \xed\xa0\x80", "caf\ufffd \ufffd\ufffd\ufffd"),
    (b"\x1b[31mred\x07\xe2\x80\xa8line", "[31mredline"),
    (b"x" * 10_000_000, "x" * 2_000),
    ("é".encode() * 5_000_000, "é" * 2_000),
]


@pytest.mark.parametrize(
    ("text", "shown"), HOSTILE, ids=["arrow", "vtt", "nul", "latin", "control", "long", "bytes"]
)
def test_a_hostile_text_is_one_bounded_cue(
    make: Make, sources: Sources, tmp_path: Path, text: bytes, shown: str
) -> None:
    write_cues(tmp_path / "hostile.mkv", subtitled(sources, "srt"), [(*SPOKEN, text)])
    (track,) = tracks(make([ADAPTIVE], tmp_path / "hostile.mkv"))
    assert_near(track.cues, [Cue(100, 300, shown)])


def test_texts_that_cannot_be_shown_are_left_out(make: Make, sources: Sources, tmp_path: Path) -> None:
    damaged = [(0, 200, b"\0"), (50, 200, b"{\\an8}"), (100, 200, b"<i></i> "), (300, 400, b"shown")]
    late = [(5_000, 200, b"after the end")]
    write_cues(tmp_path / "hostile.mkv", subtitled(sources, "srt"), [*damaged, *late])
    (track,) = tracks(make([ADAPTIVE], tmp_path / "hostile.mkv"))
    assert_near(track.cues, [Cue(300, 700, "shown")])


def test_a_cue_that_lasts_beyond_the_end_is_cut_there(make: Make, sources: Sources, tmp_path: Path) -> None:
    write_cues(tmp_path / "long.mkv", subtitled(sources, "srt"), [(500, 10**9, b"for ever")])
    (track,) = tracks(make([ADAPTIVE], tmp_path / "long.mkv"))
    assert_near(track.cues, [Cue(500, 2000, "for ever")])


def test_closed_captions_become_a_track(make: Make, sources: Sources) -> None:
    (track,) = tracks(make([ADAPTIVE], captioned(sources)))
    expected = [Cue(one.start * 40, one.end * 40, one.text) for one in CAPTIONS]
    assert_near(track.cues, expected)
    assert (track.attributes["NAME"], track.attributes.get("LANGUAGE")) == ("Closed captions", None)
