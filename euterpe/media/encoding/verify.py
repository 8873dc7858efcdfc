"""Verify the files of an encode against its plan, and write the playlists over segments that have passed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import TypeAdapter, with_config

from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.model import Items
from euterpe.media.encoding.expected import ExpectedFile, ExpectedTrack, expected_files
from euterpe.media.encoding.optional_outputs import MAY_FAIL, optional_outputs, output_failed
from euterpe.media.encoding.renditions import PackagedOutput, package_output
from euterpe.media.encoding.subtitles import read_cues
from euterpe.media.errors import MediaError
from euterpe.media.planning.tracks import KEYFRAME_SECONDS
from euterpe.media.planning.tree import Plan, PlanWarning
from euterpe.media.sandbox.child_results import Line, Seconds, Whole, Word, checked
from euterpe.media.sandbox.sandbox import Sandbox
from euterpe.media.whitelist import MAX_STREAMS


@with_config(extra="forbid")
@dataclass(frozen=True)
class _StreamFacts:
    """The answer of `inspect` for one stream of an output file."""

    kind: Word
    codec: Word
    width: Whole | None
    height: Whole | None
    frames: Whole
    end_seconds: Seconds
    bit_rate: Whole | None = None


@with_config(extra="forbid")
@dataclass(frozen=True)
class _FileFacts:
    """The answer of `inspect` for an output file. If the file cannot be trusted, only `problem` is set."""

    streams: Annotated[tuple[_StreamFacts, ...], Items(0, MAX_STREAMS)] = ()
    duration_seconds: Seconds | None = None
    problem: Line | None = None


_FILE_FACTS = TypeAdapter(_FileFacts)


@dataclass(frozen=True)
class MadeTrack:
    """A track of an output, as the status document shows it."""

    kind: str
    codec: str
    width: int | None
    height: int | None
    bitrate: int | None
    language: str | None


@dataclass(frozen=True)
class MadeFile:
    """A file of an output. In a list of files, a playlist follows the files that it refers to."""

    output: str
    name: str  # below the job's output prefix
    path: Path
    content_type: str
    duration_seconds: float | None
    width: int | None
    height: int | None
    is_part: bool = False  # a segment, which players open only through its playlist
    tracks: tuple[MadeTrack, ...] = ()


@dataclass(frozen=True)
class Verified:
    """The files of the outputs in publishing order, and a warning for each optional output that failed."""

    files: tuple[MadeFile, ...]
    failed: tuple[PlanWarning, ...] = ()


def verify(
    sandbox: Sandbox,
    plan: Plan,
    folder: Path,
    *,
    source_fd: int | None = None,
    failed: Sequence[PlanWarning] = (),
    on_tick: Callable[[], None] = lambda: None,
) -> Verified:
    """Return the files of all outputs that did not fail before.

    `source_fd` is needed if the plan has subtitles, which are read from the source. Raise `MediaError` if a
    file of an output that is not optional is not as planned. `on_tick` may raise to stop the check.
    """
    outputs, optional = _Outputs(sandbox, plan, folder, source_fd, on_tick), optional_outputs(plan)
    lost = {warning.output or "": warning for warning in failed}
    made = outputs.checked([name for name in plan.outputs if name not in optional])
    for name in plan.outputs:
        if name not in optional or name in lost:
            continue
        try:
            made += outputs.checked([name])
        except MediaError as error:
            if error.code not in MAY_FAIL:
                raise
            lost[name] = output_failed(name, error)
    if not made:
        raise MediaError(
            ErrorCode.ENCODE_FAILED, f"no output could be made: {next(iter(lost.values())).message}"
        )
    order = {output: place for place, output in enumerate(plan.outputs)}
    return Verified(tuple(sorted(made, key=lambda file: order[file.output])), tuple(lost.values()))


class _Outputs:
    def __init__(
        self,
        sandbox: Sandbox,
        plan: Plan,
        folder: Path,
        source_fd: int | None,
        on_tick: Callable[[], None],
    ) -> None:
        self._sandbox, self._plan, self._folder = sandbox, plan, folder
        self._source_fd, self._on_tick = source_fd, on_tick

    def checked(self, outputs: Sequence[str]) -> list[MadeFile]:
        """Return the files of these outputs, or raise `MediaError`."""
        files = [file for file in expected_files(self._plan) if file.output in outputs]
        facts = self._facts(files)
        made = [_checked(file, facts.get(file.path, _FileFacts()), self._folder) for file in files]
        packages = [package for package in self._plan.packages if package.output in outputs]
        cues = read_cues(self._sandbox, packages, self._source_fd, on_tick=self._on_tick)
        for package in packages:
            packaged = package_output(
                self._sandbox, self._plan, package, self._folder, cues, on_tick=self._on_tick
            )
            made += _packaged(packaged, self._folder)
        for file in made:
            _check_regular(file)
        return made

    def _facts(self, files: Sequence[ExpectedFile]) -> dict[str, _FileFacts]:
        asked = [(file.path, file.demuxer) for file in files if file.demuxer]
        if not asked:
            return {}
        found = self._sandbox.call(
            "inspect",
            {"files": asked, "keyframe_seconds": KEYFRAME_SECONDS},
            blame=ErrorCode.OUTPUT_UNDECODABLE,
            cwd=self._folder,
            on_tick=self._on_tick,
        )
        return dict(zip((path for path, _ in asked), _facts_of(found, len(asked)), strict=True))


def _facts_of(found: object, count: int) -> list[_FileFacts]:
    if not isinstance(found, list) or len(found) != count:
        raise MediaError(ErrorCode.OUTPUT_UNDECODABLE, f"the check of {count} files speaks of something else")
    return [checked(_FILE_FACTS, facts, blame=ErrorCode.OUTPUT_UNDECODABLE) for facts in found]


def _checked(file: ExpectedFile, facts: _FileFacts, folder: Path) -> MadeFile:
    if facts.problem is not None:
        raise MediaError(ErrorCode.OUTPUT_UNDECODABLE, f"{file.path}: {facts.problem}")
    streams = facts.streams
    if file.may_have_chapters:
        streams = tuple(stream for stream in streams if stream.kind != "data")
    _check_streams(file, streams)
    shown = next((track for track in file.tracks if track.width is not None), None)
    return MadeFile(
        file.output,
        file.path,
        folder / file.path,
        file.content_type,
        facts.duration_seconds or None,
        shown.width if shown else None,
        shown.height if shown else None,
        tracks=tuple(_track(*pair) for pair in zip(file.tracks, streams, strict=True)),
    )


def _track(expected: ExpectedTrack, found: _StreamFacts) -> MadeTrack:
    return MadeTrack(
        found.kind, found.codec, found.width, found.height, found.bit_rate or None, expected.language
    )


def _packaged(package: PackagedOutput, folder: Path) -> Iterator[MadeFile]:
    for name, content_type in package.parts:
        yield MadeFile(package.output, name, folder / name, content_type, None, None, None, is_part=True)
    *lists, (last, last_type) = package.lists
    for name, content_type in lists:
        yield MadeFile(
            package.output, name, folder / name, content_type, package.seconds, None, None, is_part=True
        )
    tracks = tuple(MadeTrack(**vars(track)) for track in package.tracks)
    size = max(((t.width or 0, t.height or 0) for t in tracks), default=(0, 0))
    yield MadeFile(
        *(package.output, last, folder / last, last_type, package.seconds, size[0] or None, size[1] or None),
        tracks=tracks,
    )


def _check_streams(file: ExpectedFile, streams: Sequence[_StreamFacts]) -> None:
    if len(streams) != len(file.tracks):
        raise MediaError(
            ErrorCode.OUTPUT_TRUNCATED,
            f"{file.path} has {len(streams)} streams instead of {len(file.tracks)}",
        )
    for track, stream in zip(file.tracks, streams, strict=True):
        _check_track(file.path, track, stream)


def _check_regular(made: MadeFile) -> None:
    """Raise for a link or special file.

    Without Landlock, a compromised ffmpeg could make links to other files.
    """
    if made.path.parent.is_symlink() or made.path.is_symlink() or not made.path.is_file():
        raise MediaError(ErrorCode.OUTPUT_UNDECODABLE, f"{made.name} is not a regular file")


def _check_track(path: str, track: ExpectedTrack, stream: _StreamFacts) -> None:
    for what in ("kind", "codec", "width", "height"):
        is_, planned = getattr(stream, what), getattr(track, what)
        if is_ != planned:
            raise MediaError(ErrorCode.OUTPUT_UNDECODABLE, f"{path}: {what} is {is_} and not {planned}")
    if not stream.frames:
        raise MediaError(ErrorCode.OUTPUT_TRUNCATED, f"{path}: there is nothing in its {track.kind} stream")
    if track.least_end is not None and stream.end_seconds < track.least_end:
        raise MediaError(
            ErrorCode.OUTPUT_TRUNCATED,
            f"{path}: its {track.kind} ends after {stream.end_seconds:.2f} s, and after "
            f"{track.least_end:.2f} s at the earliest in the source",
        )
