"""The subtitle files that a command reads in addition to the source.

We write these files, and ffmpeg only copies their packets.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from euterpe.media.planning.tree import Command, File, SubtitleTrack

# The folder of the subtitle files. It begins with a dot, so it is never the name of an output.
SUBTITLES = ".subtitles"


@dataclass(frozen=True)
class TextInput:
    """A subtitle file in the folder of an encode.

    The file has one track, whose packets are copied into a film.
    """

    product: int  # the index of the film file in the command
    track: SubtitleTrack
    demuxer: str
    suffix: str

    @property
    def name(self) -> str:
        return f"{self.track.name}.{self.suffix}"

    @property
    def path(self) -> str:
        return f"{SUBTITLES}/{self.name}"


def text_inputs(command: Command) -> tuple[TextInput, ...]:
    """Return the subtitle files in the order in which ffmpeg opens them, after all other inputs."""
    return tuple(_text_inputs(command))


def _text_inputs(command: Command) -> Iterator[TextInput]:
    for place, product in enumerate(command.products):
        if isinstance(product, File):
            # WebM holds WebVTT, and MP4 and MOV hold the timed text of 3GPP.
            kind = ("webvtt", "vtt") if product.muxer == "webm" else ("mov", "mp4")
            yield from (TextInput(place, track, *kind) for track in product.subtitles)
