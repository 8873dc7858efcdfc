"""Tests that subtitles in film files have the texts, times, languages, titles and flags of the source."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from euterpe.media.packaging.languages import is_spoken
from tests.media.outputs.product_path import Make
from tests.media.outputs.test_subtitles import EXPECTED, HOSTILE, SPOKEN, assert_near
from tests.media.readers.film_subtitles import FilmTrack, film_subtitles
from tests.media.readers.media import packet_ends
from tests.media.readers.pictures import picture_times
from tests.media.readers.subtitles import Cue
from tests.media.sources.cache import Sources, ffmpeg
from tests.media.sources.captions import CAPTIONS, captioned
from tests.media.sources.numbered import constant
from tests.media.sources.sounds import CUES, subtitled, write_cues

KINDS = ("mp4", "mov", "webm")


def film(kind: str, **fields: Any) -> dict[str, Any]:
    return {"name": "film", "type": kind, "subtitles": "all", **fields}


def tracks(make: Make, source: Path, kind: str = "mp4", **fields: Any) -> list[FilmTrack]:
    return film_subtitles(make([film(kind, **fields)], source) / f"film.{kind}")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("codec", ["srt", "ass", "mov_text"])
def test_texts_and_times_are_those_of_the_source(make: Make, sources: Sources, codec: str, kind: str) -> None:
    (track,) = tracks(make, subtitled(sources, codec), kind)
    assert_near(track.cues, EXPECTED)
    assert (track.codec, track.language) == ("webvtt" if kind == "webm" else "mov_text", "eng")
    assert not track.is_default


@pytest.mark.parametrize("kind", KINDS)
def test_webvtt_of_the_source_is_read(make: Make, tmp_path: Path, sources: Sources, kind: str) -> None:
    text, source = tmp_path / "a.vtt", tmp_path / "a.webm"
    text.write_text("WEBVTT\n\n00:00:00.250 --> 00:00:00.750 align:start\n<i>a</i> &lt; b &amp; c\n")
    ffmpeg(f"-i {constant(sources)} -i {text} -c:v libvpx-vp9 -deadline realtime -c:s copy {source}")
    (track,) = tracks(make, source, kind)
    assert_near(track.cues, [Cue(250, 750, "a < b & c")])


def test_fragments_have_subtitles_too(make: Make, sources: Sources) -> None:
    made = make([film("mp4", fragmented=True)], subtitled(sources, "srt")) / "film.mp4"
    (track,) = film_subtitles(made)
    # Fragments have no edit list, so the first picture is not at 0.
    late = round(1000 * picture_times(made)[0])
    assert_near(track.cues, [Cue(cue.start + late, cue.end + late, cue.text) for cue in EXPECTED])
    assert not track.is_default


@pytest.mark.parametrize("kind", KINDS)
def test_a_part_shows_its_own_cues(make: Make, sources: Sources, kind: str) -> None:
    (track,) = tracks(make, subtitled(sources, "srt"), kind, start=0.5, end=1.5)
    assert_near(track.cues, [Cue(0, 250, CUES[0]), Cue(750, 1000, CUES[1])])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fields", [{}, {"video": {"copy": "auto"}}], ids=["encoded", "copied"])
def test_cues_move_with_a_source_that_begins_late(
    make: Make, sources: Sources, kind: str, fields: dict[str, Any]
) -> None:
    source = subtitled(sources, "srt")
    late = sources.remuxed("late-subtitled.mkv", source, "-copyts -output_ts_offset 7", before="-copyts")
    (track,) = tracks(make, late, kind, **fields)
    assert_near(track.cues, EXPECTED)


@pytest.mark.parametrize("kind", ["mp4", "mov"])
@pytest.mark.parametrize("language", ["fre", "deu", "swe", "en"])
def test_the_language_is_in_the_file_whatever_its_code_is(
    make: Make, sources: Sources, tmp_path: Path, kind: str, language: str
) -> None:
    """ffmpeg writes no language for `fre` in MOV, and no language for `en` in MP4 and MOV."""
    source = tmp_path / "spoken.mkv"
    labels = f"-metadata:s:s:0 language={language}"
    ffmpeg(f"-i {subtitled(sources, 'srt')} -f lavfi -i sine=d=2 -c:v copy -c:s copy {labels} {source}")
    (track,) = tracks(make, source, kind)
    assert is_spoken(track.language, language)


def several(path: Path, film: Path) -> Path:
    """Write the film with three text tracks: English and forced, English with a title, and German."""
    texts = []
    for place in range(3):
        text = path.with_name(f"{path.name}.{place}.srt")
        text.write_text(f"1\n00:00:00,100 --> 00:00:00,900\ntrack {place}\n")
        texts.append(f"-i {text}")
    labels = (
        "-metadata:s:s:0 language=eng -metadata:s:s:1 language=eng -metadata:s:s:2 language=ger "
        "-metadata:s:s:1 title=Commentary -disposition:s:0 forced+default"
    )
    ffmpeg(f"-i {film} {' '.join(texts)} -map 0 -map 1 -map 2 -map 3 -c:v copy -c:s srt {labels} {path}")
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_each_track_keeps_its_labels_and_none_is_the_default(
    make: Make, sources: Sources, tmp_path: Path, kind: str
) -> None:
    source = several(tmp_path / "several.mkv", constant(sources))
    found = tracks(make, source, kind, subtitles=["de", "en"])
    assert [(one.cues[0].text, one.language, one.title) for one in found] == [
        ("track 2", "ger", None),
        ("track 0", "eng", None),
        ("track 1", "eng", "Commentary"),
    ]
    # In MOV, ffmpeg marks a forced track only in the sample description.
    assert [one.is_forced for one in found] == [False, kind != "mov", False]
    assert not any(one.is_default for one in found)


@pytest.mark.parametrize(
    ("text", "shown"), HOSTILE, ids=["arrow", "vtt", "nul", "latin", "control", "long", "bytes"]
)
def test_a_hostile_text_is_one_bounded_cue(
    make: Make, sources: Sources, tmp_path: Path, text: bytes, shown: str
) -> None:
    write_cues(tmp_path / "hostile.mkv", subtitled(sources, "srt"), [(*SPOKEN, text)])
    folder = make([film(kind, name=kind) for kind in KINDS], tmp_path / "hostile.mkv")
    for kind in KINDS:
        (track,) = film_subtitles(folder / f"{kind}.{kind}")
        assert_near(track.cues, [Cue(100, 300, shown)])


@pytest.mark.parametrize("kind", KINDS)
def test_braces_and_backslashes_are_words_and_not_markup(
    make: Make, sources: Sources, tmp_path: Path, kind: str
) -> None:
    write_cues(tmp_path / "odd.mkv", subtitled(sources, "srt"), [(*SPOKEN, b"a\\b {x} c_d")])
    (track,) = tracks(make, tmp_path / "odd.mkv", kind)
    assert_near(track.cues, [Cue(100, 300, "a\\b {x} c_d")])


@pytest.mark.parametrize("kind", KINDS)
def test_a_cue_that_lasts_beyond_the_end_does_not_make_the_film_longer(
    make: Make, sources: Sources, tmp_path: Path, kind: str
) -> None:
    write_cues(tmp_path / "long.mkv", subtitled(sources, "srt"), [(500, 10**9, b"for ever")])
    made = make([film(kind)], tmp_path / "long.mkv") / f"film.{kind}"
    (track,) = film_subtitles(made)
    assert_near(track.cues, [Cue(500, 2000, "for ever")])
    assert max(packet_ends(made).values()) == pytest.approx(2.0, abs=0.05)


@pytest.mark.parametrize("kind", KINDS)
def test_a_part_without_cues_has_an_empty_track(make: Make, sources: Sources, kind: str) -> None:
    (track,) = tracks(make, subtitled(sources, "srt"), kind, start=0.8, end=1.2)
    assert [cue.text.strip() for cue in track.cues] in ([], [""])


def shown_at(track: FilmTrack, milliseconds: int) -> Sequence[str]:
    return [cue.text for cue in track.cues if cue.start <= milliseconds < cue.end]


@pytest.mark.parametrize("kind", ["mp4", "webm"])
def test_cues_at_the_same_time_are_shown_together(
    make: Make, sources: Sources, tmp_path: Path, kind: str
) -> None:
    """An MP4 sample has one text, so two cues become two lines of one text."""
    both = [(100, 500, b"first"), (300, 500, b"second")]
    write_cues(tmp_path / "both.mkv", subtitled(sources, "srt"), both)
    (track,) = tracks(make, tmp_path / "both.mkv", kind)
    words = [" ".join(shown_at(track, time)).split() for time in (200, 400, 700, 900)]
    assert words == [["first"], ["first", "second"], ["second"], []]


@pytest.mark.parametrize("kind", KINDS)
def test_closed_captions_become_a_track(make: Make, sources: Sources, kind: str) -> None:
    (track,) = tracks(make, captioned(sources), kind)
    assert_near(track.cues, [Cue(one.start * 40, one.end * 40, one.text) for one in CAPTIONS])
