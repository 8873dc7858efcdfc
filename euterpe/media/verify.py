"""Whether what ffmpeg calls a success is one: every file opens, holds what was planned, to its end."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from euterpe.media.encoders import KEYFRAME_SECONDS
from euterpe.media.errors import MediaError
from euterpe.media.files import PlannedFile, Track
from euterpe.media.plan import Plan
from euterpe.media.sandbox import Sandbox

_PART_TYPES = {".m4s": "video/iso.segment", ".mp4": "video/mp4"}


@dataclass(frozen=True)
class MadeFile:
    """One file of an output. Those that refer to others come after them."""

    output: str
    name: str  # below the job's output prefix
    path: Path
    content_type: str
    duration_seconds: float | None
    width: int | None
    height: int | None


def verify(sandbox: Sandbox, plan: Plan, folder: Path) -> tuple[MadeFile, ...]:
    """The made files, in the order in which they may be published."""
    asked = [(file.path, file.demuxer) for file in plan.files if file.demuxer]
    arguments = {"files": asked, "keyframe_seconds": KEYFRAME_SECONDS}
    facts = dict(
        zip(
            (path for path, _ in asked),
            sandbox.call("inspect", arguments, blame="output_undecodable", cwd=folder),
            strict=True,
        )
    )
    return tuple(made for file in plan.files for made in _checked(file, facts.get(file.path, {}), folder))


def _checked(file: PlannedFile, facts: Mapping[str, Any], folder: Path) -> Iterator[MadeFile]:
    if problem := facts.get("problem"):
        raise MediaError("output_undecodable", f"{file.path}: {problem}")
    _check_streams(file, facts.get("streams", ()))
    _check_lists(file, folder)
    for part in sorted(folder.glob(file.parts)) if file.parts else ():
        name = part.relative_to(folder).as_posix()
        yield MadeFile(file.output, name, part, _PART_TYPES[part.suffix], None, None, None)
    shown = next((track for track in file.tracks if track.width is not None), None)
    yield MadeFile(
        file.output,
        file.path,
        folder / file.path,
        file.content_type,
        facts.get("duration_seconds") or None,
        shown.width if shown else None,
        shown.height if shown else None,
    )


def _check_streams(file: PlannedFile, streams: Any) -> None:
    if len(streams) != len(file.tracks):
        raise MediaError(
            "output_truncated", f"{file.path} has {len(streams)} streams instead of {len(file.tracks)}"
        )
    for track, stream in zip(file.tracks, streams, strict=True):
        _check_track(file.path, track, stream)


def _check_lists(file: PlannedFile, folder: Path) -> None:
    """ffmpeg leaves out of a master playlist what it does not understand."""
    if file.lists and not set(file.lists) <= _mentioned(folder / file.path):
        raise MediaError("output_truncated", f"{file.path} does not list {', '.join(file.lists)}")


def _mentioned(master: Path) -> set[str]:
    text = master.read_text() if master.is_file() else ""
    return {line.rpartition('URI="')[2].rstrip('"') for line in text.splitlines()}


def _check_track(path: str, track: Track, stream: Mapping[str, Any]) -> None:
    for what in ("kind", "codec", "width", "height"):
        if stream[what] != getattr(track, what):
            raise MediaError(
                "output_undecodable", f"{path}: {what} is {stream[what]} and not {getattr(track, what)}"
            )
    if not stream["frames"]:
        raise MediaError("output_truncated", f"{path}: there is nothing in its {track.kind} stream")
    if track.least_seconds is not None and stream["end_seconds"] < track.least_seconds:
        raise MediaError(
            "output_truncated",
            f"{path}: its {track.kind} ends after {stream['end_seconds']:.2f} s, and after "
            f"{track.least_seconds:.2f} s at the earliest in the source",
        )
