"""Build the one ffmpeg command that makes all outputs of a job from its source. No I/O.

ffmpeg decodes a stream once, however many outputs use it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import assert_never

from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.outputs import HlsOutput, ImageOutput, M4aOutput, Mp4Output, OutputSpec, SpriteOutput
from euterpe.media.errors import MediaError
from euterpe.media.planning.encoders import BITEXACT, MUXING_QUEUE, NO_TAGS, audio_arguments, video_arguments
from euterpe.media.planning.hls import hls
from euterpe.media.planning.picture import filters, fitted_size
from euterpe.media.planning.planned_files import Planned, PlannedFile, Track, least_seconds, mapped, video_of
from euterpe.media.planning.stills import image, refuse_too_many, sprite
from euterpe.media.source.media_info import MediaInfo
from euterpe.media.whitelist import DEMUXER_OPTIONS, MAX_BLOCK_BYTES

# The file descriptor of the source in a sandboxed child.
SOURCE_FD = 3

_QUIET = ("-hide_banner", "-nostdin", "-nostats", "-loglevel", "level+warning")
_MP4_MUXER = (*NO_TAGS, *MUXING_QUEUE, *BITEXACT, "-movflags", "+faststart", "-f", "mp4", "-y")


@dataclass(frozen=True)
class Plan:
    outputs: tuple[str, ...]  # the ffmpeg arguments of all outputs
    files: tuple[PlannedFile, ...]
    container: str
    threads: int
    duration_seconds: float | None

    @property
    def least_seconds(self) -> float | None:
        """Return the media seconds that ffmpeg reports, at least, when it has read the whole source."""
        known = [t.least_seconds for file in self.files for t in file.tracks if t.least_seconds is not None]
        return min(known, default=None)

    def argv(self, ffmpeg: Path) -> tuple[str, ...]:
        """Return the command line.

        ffmpeg reads an open file, accepts only this container, and reports progress on stdout.
        """
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
    """Raise when a file and a folder would share a name, such as HLS output `a.mp4` and MP4 output `a`."""
    folders = {str(PurePosixPath(file.path).parent) for file in files}
    if both := sorted(folders & {file.path for file in files}):
        raise MediaError(
            ErrorCode.OUTPUT_UNSUPPORTED, f"{both[0]} would be a file and a folder: rename an output"
        )


def _plan_one(output: OutputSpec, info: MediaInfo) -> Planned:
    match output:
        case Mp4Output():
            return _mp4(output, info)
        case M4aOutput():
            return _m4a(output, info)
        case HlsOutput():
            return hls(output, info)
        case ImageOutput():
            return image(output, info)
        case SpriteOutput():
            return sprite(output, info)
        case _:
            assert_never(output)


def _mp4(output: Mp4Output, info: MediaInfo) -> Planned:
    """Return the plan of an MP4 output. If the source has no sound, the output has no sound."""
    video = video_of(info, output.name)
    codec, size = output.video.codec, fitted_size(video, output.video.height, output.video.codec)
    tracks = [Track("video", codec, least_seconds(info, video), size.width, size.height)]
    words = [*mapped(video), "-vf", filters(video, size)]
    words += video_arguments(codec, output.video.crf, video, size)
    if output.audio is not None and (audio := info.audio) is not None:
        tracks.append(Track("audio", output.audio.codec, least_seconds(info, audio)))
        words += [*mapped(audio), *audio_arguments(output.audio, audio)]
    file = PlannedFile(output.name, f"{output.name}.mp4", "video/mp4", "mov", tuple(tracks))
    return Planned((file,), [*words, *_MP4_MUXER, f"file:{file.path}"])


def _m4a(output: M4aOutput, info: MediaInfo) -> Planned:
    """Return the plan of an M4A output. Raise `no_audio_stream` when the source has no sound."""
    if (audio := info.audio) is None:
        raise MediaError(ErrorCode.NO_AUDIO_STREAM, f"output {output.name} is sound, and the source has none")
    track = Track("audio", output.audio.codec, least_seconds(info, audio))
    file = PlannedFile(output.name, f"{output.name}.m4a", "audio/mp4", "mov", (track,))
    words = [*mapped(audio), *audio_arguments(output.audio, audio)]
    return Planned((file,), [*words, *_MP4_MUXER, f"file:{file.path}"])
