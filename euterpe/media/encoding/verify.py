"""Verify the output files of an encode against its plan: streams, codecs, picture sizes and durations."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import TypeAdapter, with_config

from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.model import Items
from euterpe.media.errors import MediaError
from euterpe.media.planning.encoders import KEYFRAME_SECONDS
from euterpe.media.planning.plan import Plan
from euterpe.media.planning.planned_files import PlannedFile, Track
from euterpe.media.sandbox.child_results import Line, Seconds, Whole, Word, checked
from euterpe.media.sandbox.sandbox import Sandbox
from euterpe.media.whitelist import MAX_STREAMS

_PART_TYPES = {".m4s": "video/iso.segment", ".mp4": "video/mp4"}
# `hls` tells ffmpeg to give segments these names. They become object names and parts of URLs.
_PART_NAME = re.compile(r"[a-z0-9]+_(?:[0-9]{5,9}\.m4s|init\.mp4)")


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


@with_config(extra="forbid")
@dataclass(frozen=True)
class _FileFacts:
    """The answer of `inspect` for an output file. If the file cannot be trusted, only `problem` is set."""

    streams: Annotated[tuple[_StreamFacts, ...], Items(0, MAX_STREAMS)] = ()
    duration_seconds: Seconds | None = None
    problem: Line | None = None


_FILE_FACTS = TypeAdapter(_FileFacts)


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


def verify(
    sandbox: Sandbox, plan: Plan, folder: Path, *, on_tick: Callable[[], None] = lambda: None
) -> tuple[MadeFile, ...]:
    """Return the output files in publishing order. Raise `MediaError` if a file is not as planned.

    `on_tick` may raise to stop the check.
    """
    parts = {file.path: _parts_of(file, folder) for file in plan.files}
    asked = [
        (file.path, file.demuxer, [*file.lists, *(part.name for part in parts[file.path])])
        for file in plan.files
        if file.demuxer
    ]
    arguments = {"files": asked, "keyframe_seconds": KEYFRAME_SECONDS}
    found = sandbox.call(
        "inspect", arguments, blame=ErrorCode.OUTPUT_UNDECODABLE, cwd=folder, on_tick=on_tick
    )
    facts = dict(zip((path for path, _, _ in asked), _facts_of(found, len(asked)), strict=True))
    made = tuple(
        made
        for file in plan.files
        for made in _checked(file, facts.get(file.path, _FileFacts()), folder, parts[file.path])
    )
    for file in made:
        _check_regular(file)
    return made


def _parts_of(file: PlannedFile, folder: Path) -> list[Path]:
    """Return the parts of a playlist. Raise for an unexpected name: a compromised ffmpeg may use any name."""
    parts = sorted(folder.glob(file.parts)) if file.parts else []
    if not all(_PART_NAME.fullmatch(part.name) for part in parts):
        raise MediaError(ErrorCode.OUTPUT_UNDECODABLE, f"{file.path}: one of its parts has a strange name")
    return parts


def _facts_of(found: object, count: int) -> list[_FileFacts]:
    if not isinstance(found, list) or len(found) != count:
        raise MediaError(ErrorCode.OUTPUT_UNDECODABLE, f"the check of {count} files speaks of something else")
    return [checked(_FILE_FACTS, facts, blame=ErrorCode.OUTPUT_UNDECODABLE) for facts in found]


def _checked(file: PlannedFile, facts: _FileFacts, folder: Path, parts: Sequence[Path]) -> Iterator[MadeFile]:
    if facts.problem is not None:
        raise MediaError(ErrorCode.OUTPUT_UNDECODABLE, f"{file.path}: {facts.problem}")
    _check_streams(file, facts.streams)
    for part in parts:
        name = part.relative_to(folder).as_posix()
        yield MadeFile(file.output, name, part, _PART_TYPES[part.suffix], None, None, None, is_part=True)
    shown = next((track for track in file.tracks if track.width is not None), None)
    yield MadeFile(
        file.output,
        file.path,
        folder / file.path,
        file.content_type,
        facts.duration_seconds or None,
        shown.width if shown else None,
        shown.height if shown else None,
    )


def _check_streams(file: PlannedFile, streams: Sequence[_StreamFacts]) -> None:
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


def _check_track(path: str, track: Track, stream: _StreamFacts) -> None:
    for what in ("kind", "codec", "width", "height"):
        is_, planned = getattr(stream, what), getattr(track, what)
        if is_ != planned:
            raise MediaError(ErrorCode.OUTPUT_UNDECODABLE, f"{path}: {what} is {is_} and not {planned}")
    if not stream.frames:
        raise MediaError(ErrorCode.OUTPUT_TRUNCATED, f"{path}: there is nothing in its {track.kind} stream")
    if track.least_seconds is not None and stream.end_seconds < track.least_seconds:
        raise MediaError(
            ErrorCode.OUTPUT_TRUNCATED,
            f"{path}: its {track.kind} ends after {stream.end_seconds:.2f} s, and after "
            f"{track.least_seconds:.2f} s at the earliest in the source",
        )
