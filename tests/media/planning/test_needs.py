"""Tests that the parts of ffmpeg that a job needs are found in its request and in its plan."""

from functools import cache
from typing import Any

import pytest

from euterpe.media.ffmpeg import find_ffmpeg
from euterpe.media.ffmpeg_features import FfmpegFeatures, read_features
from euterpe.media.planning.argv import arguments, measurement_arguments
from euterpe.media.planning.needs import ALL_FEATURES, needs_of_outputs, needs_of_plan
from tests.media.planning.facts import FFMPEG, measured, planned, specs, values_of
from tests.media.planning.test_every_field import BASES, cases
from tests.media.planning.test_every_field import planned as planned_of


@cache
def bundled() -> FfmpegFeatures:
    return read_features(find_ffmpeg())


@pytest.mark.parametrize(("kind", "added"), [*cases()])
def test_the_needs_of_a_plan_are_in_its_arguments_and_in_the_bundled_ffmpeg(kind: str, added: Any) -> None:
    made = planned_of(kind, added)
    needed = needs_of_plan(made)
    assert bundled().missing(needed) == ()
    settled = measured(made)
    commands = [arguments(settled, command, FFMPEG) for command in settled.commands]
    searches = [one for one in made.measurements if one.kind == "search"]
    commands += [measurement_arguments(made, one, FFMPEG) for one in searches]
    words = [word for argv in commands for word in argv]
    encoders = {
        value
        for place, word in enumerate(words)
        if word.startswith(("-c:v", "-c:a"))
        for value in (words[place + 1],)
    }
    assert needed.encoders == encoders - {"copy"}
    assert needed.muxers >= set(values_of(words, "-f")) - _DEMUXERS


_DEMUXERS = {"matroska", "png_pipe", "webvtt", "null", "mov"}


def test_the_needs_of_a_request_are_among_those_of_its_plan() -> None:
    for kind, fields in BASES.items():
        output = {"name": "a", "type": kind, **fields}
        assert needs_of_outputs(specs(output)).encoders <= needs_of_plan(planned(output)).encoders, kind


@pytest.mark.parametrize(
    ("output", "encoders"),
    [
        ({"type": "mp4"}, {"libx264"}),
        ({"type": "mp4", "video": {"codec": "av1"}}, {"libsvtav1"}),
        ({"type": "mp4", "video": {"copy": "auto"}}, set()),
        ({"type": "mp4", "video": None}, set()),
        ({"type": "hls", "video": {"codec": "hevc", "ladder": [360]}}, {"libx265"}),
        ({"type": "mp3"}, {"libmp3lame"}),
        ({"type": "opus", "audio": {"copy": "auto"}}, set()),
        ({"type": "image", "at": ["50%"], "format": "avif"}, {"libaom-av1"}),
        ({"type": "preview", "format": "gif"}, {"gif"}),
    ],
)
def test_the_encoders_that_a_request_surely_needs(output: dict[str, Any], encoders: set[str]) -> None:
    assert needs_of_outputs(specs({"name": "a", **output})).encoders == encoders


def test_the_bundled_ffmpeg_has_everything() -> None:
    assert bundled().missing(ALL_FEATURES) == ()


def test_the_filters_of_a_measured_film_are_found() -> None:
    film = {"name": "a", "type": "mp4", "vmaf_min": 90, "audio": {"codec": "aac", "loudness": {}}}
    assert {"libvmaf", "ebur128", "volume", "scale"} <= needs_of_plan(planned(film)).filters
