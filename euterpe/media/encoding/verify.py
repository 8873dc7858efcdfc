"""Verify the files of an encode against its plan, and write the playlists of verified segments."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Annotated

from pydantic import TypeAdapter, with_config

from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.model import Items
from euterpe.media.encoding.copies import check_copies
from euterpe.media.encoding.expected import (
    ExpectedFile,
    ExpectedTrack,
    expected_files,
    expected_renditions,
)
from euterpe.media.encoding.optional_outputs import MAY_FAIL, optional_outputs, output_failed
from euterpe.media.encoding.output_folder import DiskUse, remove_products
from euterpe.media.encoding.picture_counts import given_pictures, refuse_lost_pictures
from euterpe.media.encoding.quality import measured_quality, refuse_low_quality
from euterpe.media.encoding.renditions import NO_KEYS, MadeTrack, PackagedOutput, Packager
from euterpe.media.encoding.subtitles import Subtitles
from euterpe.media.errors import MediaError
from euterpe.media.planning.tracks import KEYFRAME_SECONDS
from euterpe.media.planning.tree import Package, Plan, PlanWarning
from euterpe.media.sandbox.child import HELPER_TIMEOUT_S
from euterpe.media.sandbox.child_results import Line, Seconds, Whole, Word, checked
from euterpe.media.sandbox.sandbox import Sandbox
from euterpe.media.whitelist import MAX_STREAMS

# To count the pictures of WebM and of fragmented MP4, a child reads all packets, at this speed or faster.
_READ_BYTES_PER_SECOND = 25_000_000


@with_config(extra="forbid")
@dataclass(frozen=True)
class _StreamFacts:
    """The result of `inspect` for one stream of an output file."""

    kind: Word
    codec: Word
    width: Whole | None
    height: Whole | None
    frames: Whole
    end_seconds: Seconds
    bit_rate: Whole | None = None
    pictures: Whole | None = None  # the number of packets; None if they were not counted


@with_config(extra="forbid")
@dataclass(frozen=True)
class _FileFacts:
    """The result of `inspect` for an output file. If the file cannot be read, only `problem` is set."""

    streams: Annotated[tuple[_StreamFacts, ...], Items(0, MAX_STREAMS)] = ()
    duration_seconds: Seconds | None = None
    problem: Line | None = None


_FILE_FACTS = TypeAdapter(_FileFacts)
_Figures = Mapping[str, float] | None


@dataclass(frozen=True)
class MadeFile:
    """A file of an output. In a list of files, a playlist follows the files that it refers to."""

    output: str
    name: str  # the path of the file below the job's output prefix
    path: Path
    content_type: str
    duration_seconds: float | None
    width: int | None
    height: int | None
    is_part: bool = False  # True for a segment: players open it only through its playlist
    refers: bool = False  # whether the file refers to other files, like a playlist
    tracks: tuple[MadeTrack, ...] = ()


@dataclass(frozen=True)
class Verified:
    """The files of the outputs, in publishing order, and a warning for each optional output that failed."""

    files: tuple[MadeFile, ...]
    failed: tuple[PlanWarning, ...] = ()

    @property
    def lowest_vmaf(self) -> float | None:
        """Return the lowest VMAF of the tracks, or None if it was not measured."""
        figures = (track.quality for file in self.files for track in file.tracks if track.quality)
        return min((one["vmaf"] for one in figures if "vmaf" in one), default=None)


def verify(
    sandbox: Sandbox,
    plan: Plan,
    folder: Path,
    *,
    source_fd: int | None = None,
    hls_keys: Mapping[str, bytes] = NO_KEYS,
    failed: Sequence[PlanWarning] = (),
    on_disk: Callable[[int], None] = lambda _: None,
    on_tick: Callable[[], None] = lambda: None,
) -> Verified:
    """Verify the files of all outputs that have not failed so far, and return them.

    `source_fd` is required if the plan has subtitles or copied streams, because their check reads the source.
    `hls_keys` maps the name of an encrypted output to its key. Raise `MediaError` if a file of a required
    output differs from the plan. `on_disk` receives the disk usage before each file is written. `on_tick` and
    `on_disk` may raise to stop the check.
    """
    disk, optional = DiskUse(folder, on_disk), optional_outputs(plan)
    subtitles = Subtitles(sandbox, _wanted(plan.packages, failed), source_fd, disk, on_tick=on_tick)
    packager = Packager(sandbox, plan, folder, subtitles, disk, hls_keys=hls_keys, on_tick=on_tick)
    outputs = _Outputs(sandbox, plan, folder, source_fd, packager, on_tick=on_tick)
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
            for command in plan.commands:
                if name in command.outputs:
                    remove_products(command, folder)
            disk.measure()
    if not made:
        raise MediaError(
            ErrorCode.ENCODE_FAILED, f"no output could be made: {next(iter(lost.values())).message}"
        )
    order = {output: place for place, output in enumerate(plan.outputs)}
    return Verified(tuple(sorted(made, key=lambda file: order[file.output])), tuple(lost.values()))


def _wanted(packages: Sequence[Package], failed: Sequence[PlanWarning]) -> list[Package]:
    """Return the packages of the outputs that have not failed so far."""
    lost = {warning.output for warning in failed}
    return [package for package in packages if package.output not in lost]


class _Outputs:
    def __init__(
        self,
        sandbox: Sandbox,
        plan: Plan,
        folder: Path,
        source_fd: int | None,
        packager: Packager,
        *,
        on_tick: Callable[[], None],
    ) -> None:
        self._sandbox, self._plan, self._folder = sandbox, plan, folder
        self._source_fd, self._packager, self._on_tick = source_fd, packager, on_tick

    def checked(self, outputs: Sequence[str]) -> list[MadeFile]:
        """Return the files of these outputs, or raise `MediaError`."""
        files = [file for file in expected_files(self._plan) if file.output in outputs]
        quality = self._quality(files, outputs)
        facts = self._facts(files)
        self._check_pictures(files, facts)
        made = [_checked(file, facts.get(file.path, _FileFacts()), self._folder) for file in files]
        check_copies(self._sandbox, self._plan, outputs, self._folder, self._source_fd, on_tick=self._on_tick)
        for package in self._plan.packages:
            if package.output in outputs:
                made += _packaged(self._packager.package(package), self._folder)
        for file in made:
            _check_regular(file)
        return [_with_quality(file, quality) for file in made]

    def _quality(self, files: Sequence[ExpectedFile], outputs: Sequence[str]) -> dict[str, list[_Figures]]:
        """Return the quality of each track, keyed by file or adaptive output.

        Raise if a quality is too low.
        """
        tracks = [(file.path, file.path, track) for file in files for track in file.tracks]
        for one in expected_renditions(self._plan):
            if one.rendition.folder in outputs:
                folder, name = one.rendition.folder, one.rendition.name
                tracks.append((folder, f"{folder}/{name}", one.track))
        checks = [track.quality for _, _, track in tracks if track.quality]
        found = measured_quality(self._sandbox, checks, self._folder, on_tick=self._on_tick)
        figures: dict[str, list[_Figures]] = {}
        for place, path, track in tracks:
            known = found[track.quality.number] if track.quality else None
            if track.quality and known:
                refuse_low_quality(path, track.quality, known)
            figures.setdefault(place, []).append(known.document() if known else None)
        return figures

    def _check_pictures(self, files: Sequence[ExpectedFile], facts: Mapping[str, _FileFacts]) -> None:
        """Raise if the number of pictures in a file is not the number that its encoder was given."""
        counted = [file.path for file in files if file.is_counted]
        given = given_pictures(self._sandbox, counted, self._folder, on_tick=self._on_tick)
        for path, count in given.items():
            for stream in facts[path].streams:
                if stream.kind == "video":
                    refuse_lost_pictures(path, stream.pictures, count)

    def _facts(self, files: Sequence[ExpectedFile]) -> dict[str, _FileFacts]:
        asked = [(file.path, file.demuxer, file.is_counted) for file in files if file.demuxer]
        if not asked:
            return {}
        size = sum(_size(self._folder / path) for path, _, is_counted in asked if is_counted)
        found = self._sandbox.call(
            "inspect",
            {"files": asked, "keyframe_seconds": KEYFRAME_SECONDS},
            blame=ErrorCode.OUTPUT_UNDECODABLE,
            cwd=self._folder,
            on_tick=self._on_tick,
            timeout_s=HELPER_TIMEOUT_S + size / _READ_BYTES_PER_SECOND,
        )
        return dict(zip((path for path, *_ in asked), _facts_of(found, len(asked)), strict=True))


def _size(path: Path) -> int:
    return path.lstat().st_size if path.exists() else 0


def _facts_of(found: object, count: int) -> list[_FileFacts]:
    if not isinstance(found, list) or len(found) != count:
        raise MediaError(ErrorCode.OUTPUT_UNDECODABLE, f"the check of {count} files gave an invalid answer")
    return [checked(_FILE_FACTS, facts, blame=ErrorCode.OUTPUT_UNDECODABLE) for facts in found]


def _checked(file: ExpectedFile, facts: _FileFacts, folder: Path) -> MadeFile:
    if file.content_type.startswith("image/") and not os.path.lexists(folder / file.path):
        # If ffmpeg decodes no picture, it succeeds but writes no image file. A full disk cannot be the cause,
        # because ffmpeg fails on a full disk.
        raise MediaError(
            ErrorCode.OUTPUT_TRUNCATED, f"{file.path} is missing: the source has no picture for it"
        )
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
        refers=file.demuxer is None,
        tracks=tuple(_track(*pair) for pair in zip(file.tracks, streams, strict=True)),
    )


def _with_quality(file: MadeFile, quality: Mapping[str, Sequence[_Figures]]) -> MadeFile:
    """Return the file with the quality of its tracks.

    The subtitles of an adaptive output come last, and have no quality.
    """
    figures = quality.get(file.name) or quality.get(file.output, ())
    rated = (replace(track, quality=known) for track, known in zip_longest(file.tracks, figures))
    return replace(file, tracks=tuple(rated)) if file.tracks else file


def _track(expected: ExpectedTrack, found: _StreamFacts) -> MadeTrack:
    return MadeTrack(
        found.kind,
        found.codec,
        found.width,
        found.height,
        found.bit_rate or None,
        expected.language,
        expected.is_copied,
        expected.gain.measured_lufs if expected.gain else None,
        expected.gain.decibels if expected.gain else None,
    )


def _packaged(package: PackagedOutput, folder: Path) -> Iterator[MadeFile]:
    for name, content_type in package.parts:
        yield MadeFile(package.output, name, folder / name, content_type, None, None, None, is_part=True)
    *lists, (last, last_type) = package.lists
    for name, content_type in lists:
        yield MadeFile(
            *(package.output, name, folder / name, content_type, package.seconds, None, None),
            is_part=True,
            refers=True,
        )
    size = max(((t.width or 0, t.height or 0) for t in package.tracks), default=(0, 0))
    yield MadeFile(
        *(package.output, last, folder / last, last_type, package.seconds, size[0] or None, size[1] or None),
        refers=True,
        tracks=package.tracks,
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
    # An empty subtitle track is accepted, because the output's part of the source can lack text.
    # `check_copies` compares the packets of the track.
    if not stream.frames and track.kind != "subtitle":
        raise MediaError(ErrorCode.OUTPUT_TRUNCATED, f"{path}: there is nothing in its {track.kind} stream")
    if track.least_end is not None and stream.end_seconds < track.least_end:
        raise MediaError(
            ErrorCode.OUTPUT_TRUNCATED,
            f"{path}: its {track.kind} ends after {stream.end_seconds:.2f} s, but the source lasts at least "
            f"{track.least_end:.2f} s",
        )
