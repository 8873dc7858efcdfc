"""Tests of loudness in plans: which sounds are measured, which gain they get, and the warnings."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.media.planning.argv import arguments
from euterpe.media.planning.loudness import MeasuredLoudness
from euterpe.media.planning.measurements import settled
from euterpe.media.planning.streaming import can_stream
from euterpe.media.planning.tree import Gain, LoudnessGoal, LoudnessMeasurement, Plan
from tests.media.planning.facts import AUDIO, FFMPEG, VIDEO, argv_of, info, planned, values_of, warning_codes

LOUD: dict[str, Any] = {"loudness": {"target": -16, "true_peak": -1}}
ENGLISH = replace(AUDIO, index=1, language="eng")
GERMAN = replace(AUDIO, index=2, language="deu")
BOTH = info(VIDEO, ENGLISH, GERMAN)


def sound(
    name: str = "a", kind: str = "m4a", audio: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    return {"name": name, "type": kind, "audio": LOUD if audio is None else audio, **more}


def gains(made: Plan) -> list[float | None]:
    found = [one.gain for command in made.commands for one in command.sounds]
    assert not any(isinstance(gain, LoudnessGoal) for gain in found)
    return [gain.decibels if isinstance(gain, Gain) else None for gain in found]


def with_loudness(lufs: float | None, peak: float | None, **goal: float) -> Plan:
    return settled(planned(sound(audio={"loudness": goal})), [MeasuredLoudness(lufs, peak)])


# -- what is measured


def test_a_sound_without_a_loudness_is_not_measured() -> None:
    assert planned(sound(audio={})).measurements == ()


def test_a_sound_that_several_outputs_have_is_measured_once() -> None:
    """Outputs with different targets, codecs or rates can have the same sound."""
    made = planned(
        sound("a"),
        sound("b", audio={"loudness": {"target": -23}}),
        sound("c", "opus"),
        sound("d", "mp3", optional=True),
        {"name": "film", "type": "mp4", "audio": LOUD},
        {"name": "hls", "type": "hls", "video": {"ladder": [360]}, "audio": LOUD},
        facts=info(VIDEO, replace(AUDIO, sample_rate=44_100)),
    )
    (measurement,) = made.measurements
    assert sorted(measurement.outputs) == ["a", "b", "c", "d", "film", "hls"]
    assert not measurement.is_optional


@pytest.mark.parametrize(
    "other",
    [
        {"audio": {**LOUD, "channels": "mono"}},
        {"audio": {**LOUD, "language": "de"}},
        {"start": 2},
        {"end": 5},
    ],
)
def test_another_mix_track_or_part_is_another_sound(other: dict[str, Any]) -> None:
    made = planned(sound("a"), sound("b", **other), facts=BOTH)
    assert [one.outputs for one in made.measurements] == [("a",), ("b",)]


def test_a_measurement_reads_the_part_that_the_output_has() -> None:
    (measurement,) = planned(sound(start=2, end=5)).measurements
    (source,) = measurement.inputs
    assert (source.start, source.seconds, measurement.seconds) == (2.0, 3.0, 3.0)


def test_a_measurement_is_optional_if_all_its_outputs_are() -> None:
    made = planned(sound("a", optional=True), sound("b", start=1))
    assert [(one.outputs, one.is_optional) for one in made.measurements] == [(("b",), False), (("a",), True)]


def test_a_measurement_of_mpegts_reads_the_streams_of_its_command() -> None:
    """ffmpeg counts the times of MPEG-TS from the earliest stream that it reads."""
    film = {"name": "film", "type": "mp4", "audio": LOUD}
    (measurement,) = planned(film, facts=info(container="mpegts", has_discontinuities=True)).measurements
    assert isinstance(measurement, LoudnessMeasurement)
    assert measurement.also_read == ((0, 0),)
    (measurement,) = planned(film).measurements
    assert isinstance(measurement, LoudnessMeasurement)
    assert measurement.also_read == ()


def test_a_track_with_a_loudness_is_not_copied_and_a_copied_track_is_not_measured() -> None:
    facts = info(VIDEO, replace(ENGLISH, profile="LC"), replace(GERMAN, profile="LC"))
    english = {**LOUD, "language": "en", "copy": "auto"}
    film = {"name": "film", "type": "mp4", "audio": [english, {"language": "de", "copy": "auto"}]}
    copied = {"name": "b", "type": "mp4", "audio": [{"language": "de", "copy": "auto"}]}
    made = planned(film, copied, facts=facts)
    (measurement,) = made.measurements
    assert measurement.outputs == ("film",)
    (command,) = made.commands
    assert [one.stream for one in command.copies] == [2]


def test_a_plan_with_measurements_needs_the_whole_source() -> None:
    assert can_stream(planned(sound(audio={})))
    assert not can_stream(planned(sound()))


# -- the gain


def test_the_gain_leads_to_the_target() -> None:
    assert gains(with_loudness(-23.4, -20.0)) == [7.4]
    assert gains(with_loudness(-9.1, -1.5, target=-23)) == [-13.9]
    assert warning_codes(with_loudness(-23.4, -20.0)) == []


def test_a_gain_that_would_exceed_the_true_peak_is_smaller_and_named() -> None:
    made = with_loudness(-30.0, -6.0, true_peak=-2)
    assert gains(made) == [3.95]
    (warning,) = made.warnings
    assert (warning.code, warning.output) == ("loudness_limited", "a")
    assert warning.message == (
        "sound track 1 gets -26.1 LUFS instead of -16: with a gain above 3.95 dB its true peak would exceed "
        "-2 dBTP"
    )


def test_silence_is_not_changed_and_named() -> None:
    made = with_loudness(None, None)
    assert gains(made) == [0.0]
    assert warning_codes(made) == ["loudness_unknown"]


@given(
    st.floats(-70, 20), st.floats(-100, 40), st.floats(-70, -5).map(lambda x: round(x, 6)), st.floats(-9, 0)
)
def test_no_gain_exceeds_the_target_or_the_true_peak(
    lufs: float, peak: float, target: float, most: float
) -> None:
    made = with_loudness(lufs, peak, target=target, true_peak=round(most, 6))
    (gain,) = gains(made)
    assert gain is not None
    assert lufs + gain <= target + 0.01
    assert peak + gain <= most
    missing = target - lufs - gain
    if missing < 0.09 or missing > 0.11:
        assert warning_codes(made) == (["loudness_limited"] if missing > 0.1 else [])


def test_each_output_with_a_limited_sound_is_named_once() -> None:
    film = {"name": "film", "type": "mp4", "audio": [{**LOUD, "language": "en"}, {**LOUD, "language": "de"}]}
    made = planned(film, sound(), facts=BOTH)
    made = settled(made, [MeasuredLoudness(-30.0, -3.0), MeasuredLoudness(-20.0, -12.0)])
    limited = [warning.output for warning in made.warnings if warning.code == "loudness_limited"]
    assert limited == ["film", "a"]
    assert gains(made) == [1.95, 4.0]


# -- the arguments


def test_the_gain_is_a_number_in_the_graph() -> None:
    (graph,) = values_of(argv_of(planned(sound())), "-filter_complex")
    assert "aformat=sample_fmts=fltp:channel_layouts=stereo,volume=7.00dB" in graph


def test_a_plan_that_is_not_settled_has_no_arguments() -> None:
    made = planned(sound())
    with pytest.raises(ValueError, match="settle it"):
        arguments(made, made.commands[0], FFMPEG)


def test_a_measurement_is_a_node_of_the_plan() -> None:
    (measurement,) = planned(sound()).measurements
    assert isinstance(measurement, LoudnessMeasurement)
    assert measurement.weight > 0
