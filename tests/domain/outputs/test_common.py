"""The rules that all types of output share: numbers, times, crop, padding and the choice of the codec."""

from fractions import Fraction
from typing import Any

import pytest
from pydantic import ValidationError

from euterpe.domain.outputs import Audio, M4aOutput, Mp4Output, Pad, PictureOutput, Tags, Video, WebmOutput
from euterpe.domain.spec import parse_spec
from tests.domain.documents import EXAMPLE, altered, refusals
from tests.domain.outputs.one_output import HLS, MP4, SPRITE, parsed, refused


@pytest.mark.parametrize(
    ("loc", "least", "most"),
    [
        ((HLS, "segment_seconds"), 1, 60),
        ((HLS, "audio", "bitrate_kbps"), 8, 1024),
        ((MP4, "video", "height"), 16, 4320),
        ((MP4, "video", "crf"), 0, 51),
        ((SPRITE, "interval_seconds"), 1, 3600),
        ((SPRITE, "columns"), 1, 50),
    ],
)
def test_every_number_has_bounds(loc: tuple[str | int, ...], least: int, most: int) -> None:
    for fine in (least, most):
        parse_spec(altered(EXAMPLE, "outputs", *loc, to=fine))
    for wrong in (least - 2, most + 2, float(least), str(least), True):
        assert list(refusals(altered(EXAMPLE, "outputs", *loc, to=wrong))) == [("outputs", *loc)]


def test_settings_without_a_codec_get_that_of_their_output() -> None:
    webm = parsed({"type": "webm", "video": {"crf": 60}, "audio": [{"language": "de"}, {"codec": None}]})
    assert isinstance(webm, WebmOutput)
    assert webm.video == Video(codec="vp9", crf=60)
    assert webm.audio == (Audio(codec="opus", language="de"), Audio(codec="opus"))


def test_models_made_in_python_get_the_same_codecs() -> None:
    webm = WebmOutput(name="a", type="webm", video=Video(height=720), audio=Audio(channels="mono"))
    assert webm.video == Video(codec="vp9", height=720)
    assert webm.audio == Audio(codec="opus", channels="mono")
    with pytest.raises(ValidationError):
        M4aOutput(name="a", type="m4a", audio=Audio(codec="mp3"))


def test_a_codec_of_another_output_is_reported_beside_other_errors() -> None:
    wrong = {"type": "m4a", "audio": {"codec": "opus", "bitrate_kbps": 5000, "channels": "quad"}}
    assert refused(wrong) == {
        ("audio", "codec"): "must be 'aac'",
        ("audio", "bitrate_kbps"): "must be at most 1024",
        ("audio", "channels"): "must be 'stereo', 'mono' or 'keep'",
    }


def test_a_part_of_the_source_begins_before_it_ends() -> None:
    part = parsed({"type": "mp4", "start": 5, "end": 7.25})
    assert (part.start, part.end) == (5.0, 7.25)
    for start, end in ((5, 5), (5, 4), (None, 0), (0, 0)):
        assert refused({"type": "mp4", "start": start, "end": end}) == {("end",): "must be after start"}


@pytest.mark.parametrize("number", [-1, 1_000_001, float("nan"), float("inf"), "5", True, None.__class__])
def test_a_time_is_a_finite_number(number: Any) -> None:
    assert list(refused({"type": "m4a", "start": number})) == [("start",)]


def test_a_time_has_microseconds_and_no_sign() -> None:
    part = parsed({"type": "m4a", "start": -0.0, "end": 1.00000049})
    assert (str(part.start), part.end) == ("0.0", 1.0)


def test_a_picture_is_turned_by_quarters() -> None:
    for kind in ("mp4", "sprite", "preview"):
        turned = parsed({"type": kind, "rotate": 270})
        assert isinstance(turned, PictureOutput)
        assert turned.rotate == 270
    for wrong in (45, -90, 360, "90", True, None):
        assert list(refused({"type": "mp4", "rotate": wrong})) == [("rotate",)]
    assert refused({"type": "mp4", "rotate": 90, "video": None}) == {
        ("video",): "must not be null beside rotate"
    }
    assert list(refused({"type": "m4a", "rotate": 90})) == [("rotate",)]


def test_crop_and_pad_need_a_picture() -> None:
    film = parsed({"type": "mp4", "crop": {"top": 20}, "pad": {"aspect": "16:9"}})
    assert isinstance(film, Mp4Output)
    assert film.crop is not None
    assert (film.crop.left, film.crop.top) == (0, 20)
    assert refused({"type": "mp4", "video": None, "pad": {"aspect": "1:1"}}) == {
        ("video",): "must not be null beside pad"
    }
    assert list(refused({"type": "m4a", "crop": {}})) == [("crop",)]


@pytest.mark.parametrize(
    ("aspect", "ratio"),
    [("16:9", Fraction(16, 9)), ("1:10", Fraction(1, 10)), ("239:100", Fraction(239, 100))],
)
def test_an_aspect_is_a_ratio(aspect: str, ratio: Fraction) -> None:
    assert Pad(aspect=aspect).ratio == ratio


@pytest.mark.parametrize(
    "aspect", ["16/9", "0:1", "1:0", "11:1", "1:11", "16:9\n", "1.85:1", "99999:1", "", 1.5]
)
def test_an_aspect_is_nothing_else(aspect: Any) -> None:
    assert list(refused({"type": "image", "at": "best", "pad": {"aspect": aspect}})) == [("pad", "aspect")]


def test_the_tags_of_a_file_are_dropped_kept_or_given() -> None:
    for metadata in ("strip", "keep", {}, {"title": "News", "date": None}):
        parsed({"type": "opus", "metadata": metadata})
    film = parsed({"type": "mp4", "metadata": {"title": "News"}})
    assert isinstance(film, Mp4Output)
    assert film.metadata == Tags(title="News")
    assert list(refused({"type": "mp4", "metadata": "drop"})) == [("metadata",)]
    assert list(refused({"type": "mp4", "metadata": {"title": "a\nb", "encoder": "x"}})) == [
        ("metadata", "title"),
        ("metadata", "encoder"),
    ]
