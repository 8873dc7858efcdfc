"""Test that no field of an output is accepted and then ignored: each one changes the plan."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from pydantic import TypeAdapter

from euterpe.domain.outputs import OutputSpecs
from euterpe.media.planning.planner import plan
from euterpe.media.planning.tree import Plan
from euterpe.media.source.colour import Colour
from euterpe.media.source.media_info import MediaInfo, StreamInfo
from euterpe.media.source.watermark_info import WatermarkInfo

Fields = Mapping[str, Any]

VIDEO = StreamInfo(
    0, "video", "hevc", 60.0, width=1920, height=1080, fps=25.0, colour=Colour(9, 16, 9), bit_depth=10
)
SURROUND = StreamInfo(1, "audio", "ac3", 60.0, channels=6, sample_rate=48_000, language="eng")
GERMAN = replace(SURROUND, index=2, language="ger")
TEXT = StreamInfo(3, "subtitle", "subrip", 60.0, language="eng")
SOURCE = MediaInfo("matroska", 10_000_000, 60.0, (VIDEO, SURROUND, GERMAN, TEXT))

PART: Fields = {"start": 5, "end": 20, "optional": True}
LOGO = {"source": {"url": "s3://in/logo.png"}}
SHAPE: Fields = {"crop": {"left": 100}, "rotate": 180, "pad": {"aspect": "1:1"}, "watermark": LOGO}
MARKS: Fields = {"position": "center", "width_percent": 40, "margin_percent": 9, "opacity": 0.5}
SOUNDS: tuple[Fields, ...] = (
    *({"bitrate_kbps": 48}, {"channels": "mono"}, {"channels": "keep"}, {"language": "de"}, {"loudness": {}}),
)
SUBTITLES: Fields = {"subtitles": ["en"]}
RUNG = {"height": 720, "bitrate_kbps": 999}
MEASURED = {"measure": ["psnr"], "vmaf_min": 90}
TARGET = {"target": {"vmaf": 93}}
VIDEOS: dict[str, Fields] = {
    "adaptive": {"codec": "vp9", "fps": 10, "hdr": "keep", "ladder": "auto", **TARGET},
    "film": {"crf": 30, "bitrate_kbps": 999, "fps": 10, "hdr": "keep", "height": 480, **TARGET},
}
BASES: dict[str, Fields] = {
    **{name: {"video": {"codec": "hevc", "ladder": [720, 360]}} for name in ("hls", "dash", "adaptive")},
    **{"mp4": {"video": {"codec": "hevc"}}, "mov": {"video": {"codec": "hevc"}}, "webm": {"video": {}}},
    **{"m4a": {}, "mp3": {}, "opus": {}, "flac": {}, "image": {"at": ["50%"]}, "sprite": {}, "preview": {}},
}


def changes(kind: str) -> Iterator[Fields]:
    """Yield fields to add to an output of this kind. Each value must change the plan."""
    yield from ({name: value} for name, value in PART.items())
    if kind in ("m4a", "mp3", "opus", "flac"):
        # These values change nothing: FLAC has no bit rate, and MP3 gets at most two channels in any case.
        without = {"flac": {"bitrate_kbps": 48}, "mp3": {"channels": "keep"}}
        yield from ({"audio": sound} for sound in SOUNDS if sound != without.get(kind))
        yield from ({"metadata": "keep"}, {"metadata": {"title": "Interview"}})
        return
    yield from ({name: value} for name, value in SHAPE.items())
    if kind not in ("image", "sprite", "preview"):
        yield from ({name: value} for name, value in MEASURED.items())
    match kind:
        case "image":
            yield from ({"format": "webp"}, {"format": "avif"}, {"width": 320}, {"at": "best"})
        case "sprite":
            yield from ({"interval_seconds": 3}, {"columns": 3}, {"vtt": False}, {"width": 100})
        case "preview":
            yield from ({"format": "gif"}, {"seconds": 1}, {"width": 100}, {"fps": 5})
        case "mp4" | "mov" | "webm":
            yield from (
                {"video": {**BASES[kind]["video"], name: value}} for name, value in VIDEOS["film"].items()
            )
            yield from ({"audio": sound} for sound in (*SOUNDS, None, "all"))
            yield from ({"metadata": "keep"}, {"metadata": {"title": "Interview"}}, {"video": None})
            yield SUBTITLES
            yield from [{"fragmented": True}] if kind == "mp4" else []
        case _:
            video = BASES[kind]["video"]
            yield from ({"video": {**video, name: value}} for name, value in VIDEOS["adaptive"].items())
            yield from ({"video": {**video, "ladder": [rung, 360]}} for rung in (RUNG, {**RUNG, "crf": 30}))
            yield from ({"audio": sound} for sound in (*SOUNDS, None, "all"))
            yield from ({"segment_seconds": 7}, {"trick_play": True}, {"subtitles": "all"})
            yield from [{"encryption": {"key_url": "https://keys.example/1"}}] if kind == "hls" else []


def cases() -> Iterator[Any]:
    for kind in BASES:
        for place, added in enumerate(changes(kind)):
            (field,) = added
            yield pytest.param(kind, added, id=f"{kind}-{place}-{field}")


def planned(kind: str, fields: Fields, source: MediaInfo = SOURCE) -> Plan:
    outputs = [{"name": "a", "type": kind, **BASES[kind], **fields}]
    watermarks = {"s3://in/logo.png": WatermarkInfo("png_pipe", 0, 300, 200)}
    made = plan(TypeAdapter(OutputSpecs).validate_python(outputs), source, threads=1, watermarks=watermarks)
    return replace(made, warnings=())  # a warning does not change the output


@pytest.mark.parametrize(("kind", "added"), [*cases()])
def test_every_field_of_an_output_changes_its_plan(kind: str, added: Fields) -> None:
    """An earlier version accepted and ignored `pad` of pictures and `end` of previews."""
    assert planned(kind, added) != planned(kind, {})


_ENDS: Fields = {"first_seconds": 0.0, "end_seconds": 60.0}
_FITTING = {"aac": "LC", "mp3": None, "opus": None, "flac": None}


@pytest.mark.parametrize("kind", ["mp4", "mov", "webm", "m4a", "mp3", "opus", "flac"])
def test_a_copy_that_fits_changes_the_plan(kind: str) -> None:
    codec = {"mp4": "aac", "mov": "aac", "webm": "opus", "m4a": "aac"}.get(kind, kind)
    sound = replace(SURROUND, codec=codec, profile=_FITTING[codec], channels=2, **_ENDS)
    video = StreamInfo(
        *(0, "video", "vp9" if kind == "webm" else "hevc", 60.0),
        **{"width": 1920, "height": 1080, "fps": 25.0, "pixel_format": "yuv420p", **_ENDS},
        profile="Profile 0" if kind == "webm" else "Main",
        starts_with_keyframe=True,
    )
    source = MediaInfo("matroska", 10_000_000, 60.0, (video, sound))
    assert planned(kind, {"audio": {"copy": "auto"}}, source) != planned(kind, {}, source)
    if "video" in BASES[kind]:
        copied = {"video": {**BASES[kind]["video"], "copy": "auto"}}
        assert planned(kind, copied, source) != planned(kind, {}, source)


@pytest.mark.parametrize("kind", ["hls", "mp4", "image", "sprite", "preview"])
@pytest.mark.parametrize(("field", "value"), MARKS.items())
def test_every_field_of_a_watermark_changes_the_plan(kind: str, field: str, value: object) -> None:
    assert planned(kind, {"watermark": {**LOGO, field: value}}) != planned(kind, {"watermark": LOGO})


@pytest.mark.parametrize(
    ("kind", "size"), [("image", (1080, 1920)), ("sprite", (160, 284)), ("preview", (480, 854))]
)
def test_pictures_are_padded(kind: str, size: tuple[int, int]) -> None:
    """A sprite sheet has bars around each thumbnail, and the areas in its cues include these bars."""
    fields = {"crop": {"left": 420, "right": 420}} if kind == "image" else {}
    made = planned(kind, {"pad": {"aspect": "9:16"}, **fields})
    ((scale,),) = [command.scales for command in made.commands]
    assert (scale.shown_width, scale.shown_height) == size


def test_a_preview_ends_at_the_end_of_its_part() -> None:
    (command,) = planned("preview", {"start": 10, "end": 11.5}).commands
    (source,) = command.inputs
    assert (source.start, source.seconds) == (10.0, 1.5)
