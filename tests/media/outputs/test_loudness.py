"""Tests of loudness: one gain reaches the target, and only the true peak limits the gain."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from euterpe.media.encoding.verify import Verified, verify
from euterpe.media.planning.planner import plan
from euterpe.media.planning.tree import PlanWarning
from euterpe.media.sandbox.sandbox import Sandbox
from tests.media.media_steps import probe, run
from tests.media.outputs.product_path import Make, parsed
from tests.media.readers.loudness import loudness, loudness_range, true_peak
from tests.media.readers.media import sound
from tests.media.readers.renditions import hls_media
from tests.media.sources.cache import Sources
from tests.media.sources.speech import (
    podcast,
    silence,
    spiky,
    surround_speech,
    two_levels,
    two_loud_languages,
)

_TOLERANCE_LU = 0.3


def output(kind: str = "flac", *, part: dict[str, Any] | None = None, **audio: Any) -> dict[str, Any]:
    return {"name": "a", "type": kind, "audio": {"loudness": {}, **audio}, **(part or {})}


def made_and_warned(
    sandbox: Sandbox, source: Path, folder: Path, *outputs: dict[str, Any]
) -> tuple[Verified, tuple[PlanWarning, ...]]:
    planned = plan(parsed(outputs), probe(sandbox, source), threads=1)
    stats = run(sandbox, planned, source, folder)
    return verify(sandbox, stats.plan, folder), stats.plan.warnings


# -- the target


@pytest.mark.parametrize("channels", ["mono", "stereo"])
@pytest.mark.parametrize("kind", ["mp3", "m4a", "opus", "flac"])
def test_a_quiet_podcast_gets_its_loudness(make: Make, sources: Sources, kind: str, channels: str) -> None:
    source = podcast(sources)
    assert loudness(source) < -28
    file = make([output(kind, channels=channels)], source) / f"a.{kind}"
    assert loudness(file) == pytest.approx(-16.0, abs=_TOLERANCE_LU)
    assert len(sound(file).samples) == (1 if channels == "mono" else 2)


@pytest.mark.parametrize(
    ("kbps", "rate"), [(96, 48_000), (192, 48_000), (224, 48_000), (320, 48_000), (64, 22_050)]
)
def test_mp3_of_any_rate_gets_its_loudness(make: Make, sources: Sources, kbps: int, rate: int) -> None:
    """At bit rates up to 160 kbit/s, LAME lowers the level by 0.45 dB."""
    source = podcast(sources, rate=rate)
    file = make([output("mp3", channels="mono", bitrate_kbps=kbps)], source) / "a.mp3"
    assert loudness(file) == pytest.approx(-16.0, abs=0.15)


@pytest.mark.parametrize("target", [-23.0, -40.0])
def test_a_target_may_be_any_loudness(make: Make, sources: Sources, target: float) -> None:
    file = make([output(loudness={"target": target})], podcast(sources)) / "a.flac"
    assert loudness(file) == pytest.approx(target, abs=_TOLERANCE_LU)


@pytest.mark.parametrize("channels", ["stereo", "mono"])
def test_a_mix_of_surround_sound_is_measured_after_the_mix(
    make: Make, sources: Sources, channels: str
) -> None:
    """A mix of integers is 7 dB quieter than a mix of floats.

    So the measurement and the encode must mix in the same format.
    """
    file = make([output(channels=channels)], surround_speech(sources)) / "a.flac"
    assert loudness(file) == pytest.approx(-16.0, abs=_TOLERANCE_LU)


def test_surround_sound_is_mixed_down_for_mp3_before_it_gets_its_loudness(
    make: Make, sources: Sources
) -> None:
    """In an earlier version, the encoder mixed 5.1 down after the gain, and the file was 3 LU too loud."""
    file = make([output("mp3", channels="keep")], surround_speech(sources)) / "a.mp3"
    assert loudness(file) == pytest.approx(-16.0, abs=_TOLERANCE_LU)


@pytest.mark.parametrize("part", [{"end": 6.0}, {"start": 6.0}, {}], ids=["quiet", "loud", "whole"])
def test_a_part_is_measured_alone(make: Make, sources: Sources, part: dict[str, Any]) -> None:
    file = make([output(part=part)], two_levels(sources)) / "a.flac"
    assert loudness(file) == pytest.approx(-16.0, abs=_TOLERANCE_LU)


def test_each_track_of_an_adaptive_output_gets_its_loudness(
    sandbox: Sandbox, sources: Sources, tmp_path: Path
) -> None:
    tracks = [{"language": language, "loudness": {"target": -23}} for language in ("en", "de")]
    hls = {"name": "hls", "type": "hls", "video": {"ladder": [90]}, "audio": tracks}
    verified, _ = made_and_warned(sandbox, two_loud_languages(sources), tmp_path, hls)
    heard = [loudness(rendition.media) for rendition in hls_media(tmp_path / "hls/master.m3u8")]
    assert heard == pytest.approx([-23.0, -23.0], abs=_TOLERANCE_LU)
    gains = [track.gain_db for track in verified.files[-1].tracks if track.kind == "audio"]
    assert gains[0] is not None
    assert gains[1] is not None
    assert gains[0] - gains[1] == pytest.approx(20.0, abs=0.3)


# -- one gain and nothing else


def test_a_spiky_sound_keeps_its_range_and_is_limited_by_its_true_peak(
    sandbox: Sandbox, sources: Sources, tmp_path: Path
) -> None:
    """ffmpeg's filter `loudnorm` compresses such a sound, and resamples it to 192 kHz."""
    source = spiky(sources)
    verified, warnings = made_and_warned(sandbox, source, tmp_path, output(loudness={"true_peak": -2}))
    made = tmp_path / "a.flac"
    assert loudness_range(made) == pytest.approx(loudness_range(source), abs=0.5)
    assert loudness_range(made) > 4
    assert true_peak(made) == pytest.approx(-2.0, abs=0.2)
    assert true_peak(made) <= -2.0
    assert loudness(made) < -20
    assert [warning.code for warning in warnings] == ["loudness_limited"]
    (track,) = verified.files[0].tracks
    assert track.measured_lufs == pytest.approx(loudness(source), abs=0.2)
    assert track.gain_db is not None
    assert track.gain_db == pytest.approx(loudness(made) - loudness(source), abs=0.1)


def test_every_sample_is_multiplied_by_the_same_number(make: Make, sources: Sources) -> None:
    source = spiky(sources)
    made = sound(make([output()], source) / "a.flac")
    before = sound(source)
    assert made.sample_rate == before.sample_rate
    assert made.samples.shape == before.samples.shape
    factor = float(np.abs(made.samples).max() / np.abs(before.samples).max())
    assert np.abs(made.samples - factor * before.samples).max() < 1e-4


def test_silence_stays_silent_and_is_named(sandbox: Sandbox, sources: Sources, tmp_path: Path) -> None:
    verified, warnings = made_and_warned(sandbox, silence(sources), tmp_path, output())
    assert np.abs(sound(tmp_path / "a.flac").samples).max() == 0
    assert [warning.code for warning in warnings] == ["loudness_unknown"]
    (track,) = verified.files[0].tracks
    assert (track.measured_lufs, track.gain_db) == (None, 0.0)


def test_a_track_without_a_loudness_says_nothing_about_it(
    sandbox: Sandbox, sources: Sources, tmp_path: Path
) -> None:
    verified, _ = made_and_warned(sandbox, podcast(sources), tmp_path, {"name": "a", "type": "flac"})
    (track,) = verified.files[0].tracks
    assert (track.measured_lufs, track.gain_db) == (None, None)
