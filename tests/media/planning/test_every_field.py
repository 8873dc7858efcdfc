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

Fields = Mapping[str, Any]

VIDEO = StreamInfo(
    0, "video", "hevc", 60.0, width=1920, height=1080, fps=25.0, colour=Colour(9, 16, 9), bit_depth=10
)
SURROUND = StreamInfo(1, "audio", "ac3", 60.0, channels=6, sample_rate=48_000, language="eng")
GERMAN = replace(SURROUND, index=2, language="ger")
TEXT = StreamInfo(3, "subtitle", "subrip", 60.0, language="eng")
SOURCE = MediaInfo("matroska", 10_000_000, 60.0, (VIDEO, SURROUND, GERMAN, TEXT))

PART: Fields = {"start": 5, "end": 20, "optional": True}
SHAPE: Fields = {"crop": {"left": 100}, "pad": {"aspect": "1:1"}}
SOUNDS = ({"bitrate_kbps": 48}, {"channels": "mono"}, {"channels": "keep"}, {"language": "de"})
RUNG = {"height": 720, "bitrate_kbps": 999}
VIDEOS: dict[str, Fields] = {
    "adaptive": {"codec": "vp9", "fps": 10, "hdr": "keep", "ladder": "auto"},
    "film": {"crf": 30, "bitrate_kbps": 999, "fps": 10, "hdr": "keep", "height": 480},
}
BASES: dict[str, Fields] = {
    **{name: {"video": {"codec": "hevc", "ladder": [720, 360]}} for name in ("hls", "dash", "adaptive")},
    **{"mp4": {"video": {"codec": "hevc"}}, "mov": {"video": {"codec": "hevc"}}, "webm": {"video": {}}},
    **{"m4a": {}, "mp3": {}, "opus": {}, "flac": {}, "image": {"at": ["50%"]}, "sprite": {}, "preview": {}},
}


def changes(kind: str) -> Iterator[Fields]:
    """Yield the fields to add to the output of this kind, each with a value that must matter."""
    yield from ({name: value} for name, value in PART.items())
    if kind in ("m4a", "mp3", "opus", "flac"):
        lossless = kind == "flac"
        yield from ({"audio": sound} for sound in SOUNDS if not (lossless and "bitrate_kbps" in sound))
        yield from ({"metadata": "keep"}, {"metadata": {"title": "Interview"}})
        return
    yield from ({name: value} for name, value in SHAPE.items())
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
            yield from [{"fragmented": True}] if kind == "mp4" else []
        case _:
            video = BASES[kind]["video"]
            yield from ({"video": {**video, name: value}} for name, value in VIDEOS["adaptive"].items())
            yield from ({"video": {**video, "ladder": [rung, 360]}} for rung in (RUNG, {**RUNG, "crf": 30}))
            yield from ({"audio": sound} for sound in (*SOUNDS, None, "all"))
            yield from ({"segment_seconds": 7}, {"trick_play": True}, {"subtitles": "all"})


def cases() -> Iterator[Any]:
    for kind in BASES:
        for place, added in enumerate(changes(kind)):
            (field,) = added
            yield pytest.param(kind, added, id=f"{kind}-{place}-{field}")


def planned(kind: str, fields: Fields) -> Plan:
    outputs = [{"name": "a", "type": kind, **BASES[kind], **fields}]
    made = plan(TypeAdapter(OutputSpecs).validate_python(outputs), SOURCE, threads=1)
    return replace(made, warnings=())  # a warning is no effect on the output


@pytest.mark.parametrize(("kind", "added"), [*cases()])
def test_every_field_of_an_output_changes_its_plan(kind: str, added: Fields) -> None:
    """`pad` of pictures and `end` of previews were accepted and ignored."""
    assert planned(kind, added) != planned(kind, {})


@pytest.mark.parametrize(
    ("kind", "size"), [("image", (1080, 1920)), ("sprite", (160, 284)), ("preview", (480, 854))]
)
def test_pictures_are_padded(kind: str, size: tuple[int, int]) -> None:
    """A sheet of thumbnails has bars around each of them, and the cues count the bars."""
    fields = {"crop": {"left": 420, "right": 420}} if kind == "image" else {}
    made = planned(kind, {"pad": {"aspect": "9:16"}, **fields})
    ((scale,),) = [command.scales for command in made.commands]
    assert (scale.shown_width, scale.shown_height) == size


def test_a_preview_ends_at_the_end_of_its_part() -> None:
    (command,) = planned("preview", {"start": 10, "end": 11.5}).commands
    (source,) = command.inputs
    assert (source.start, source.seconds) == (10.0, 1.5)
