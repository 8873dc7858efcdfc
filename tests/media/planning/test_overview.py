"""Tests of the description of a plan that people read."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from euterpe.domain.documents import PlanDocument, PlannedOutputDocument, PlannedTrackDocument, fields_of
from euterpe.domain.outputs import OutputSpecs
from euterpe.media.errors import MediaError
from euterpe.media.planning.documents import plan_hash
from euterpe.media.planning.overview import plan_overview
from euterpe.media.planning.planner import plan
from euterpe.media.planning.watermark import assumed_watermarks
from euterpe.media.source.media_info import MediaInfo
from tests.media.planning.facts import AUDIO, SUBTITLE, VIDEO, info, media_infos, spec_lists, specs


def overview(*outputs: dict[str, Any], facts: MediaInfo | None = None) -> dict[str, Any]:
    given_, source = specs(*outputs), facts or info()
    return plan_overview(plan(given_, source, threads=1), given_, source)


def names(document: type) -> set[str]:
    return {one.name for one in fields_of(document)}


@given(spec_lists, media_infos())
def test_every_plan_has_an_overview(outputs: OutputSpecs, facts: MediaInfo) -> None:
    try:
        made = plan(outputs, facts, threads=1, watermarks=assumed_watermarks(outputs))
    except MediaError:
        return
    found = plan_overview(made, outputs, facts)
    assert set(found) == names(PlanDocument)
    assert found["plan_hash"] == plan_hash(made)
    assert [output["name"] for output in found["outputs"]] == [*made.outputs]
    for output in found["outputs"]:
        assert set(output) == names(PlannedOutputDocument)
        assert output["tracks"]
        assert output["expected_bytes"] is None or output["expected_bytes"] >= 0
        assert all(set(track) == names(PlannedTrackDocument) for track in output["tracks"])
    json.dumps(found, allow_nan=False)


def test_a_part_beyond_the_other_streams_has_no_negative_length() -> None:
    """The headers of a video stream can declare a duration that is longer than the film."""
    longer = replace(VIDEO, duration_seconds=30.0, end_seconds=None, latest_seconds=None)
    (output,) = overview({"name": "film", "type": "mp4", "start": 20}, facts=info(longer, AUDIO))["outputs"]
    assert (output["duration_seconds"], output["expected_bytes"]) == (0.0, 0)


def test_a_ladder_lists_each_rung_each_sound_and_each_text() -> None:
    german = replace(AUDIO, index=3, language="ger")
    (output,) = overview(
        {
            "name": "stream",
            "type": "adaptive",
            "video": {"ladder": [720, 360]},
            "audio": "all",
            "subtitles": "all",
        },
        facts=info(VIDEO, AUDIO, SUBTITLE, german),
    )["outputs"]
    assert [(one["kind"], one["height"], one["language"], one["action"]) for one in output["tracks"]] == [
        ("video", 720, None, "encode"),
        ("video", 360, None, "encode"),
        ("audio", None, None, "encode"),
        ("audio", None, "ger", "encode"),
        ("subtitle", None, None, "convert"),
    ]


def test_a_film_lists_what_is_copied_and_its_texts() -> None:
    copies = {"video": {"copy": "auto"}, "audio": {"copy": "auto"}, "subtitles": "all"}
    film, edit = overview(
        {"name": "film", "type": "mp4", **copies},
        {"name": "edit", "type": "webm", "subtitles": "all"},
        facts=info(VIDEO, AUDIO, replace(SUBTITLE, language="ger")),
    )["outputs"]
    assert [(one["kind"], one["codec"], one["action"], one["bitrate"]) for one in film["tracks"]] == [
        ("video", "h264", "copy", 5_000_000),
        ("audio", "aac", "copy", 128_000),
        ("subtitle", "mov_text", "convert", None),
    ]
    assert (film["tracks"][0]["height"], film["tracks"][2]["language"]) == (1080, "ger")
    assert edit["tracks"][2]["codec"] == "webvtt"


def test_an_average_rate_is_the_expected_size() -> None:
    film = {"name": "film", "type": "mp4", "end": 5.0, "video": {"bitrate_kbps": 1_000}, "audio": None}
    (output,) = overview(film)["outputs"]
    assert (output["duration_seconds"], output["expected_bytes"]) == (5.0, 625_000)


def test_a_lower_quality_is_expected_to_be_smaller() -> None:
    def size(**video: Any) -> int:
        (output,) = overview({"name": "film", "type": "mp4", "video": video})["outputs"]
        return int(output["expected_bytes"])

    assert size(crf=17) == pytest.approx(2 * size(crf=23), rel=0.1)
    assert size(height=360) < size(height=720) < size()
    assert size(codec="av1") < size(codec="hevc") < size()
    assert size(crf=10, bitrate_kbps=500) < size(crf=10)


def test_pictures_have_no_duration() -> None:
    poster, preview = overview(
        {"name": "poster", "type": "image", "at": ["0s", "50%"], "width": 640},
        {"name": "card", "type": "preview", "seconds": 2, "width": 320},
    )["outputs"]
    assert poster["duration_seconds"] is None
    assert [one["width"] for one in poster["tracks"]] == [640, 640]
    assert preview["duration_seconds"] == 2
