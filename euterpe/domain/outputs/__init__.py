"""Output specs: the files that a job can make from its source, by the type of output."""

from typing import Annotated

from pydantic import AfterValidator

from euterpe.domain.model import Items, Typed
from euterpe.domain.outputs.adaptive import (
    AdaptiveOutput,
    AdaptiveVideo,
    DashOutput,
    HlsOutput,
    Rung,
    SegmentedOutput,
    encryptions,
)
from euterpe.domain.outputs.common import BaseOutput, Crop, Pad, PictureOutput
from euterpe.domain.outputs.encryption import Encryption
from euterpe.domain.outputs.files import FilmOutput, MovOutput, Mp4Output, Video, WebmOutput
from euterpe.domain.outputs.pictures import BEST, ImageOutput, PreviewOutput, SpriteOutput
from euterpe.domain.outputs.sound import (
    Audio,
    FlacOutput,
    Loudness,
    M4aOutput,
    Mp3Output,
    OpusOutput,
    SoundOutput,
)
from euterpe.domain.outputs.tags import Tags
from euterpe.domain.outputs.watermark import Watermark

__all__ = [
    "BEST",
    "AdaptiveOutput",
    "AdaptiveVideo",
    "Audio",
    "BaseOutput",
    "Crop",
    "DashOutput",
    "Encryption",
    "FilmOutput",
    "FlacOutput",
    "HlsOutput",
    "ImageOutput",
    "Loudness",
    "M4aOutput",
    "MovOutput",
    "Mp3Output",
    "Mp4Output",
    "OpusOutput",
    "OutputSpec",
    "OutputSpecs",
    "Pad",
    "PictureOutput",
    "PreviewOutput",
    "Rung",
    "SegmentedOutput",
    "SoundOutput",
    "SpriteOutput",
    "Tags",
    "Video",
    "Watermark",
    "WebmOutput",
    "encryptions",
    "single_file",
]

OutputSpec = Annotated[
    HlsOutput
    | DashOutput
    | AdaptiveOutput
    | Mp4Output
    | MovOutput
    | WebmOutput
    | M4aOutput
    | Mp3Output
    | OpusOutput
    | FlacOutput
    | ImageOutput
    | SpriteOutput
    | PreviewOutput,
    *Typed,
]


def _names_differ(outputs: tuple[OutputSpec, ...]) -> tuple[OutputSpec, ...]:
    names = [output.name for output in outputs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"must have different names; given more than once: {', '.join(twice)}")
    return outputs


OutputSpecs = Annotated[tuple[OutputSpec, ...], Items(1, 20), AfterValidator(_names_differ)]


def single_file(output: OutputSpec) -> str | None:
    """Return the path of an output that is one file, or None for an output that is a folder of files."""
    if isinstance(output, PreviewOutput):
        return f"{output.name}.{output.format}"
    return f"{output.name}.{output.type}" if isinstance(output, FilmOutput | SoundOutput) else None
