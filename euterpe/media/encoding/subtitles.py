"""Write the subtitles of adaptive outputs: read the cues of the source, move them, and write WebVTT."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.encoding.output_folder import write_file
from euterpe.media.errors import MediaError
from euterpe.media.packaging.rendition import SubtitleRendition
from euterpe.media.packaging.webvtt import Cue, package_subtitles
from euterpe.media.planning.tree import Package, SubtitleTrack
from euterpe.media.sandbox.sandbox import Sandbox
from euterpe.media.source.cues import SourceCue

# A cue that is shown for long is in many segments. The 32 tracks of a film of four hours have 20 MB.
_MOST_BYTES = 200_000_000

Cues = Mapping[int, Sequence[SourceCue]]  # by the index of the stream


def read_cues(
    sandbox: Sandbox, packages: Sequence[Package], source_fd: int | None, *, on_tick: Callable[[], None]
) -> Cues:
    """Return the cues of all subtitle tracks of the packages. The source is read once."""
    streams = sorted({track.stream for package in packages for track in package.subtitles})
    if not streams:
        return {}
    if source_fd is None:
        raise ValueError("the plan has subtitles, which need the source")
    tracks = sandbox.subtitles(source_fd, streams, on_tick=on_tick)
    return {track.stream: track.cues for track in tracks}


def write_subtitles(package: Package, cues: Cues, root: Path, seconds: float) -> list[SubtitleRendition]:
    """Write the segments for HLS and the whole tracks for DASH. Return the renditions.

    `seconds` is the length of the output. Raise `MediaError` if the files would be too large.
    """
    renditions, size = [], 0
    for track in package.subtitles:
        end = min(seconds, track.seconds or seconds)
        packaged = package_subtitles(
            [*_shown(track, cues[track.stream], end)],
            name=track.name,
            segment_seconds=package.segment_seconds,
            duration_seconds=seconds,
            language=track.labels.language,
            title=track.labels.title,
            is_default=track.labels.is_default,
            is_forced=track.is_forced,
        )
        kept = subtitle_files(package, packaged.rendition)
        for file in packaged.files:
            if file.name not in kept:
                continue
            size += len(file.text.encode())
            if size > _MOST_BYTES:
                raise MediaError(
                    ErrorCode.OUTPUT_TOO_LARGE,
                    f"the subtitles of output {package.output} have more than {_MOST_BYTES} bytes",
                )
            write_file(root, file.name, file.text)
        renditions.append(packaged.rendition)
    return renditions


def subtitle_files(package: Package, rendition: SubtitleRendition) -> list[str]:
    """Return the names of the files of a track: segments for HLS, and the whole track for DASH."""
    segments = [rendition.segment(place) for place in range(len(rendition.segments))]
    return [*(segments if package.hls else []), *([rendition.whole] if package.dash else [])]


def _shown(track: SubtitleTrack, cues: Sequence[SourceCue], end: float) -> Iterator[Cue]:
    """Yield the cues on the timeline of the output, without those outside of it."""
    for cue in cues:
        start, stop = (milliseconds / 1000 - track.shift for milliseconds in (cue.start, cue.end))
        if start < end and stop > 0:
            yield Cue(max(0.0, start), min(stop, end), cue.text)
