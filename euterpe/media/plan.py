"""Build the one ffmpeg command that makes all outputs of a job from its source. No I/O.

ffmpeg decodes a stream once, however many outputs use it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import assert_never

from euterpe.domain.outputs import HlsOutput, ImageOutput, M4aOutput, Mp4Output, OutputSpec, SpriteOutput
from euterpe.media.audio_video import m4a, mp4
from euterpe.media.errors import MediaError
from euterpe.media.hls import hls
from euterpe.media.media_info import MediaInfo
from euterpe.media.planned_files import Planned, PlannedFile
from euterpe.media.stills import image, refuse_too_many, sprite
from euterpe.media.whitelist import DEMUXER_OPTIONS, MAX_BLOCK_BYTES

# The file descriptor of the source in a sandboxed child.
SOURCE_FD = 3

_QUIET = ("-hide_banner", "-nostdin", "-nostats", "-loglevel", "level+warning")


@dataclass(frozen=True)
class Plan:
    outputs: tuple[str, ...]  # the ffmpeg arguments of all outputs
    files: tuple[PlannedFile, ...]
    container: str
    threads: int
    duration_seconds: float | None

    @property
    def least_seconds(self) -> float | None:
        """Return the least progress, in seconds, of an encode that reached the end of its source."""
        known = [t.least_seconds for file in self.files for t in file.tracks if t.least_seconds is not None]
        return min(known, default=None)

    def argv(self, ffmpeg: Path) -> tuple[str, ...]:
        """Return the command line: input from an open file, only this container, progress on stdout."""
        pinned = {**DEMUXER_OPTIONS, "format_whitelist": self.container, "f": self.container}
        return (
            *(str(ffmpeg), *_QUIET, "-xerror", "-max_alloc", str(MAX_BLOCK_BYTES)),
            *("-progress", "pipe:1", "-stats_period", "0.5"),
            *(word for name, value in pinned.items() for word in (f"-{name}", value)),
            *("-threads", str(self.threads), "-fd", str(SOURCE_FD), "-i", "fd:"),
            *self.outputs,
        )


def plan(outputs: Sequence[OutputSpec], info: MediaInfo, *, threads: int) -> Plan:
    """Return the command that makes all of `outputs` from the source that `info` describes.

    `threads` is the number of decoder threads; it does not change the decoded pictures. The number of encoder
    threads follows from the picture size, so that the same plan makes the same bytes on every worker.
    """
    refuse_too_many((output for output in outputs if isinstance(output, SpriteOutput)), info)
    planned = [_plan_one(output, info) for output in outputs]
    files = tuple(file for one in planned for file in one.files)
    _refuse_a_clash(files)
    words = tuple(word for one in planned for word in one.words)
    return Plan(words, files, info.container, threads, info.duration_seconds)


def _refuse_a_clash(files: Sequence[PlannedFile]) -> None:
    """Raise when a file and a folder would share a name: HLS output `a.mp4` and MP4 output `a`, say."""
    folders = {str(PurePosixPath(file.path).parent) for file in files}
    if both := sorted(folders & {file.path for file in files}):
        raise MediaError("output_unsupported", f"{both[0]} would be a file and a folder: rename an output")


def _plan_one(output: OutputSpec, info: MediaInfo) -> Planned:
    match output:
        case Mp4Output():
            return mp4(output, info)
        case M4aOutput():
            return m4a(output, info)
        case HlsOutput():
            return hls(output, info)
        case ImageOutput():
            return image(output, info)
        case SpriteOutput():
            return sprite(output, info)
        case _:
            assert_never(output)
