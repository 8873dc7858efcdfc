"""Tests that presentations play in Chromium with hls.js, dash.js and Shaka Player while tracks change."""

from itertools import pairwise
from pathlib import Path

import pytest

from euterpe.media.sandbox.sandbox import Sandbox
from tests.media.packaging.player import Play, Player, PlayReport, play
from tests.media.packaging.presentations import (
    CUES,
    PICTURES,
    SECONDS,
    SEGMENTS,
    Presentation,
    Recipe,
    Sound,
    package,
)

HLS, DASH = "master.m3u8", "manifest.mpd"
ALL: tuple[tuple[Player, str], ...] = (("hls.js", HLS), ("dash.js", DASH), ("shaka", HLS), ("shaka", DASH))
# Each picture is shown for one, two or five frames at 29.97 frames per second.
VARIABLE = "select='not(mod(n,5))+lt(mod(n,90),30)',format=yuv420p"
OPUS = (Sound("audio_en", "opus", "eng"), Sound("audio_de", "opus", "ger", hertz=880))


def check(report: PlayReport, seconds: float = SECONDS, pictures: int = PICTURES) -> None:
    """Check that everything was played, from 0 to the end."""
    assert report.errors == []
    assert report.duration == pytest.approx(seconds, abs=0.001)
    assert len(report.buffered) == 1
    assert report.buffered[0] == pytest.approx((0, seconds), abs=0.001)
    assert report.pictures == pictures


def test_a_viewer_may_change_level_language_and_position(film: Presentation) -> None:
    plays = [Play(player, name, switches=True, tour=True, text=True) for player, name in ALL]
    for played, report in zip(plays, play(film.folder, *plays), strict=True):
        check(report)
        assert report.ended == 2, played
        assert len(report.played_levels) >= SEGMENTS
        assert sum(a != b for a, b in pairwise(report.played_levels)) >= SEGMENTS - 1, played
        assert {level["height"] for level in report.levels} == {180, 90}
        assert {round(level["fps"], 2) for level in report.levels} == {29.97}
        assert {sound["language"] for sound in report.sounds} == {"en", "de"}
        assert [(start, end) for start, end, _ in report.cues] == [(cue.start, cue.end) for cue in CUES]
        assert report.texts[0]["language"] == "en"
        assert report.trick_play == (2 if played.player == "hls.js" else 0)


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe("av1", OPUS, rate="24000/1001", seconds=9.01),
        Recipe("vp9", (Sound("audio", "flac"),), rate="50", seconds=8.52),
        pytest.param(Recipe("av1", OPUS), marks=pytest.mark.soak),
        pytest.param(Recipe("vp9", rate="60", options="-g 1000"), marks=pytest.mark.soak),
        pytest.param(Recipe("h264", rate="60000/1001", segment_seconds=2), marks=pytest.mark.soak),
        pytest.param(Recipe("h264", rate="25", options="-bf 8", seconds=61), marks=pytest.mark.soak),
        pytest.param(Recipe("h264", (), rate="24", options="-bf 0"), marks=pytest.mark.soak),
        pytest.param(Recipe("h264", picture=VARIABLE, options="-crf 30"), marks=pytest.mark.soak),
    ],
    ids=lambda recipe: f"{recipe.video}-{recipe.rate}",
)
def test_other_codecs_play(sandbox: Sandbox, tmp_path: Path, recipe: Recipe) -> None:
    presentation = package(sandbox, recipe, tmp_path)
    facts = presentation.facts["180p"]
    pictures = sum(segment.samples for segment in facts.segments)
    seconds = facts.segments[-1].end / facts.track.timescale
    plays = [Play(player, name, switches=True, tour=recipe.seconds > 10) for player, name in ALL]
    for report in play(presentation.folder, *plays, timeout_s=120):
        check(report, max(seconds, recipe.seconds), pictures)


def test_sound_alone_plays(sandbox: Sandbox, tmp_path: Path) -> None:
    recipe = Recipe(
        None, (Sound("audio", "opus", "eng"), Sound("audio_fr", "opus", "fre", hertz=660)), seconds=9
    )
    presentation = package(sandbox, recipe, tmp_path)
    for report in play(presentation.folder, *(Play(player, name, tour=True) for player, name in ALL)):
        check(report, recipe.seconds, 0)
        assert [sound["language"] for sound in report.sounds] == ["en", "fr"]


@pytest.mark.parametrize("seconds", [0.2, pytest.param(0.6, marks=pytest.mark.soak)])
def test_a_film_of_less_than_a_second_plays(sandbox: Sandbox, tmp_path: Path, seconds: float) -> None:
    presentation = package(sandbox, Recipe(rate="50", seconds=seconds), tmp_path)
    for report in play(presentation.folder, *(Play(player, name, rate=1) for player, name in ALL)):
        check(report, seconds, round(seconds * 50))
