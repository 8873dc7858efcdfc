"""Finish the segments of the encoder: align decode times, join a short last segment, collect keyframes."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, with_config

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.errors import MediaError
from euterpe.media.packaging.rendition import LEAST_LAST_SEGMENT, KeyframeFile, VideoRendition
from euterpe.media.packaging.segment_facts import RenditionFacts, SegmentFacts, read_rendition
from euterpe.media.sandbox.child_results import Whole, checked
from euterpe.media.sandbox.sandbox import Sandbox

# The maximum number of bytes that one child rewrites. The time limit of a child is one minute, and even a
# slow disk writes this much in a minute.
_BYTES_PER_CALL = 512 << 20
_SEGMENTS_PER_CALL = 1_000
_MOST_FILE_BYTES = 16 << 30
# If a segment has few pictures, `decode_times` can shorten the last picture by some ticks.
_END_TOLERANCE_S = 0.001


@with_config(extra="forbid")
@dataclass(frozen=True)
class _KeyframeSizes:
    """The answer of `write_keyframes`: the size of each part of the file."""

    init_bytes: Whole
    index_bytes: Whole
    sizes: tuple[Whole, ...]


_KEYFRAMES = TypeAdapter(_KeyframeSizes)


def finish_rendition(
    sandbox: Sandbox,
    folder: Path,
    name: str,
    *,
    segment_seconds: float,
    on_tick: Callable[[], None] = lambda: None,
) -> RenditionFacts:
    """Rewrite the segments of a rendition so that all players can play them. Return the facts of its files.

    The files are `NAME_init.mp4`, `NAME_00001.m4s` and so on. Raise `MediaError` if a file is missing, or has
    a form that ffmpeg does not write. `on_tick` may raise to stop the work.
    """
    rewriter = _Rewriter(sandbox, folder, on_tick)
    facts = read_rendition(sandbox, folder, f"{name}_init.mp4", _segment_names(folder, name), on_tick=on_tick)
    if facts.track.kind == "video" and facts.track.edit_start > 0:
        facts = rewriter.without_edit_list(facts)
    return rewriter.without_tail(facts, segment_seconds)


def keyframe_file(
    sandbox: Sandbox, folder: Path, video: VideoRendition, *, on_tick: Callable[[], None] = lambda: None
) -> KeyframeFile:
    """Write the keyframes of a finished rendition into a separate file. Return its name and the byte ranges.

    Every segment must begin with a keyframe. Raise `MediaError` if a file has a form that ffmpeg does not
    write.
    """
    name = f"{video.name}_keyframes.mp4"
    segments = [
        (video.segment(place), one.start, one.start + one.duration)
        for place, one in enumerate(video.segments)
    ]
    arguments = {"init": video.init, "segments": segments, "target": name}
    found = checked(
        _KEYFRAMES,
        _rewritten(sandbox, folder, "write_keyframes", arguments, on_tick),
        blame=ErrorCode.OUTPUT_UNDECODABLE,
    )
    if len(found.sizes) != len(segments):
        raise _changed(name)
    bandwidth = max(
        -(-8 * size * video.timescale // one.duration)
        for size, one in zip(found.sizes, video.segments, strict=True)
    )
    return KeyframeFile(name, found.init_bytes, found.index_bytes, bandwidth)


def _segment_names(folder: Path, name: str) -> list[str]:
    """Return the names of the segments of a rendition, in order.

    A glob pattern is not enough, because the segments of `audio_en` and `audio_en_2` have the same prefix.
    """
    pattern = re.compile(rf"{re.escape(name)}_([0-9]{{5,9}})\.m4s")
    found = sorted(
        (int(match[1]), path.name) for path in folder.iterdir() if (match := pattern.fullmatch(path.name))
    )
    names = [segment for _, segment in found]
    if not names or names != [f"{name}_{number:05d}.m4s" for number in range(1, len(names) + 1)]:
        raise MediaError(ErrorCode.OUTPUT_UNDECODABLE, f"{name}: one of its segments is missing")
    return names


class _Rewriter:
    def __init__(self, sandbox: Sandbox, folder: Path, on_tick: Callable[[], None]) -> None:
        self._sandbox, self._folder, self._on_tick = sandbox, folder, on_tick

    def without_edit_list(self, facts: RenditionFacts) -> RenditionFacts:
        nexts = {before.name: after.start for before, after in pairwise(facts.segments)}
        for names in _portions(facts.segments):
            segments = [(name, nexts.get(name)) for name in names]
            self._call("align_decode_times", {"init": facts.init, "segments": segments})
        self._call("drop_edit_list", {"init": facts.init})
        aligned = self._read(facts.init, [segment.name for segment in facts.segments])
        if aligned.track != replace(facts.track, edit_start=0):
            raise _changed(facts.init)
        for before, after in zip(facts.segments, aligned.segments, strict=True):
            _check_aligned(before, after, nexts.get(before.name), facts.track.timescale)
        return aligned

    def without_tail(self, facts: RenditionFacts, segment_seconds: float) -> RenditionFacts:
        *others, last = facts.segments
        seconds = (last.end - last.start) / facts.track.timescale
        if not others or seconds >= segment_seconds * LEAST_LAST_SEGMENT:
            return facts
        before = others[-1]
        self._call("fold_tail", {"segment": before.name, "tail": last.name})
        folded = self._read(facts.init, [before.name]).segments[0]
        whole = replace(before, end=last.end, samples=before.samples + last.samples)
        _check_same(whole, folded, facts.track.timescale)
        return replace(facts, segments=(*others[:-1], folded))

    def _read(self, init: str, segments: Sequence[str]) -> RenditionFacts:
        return read_rendition(self._sandbox, self._folder, init, segments, on_tick=self._on_tick)

    def _call(self, task: str, arguments: Mapping[str, Any]) -> None:
        _rewritten(self._sandbox, self._folder, task, arguments, self._on_tick)


def _rewritten(
    sandbox: Sandbox, folder: Path, task: str, arguments: Mapping[str, Any], on_tick: Callable[[], None]
) -> Any:
    """Run a task that rewrites files in the folder, and return its answer."""
    return sandbox.call(
        task,
        arguments,
        blame=ErrorCode.OUTPUT_UNDECODABLE,
        cwd=folder,
        on_tick=on_tick,
        writable_bytes=_MOST_FILE_BYTES,
    )


def _portions(segments: Sequence[SegmentFacts]) -> Iterator[list[str]]:
    names, size = list[str](), 0
    for segment in segments:
        names.append(segment.name)
        size += segment.size_bytes
        if size >= _BYTES_PER_CALL or len(names) >= _SEGMENTS_PER_CALL:
            yield names
            names, size = [], 0
    if names:
        yield names


def _check_aligned(before: SegmentFacts, after: SegmentFacts, start: int | None, timescale: int) -> None:
    """Raise if the presentation times of a segment have changed, except its end.

    The end must be unchanged, or must equal the start of the next segment. After a gap, the encoder's end of
    the last segment can be too late by the length of the gap, so this end may become earlier.
    """
    if abs(after.end - before.end) <= timescale * _END_TOLERANCE_S:
        end = before.end
    else:
        end = min(after.end, before.end) if start is None else start
    _check_same(replace(before, end=end), after, timescale)


def _check_same(before: SegmentFacts, after: SegmentFacts, timescale: int) -> None:
    """Raise if the presentation times of a segment have changed."""
    facts = [(one.name, one.start, one.samples, one.starts_with_sync) for one in (before, after)]
    if facts[0] != facts[1] or abs(before.end - after.end) > timescale * _END_TOLERANCE_S:
        raise _changed(before.name)


def _changed(name: str) -> MediaError:
    return MediaError(ErrorCode.OUTPUT_UNDECODABLE, f"{name}: its times changed when it was written again")
