"""The settings of film files: picture, subtitles and measured quality."""

from typing import Any

import pytest

from euterpe.domain.outputs import MovOutput, Mp4Output, WebmOutput
from euterpe.domain.spec import parse_spec
from tests.domain.documents import EXAMPLE, altered, refusals
from tests.domain.outputs.one_output import MP4, parsed, refused


def test_a_height_is_even() -> None:
    refused = refusals(altered(EXAMPLE, "outputs", MP4, "video", "height", to=721))
    assert refused == {("outputs", MP4, "video", "height"): "must be a multiple of 2"}


@pytest.mark.parametrize(("codec", "most"), [("h264", 51), ("hevc", 51), ("av1", 63)])
def test_the_greatest_crf_depends_on_the_codec(codec: str, most: int) -> None:
    loc = ("outputs", MP4, "video", "crf")
    of_codec = altered(EXAMPLE, *loc[:-1], "codec", to=codec)
    parse_spec(altered(of_codec, *loc, to=most))
    assert list(refusals(altered(of_codec, *loc, to=most + 1))) == [loc]


def test_hdr_needs_a_codec_that_can_hold_it() -> None:
    assert refused({"type": "mp4", "video": {"hdr": "keep"}}) == {
        ("video", "hdr"): "must be 'sdr' for h264: 'hevc', 'vp9' or 'av1' can keep HDR"
    }
    parsed({"type": "mp4", "video": {"codec": "hevc", "hdr": "keep"}})


def test_a_stream_may_be_copied() -> None:
    film = parsed({"type": "mp4", "video": {"copy": "auto"}, "audio": [{"copy": "auto"}, {"language": "de"}]})
    assert isinstance(film, Mp4Output)
    assert film.video is not None
    assert film.video.copies == "auto"
    assert isinstance(film.audio, tuple)
    assert [one.copies for one in film.audio] == ["auto", "never"]
    document = film.model_dump(mode="json")
    assert (document["video"]["copy"], document["audio"][0]["copy"]) == ("auto", "auto")
    assert refused({"type": "mp4", "video": {"copy": "always"}}) == {
        ("video", "copy"): "must be 'never' or 'auto'"
    }
    assert refused({"type": "mp4", "video": {"copies": "auto"}}) == {
        ("video", "copies"): "is not a known field"
    }


@pytest.mark.parametrize("kind", ["hls", "dash", "adaptive"])
def test_streams_for_adaptive_players_are_never_copied(kind: str) -> None:
    stream = {"type": kind, "video": {"ladder": "auto"}}
    why = "must be 'never': streams for adaptive players are always encoded"
    assert refused({**stream, "audio": {"copy": "auto"}}) == {("audio", "copy"): why}
    assert refused({**stream, "audio": [{"language": "en"}, {"copy": "auto"}]}) == {("audio", 1, "copy"): why}
    assert list(refused({**stream, "video": {"ladder": "auto", "copy": "auto"}})) == [("video", "copy")]
    parsed({**stream, "audio": {"copy": "never"}})


def test_a_film_has_subtitles_by_language() -> None:
    film = parsed({"type": "webm", "video": None, "subtitles": ["en", "DE"]})
    assert isinstance(film, WebmOutput)
    assert film.subtitles == ("en", "de")
    assert list(refused({"type": "mp4", "subtitles": "en"})) == [("subtitles",)]


def test_a_film_has_a_picture_or_sound() -> None:
    film = parsed({"type": "mov", "video": None})
    assert isinstance(film, MovOutput)
    assert film.video is None
    assert refused({"type": "mp4", "video": None, "audio": None}) == {
        ("audio",): "must not be null if video is null"
    }


def test_metrics_are_named_once_each() -> None:
    measure = {"type": "mp4", "measure": ["vmaf", "vmaf"]}
    assert refused(measure) == {("measure",): "must not have the same item twice"}
    assert list(refused({"type": "mp4", "measure": ["vmaf", "niqe"]})) == [("measure", 1)]


@pytest.mark.parametrize("vmaf", [-1, 100.5])
def test_a_least_vmaf_is_between_0_and_100(vmaf: float) -> None:
    assert list(refused({"type": "mp4", "vmaf_min": vmaf})) == [("vmaf_min",)]


@pytest.mark.parametrize("wanted", [{"measure": ["psnr"]}, {"vmaf_min": 0}])
def test_the_quality_of_a_film_without_a_picture_is_not_measured(wanted: dict[str, Any]) -> None:
    (name,) = wanted
    why = f"must not be null beside {name}"
    assert refused({"type": "mp4", "video": None, **wanted}) == {("video",): why}
    assert list(refused({"type": "mp4", "video": wanted})) == [("video", name)]


@pytest.mark.parametrize("kind", ["m4a", "image", "sprite", "preview"])
def test_only_films_are_measured(kind: str) -> None:
    output = {"type": kind, **({"at": ["50%"]} if kind == "image" else {})}
    assert list(refused({**output, "measure": ["psnr"]})) == [("measure",)]


@pytest.mark.parametrize("vmaf", [19, 99.5])
def test_a_target_is_between_20_and_99(vmaf: float) -> None:
    video = {"target": {"vmaf": vmaf}}
    assert list(refused({"type": "mp4", "video": video})) == [("video", "target", "vmaf")]
