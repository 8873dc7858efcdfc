"""Write the subtitles of adaptive outputs: read the cues of the source, shift them, and write WebVTT."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.encoding.output_folder import DiskUse, write_file
from euterpe.media.errors import MediaError
from euterpe.media.packaging.rendition import SubtitleRendition, TextFile
from euterpe.media.packaging.webvtt import Cue, PackagedSubtitles, package_subtitles
from euterpe.media.planning.tree import Package, SubtitleTrack
from euterpe.media.sandbox.sandbox import Sandbox
from euterpe.media.source.cues import SourceCue

# The limit for all subtitle files. A long cue is repeated in many segments. 32 tracks of a film of four hours
# take 20 MB.
MOST_BYTES = 200_000_000

Cues = Mapping[int, Sequence[SourceCue]]  # keyed by the index of the stream


def read_cues(
    sandbox: Sandbox, packages: Sequence[Package], source_fd: int | None, *, on_tick: Callable[[], None]
) -> Cues:
    """Return the cues of all subtitle tracks of the packages. Read the source only once."""
    streams = sorted({track.stream for package in packages for track in package.subtitles})
    if not streams:
        return {}
    if source_fd is None:
        raise ValueError("the plan has subtitles, which need the source")
    tracks = sandbox.subtitles(source_fd, streams, on_tick=on_tick)
    return {track.stream: track.cues for track in tracks}


class Subtitles:
    """The subtitles of all outputs of a plan. The source is read once, when the first output needs it."""

    def __init__(
        self,
        sandbox: Sandbox,
        packages: Sequence[Package],
        source_fd: int | None,
        disk: DiskUse,
        *,
        most_bytes: int = MOST_BYTES,
        on_tick: Callable[[], None] = lambda: None,
    ) -> None:
        self._sandbox, self._packages, self._source_fd = sandbox, packages, source_fd
        self._disk, self._on_tick = disk, on_tick
        self._most_bytes, self._bytes = most_bytes, 0
        self._cues: dict[int, Sequence[SourceCue]] = {}
        self._is_read = False

    def write(
        self, package: Package, root: Path, seconds: float, picture_segments: int | None = None
    ) -> list[SubtitleRendition]:
        """Write the segments for HLS and the whole tracks for DASH. Return the renditions.

        `seconds` is the length of the output, and `picture_segments` the number of segments of its picture.
        Raise `MediaError` if the files of all outputs together would be too large.
        """
        self._read(package)
        renditions = []
        for track in package.subtitles:
            packaged = _packaged(package, track, self._cues[track.stream], seconds, picture_segments)
            kept = subtitle_files(package, packaged.rendition)
            for file in packaged.files:
                if file.name in kept:
                    self._write(package, root, file)
            renditions.append(packaged.rendition)
        return renditions

    def _read(self, package: Package) -> None:
        """Read the tracks of all outputs at once.

        If a track is damaged, read the tracks of each output separately.
        """
        if not self._is_read:
            self._is_read = True
            try:
                self._cues |= self._of(self._packages)
            except MediaError:
                if len(self._packages) == 1:
                    raise
        if any(track.stream not in self._cues for track in package.subtitles):
            self._cues |= self._of([package])

    def _of(self, packages: Sequence[Package]) -> Cues:
        return read_cues(self._sandbox, packages, self._source_fd, on_tick=self._on_tick)

    def _write(self, package: Package, root: Path, file: TextFile) -> None:
        size = len(file.text.encode())
        if self._bytes + size > self._most_bytes:
            raise MediaError(
                ErrorCode.OUTPUT_TOO_LARGE,
                f"with output {package.output}, the subtitles have more than {self._most_bytes} bytes",
            )
        self._bytes += size
        self._disk.add(size)
        write_file(root, file.name, file.text)


def _packaged(
    package: Package,
    track: SubtitleTrack,
    cues: Sequence[SourceCue],
    seconds: float,
    picture_segments: int | None,
) -> PackagedSubtitles:
    end = min(seconds, track.seconds or seconds)
    return package_subtitles(
        [*shown_cues(track, cues, end)],
        name=track.name,
        segment_seconds=package.segment_seconds,
        duration_seconds=seconds,
        picture_segments=picture_segments,
        language=track.labels.language,
        title=track.labels.title,
        is_default=track.labels.is_default,
        is_forced=track.is_forced,
    )


def subtitle_files(package: Package, rendition: SubtitleRendition) -> list[str]:
    """Return the names of the files of a track: segments for HLS, and the whole track for DASH."""
    segments = [rendition.segment(place) for place in range(len(rendition.segments))]
    return [*(segments if package.hls else []), *([rendition.whole] if package.dash else [])]


def shown_cues(track: SubtitleTrack, cues: Sequence[SourceCue], end: float) -> Iterator[Cue]:
    """Yield the cues, with times from the beginning of the output.

    Leave out cues before the output's beginning and after its end.
    """
    for cue in cues:
        start, stop = (milliseconds / 1000 - track.shift for milliseconds in (cue.start, cue.end))
        if start < end and stop > 0:
            yield Cue(max(0.0, start), min(stop, end), cue.text)
