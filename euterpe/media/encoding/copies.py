"""Check that each copied track of a film has all packets of its source stream, or of its subtitle file."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, with_config

from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.model import Items
from euterpe.media.encoding.expected import demuxer_of
from euterpe.media.errors import MediaError
from euterpe.media.planning.text_inputs import text_inputs
from euterpe.media.planning.tree import Command, File, Plan, output_of
from euterpe.media.sandbox.child import HELPER_TIMEOUT_S
from euterpe.media.sandbox.child_results import Flag, Whole, checked
from euterpe.media.sandbox.sandbox import Sandbox, reopened
from euterpe.media.whitelist import MAX_STREAMS

# The timeout assumes that a child reads all packets of a file at this speed or faster.
_READ_BYTES_PER_SECOND = 25_000_000
# ffmpeg copies packets of these codecs between these containers byte for byte. MPEG-TS and ADTS are not in
# the list, because they frame the packets differently. VP9 and AV1 are not in the list, because ffmpeg can
# join or split their packets.
_SAME_BYTES = frozenset({"h264", "hevc", "aac", "opus", "mp3", "flac"})
_SAME_FRAMING = frozenset({"mov", "matroska", "mp3", "flac", "ogg"})
# The container whose index has the position and the size of each packet.
_INDEXED = "mov"


@with_config(extra="forbid")
@dataclass(frozen=True)
class _Digest:
    """The number of packets of a stream, and a checksum over their bytes."""

    packets: Whole
    checksum: Annotated[int, Field(strict=True, ge=0, lt=1 << 32)]


_Digests = Annotated[tuple[_Digest, ...], Items(0, MAX_STREAMS)]
_OF_SOURCE: TypeAdapter[tuple[_Digest, ...]] = TypeAdapter(_Digests)
_SAME = TypeAdapter(tuple[Flag, ...])
_OF_FILES: TypeAdapter[tuple[tuple[_Digest, ...], ...]] = TypeAdapter(tuple[_Digests, ...])


@dataclass(frozen=True)
class _Copy:
    """A stream of a film file: a copy of a stream of the source, or of the only stream of a subtitle file."""

    path: str
    demuxer: str
    stream: int
    source: int | None
    text: tuple[str, str] | None = None  # the path and the demuxer of the subtitle file
    has_same_bytes: bool = True


def check_copies(
    sandbox: Sandbox,
    plan: Plan,
    outputs: Sequence[str],
    folder: Path,
    source_fd: int | None,
    *,
    on_tick: Callable[[], None],
) -> None:
    """Raise `MediaError` if a copied track of these outputs lacks a packet or has a different packet."""
    copies = [
        one
        for command in plan.commands
        for one in _copies(command, plan.container)
        if output_of(one.path) in outputs
    ]
    if not copies:
        return
    if source_fd is None and any(one.source is not None for one in copies):
        raise ValueError("the plan has copied streams, so the check needs the source")
    digests = _Reader(sandbox, folder, on_tick)
    if source_fd is not None and plan.container == _INDEXED:
        proved = digests.equal_files(source_fd, [one for one in copies if one.demuxer == _INDEXED])
        copies = [one for one in copies if one.source is None or one.path not in proved]
    made = digests.of_files([(one.path, one.demuxer, one.stream) for one in copies])
    texts = [one for one in copies if one.text is not None]
    written = dict(zip(texts, digests.of_files([(*one.text, 0) for one in texts if one.text]), strict=True))
    streams = sorted({one.source for one in copies if one.source is not None})
    given = digests.of_source(source_fd, streams) if source_fd is not None and streams else {}
    for one, found in zip(copies, made, strict=True):
        _compare(one, found, written[one] if one.source is None else given[one.source])


def _copies(command: Command, container: str) -> Iterator[_Copy]:
    texts = text_inputs(command)
    for product_place, product in enumerate(command.products):
        if not isinstance(product, File):
            continue
        demuxer = demuxer_of(product)
        for place, track in enumerate(product.tracks):
            if track.is_copied:
                node = command.copies[track.place]
                same = node.codec in _SAME_BYTES and container in _SAME_FRAMING
                yield _Copy(product.path, demuxer, place, node.stream, has_same_bytes=same)
        own = [one for one in texts if one.product == product_place]
        for place, text in enumerate(own, len(product.tracks)):
            yield _Copy(product.path, demuxer, place, None, (text.path, text.demuxer))


def _compare(one: _Copy, found: _Digest, expected: _Digest) -> None:
    if found.packets != expected.packets:
        raise MediaError(
            ErrorCode.OUTPUT_TRUNCATED,
            f"{one.path}: track {one.stream} has {found.packets} packets instead of {expected.packets}",
        )
    if one.has_same_bytes and found.checksum != expected.checksum:
        raise MediaError(
            ErrorCode.OUTPUT_UNDECODABLE, f"{one.path}: track {one.stream} is not a copy of its source"
        )


class _Reader:
    def __init__(self, sandbox: Sandbox, folder: Path, on_tick: Callable[[], None]) -> None:
        self._sandbox, self._folder, self._on_tick = sandbox, folder, on_tick

    def equal_files(self, source_fd: int, copies: Sequence[_Copy]) -> set[str]:
        """Return the files whose indexes prove that the copied tracks have all samples of the source."""
        by_file: dict[str, list[tuple[int, int]]] = {}
        for one in copies:
            if one.source is not None:
                by_file.setdefault(one.path, []).append((one.source, one.stream))
        if not by_file:
            return set()
        size = os.fstat(source_fd).st_size + sum(_size(self._folder / path) for path in by_file)
        with reopened(source_fd) as own:
            found = self._sandbox.call(
                "same_samples",
                {"fd": 3, "files": [*by_file.items()]},
                blame=ErrorCode.OUTPUT_UNDECODABLE,
                fds={3: own},
                cwd=self._folder,
                on_tick=self._on_tick,
                timeout_s=HELPER_TIMEOUT_S + size / _READ_BYTES_PER_SECOND,
            )
        same = checked(_SAME, found, blame=ErrorCode.OUTPUT_UNDECODABLE)
        if len(same) != len(by_file):
            raise MediaError(
                ErrorCode.OUTPUT_UNDECODABLE,
                "the sandboxed process that read the file returned an invalid result",
            )
        return {path for path, is_same in zip(by_file, same, strict=True) if is_same}

    def of_files(self, streams: Sequence[tuple[str, str, int]]) -> list[_Digest]:
        """Return the digests of streams of files in the folder. A stream is (path, demuxer, index)."""
        if not streams:
            return []
        by_file: dict[tuple[str, str], list[int]] = {}
        for path, demuxer, stream in streams:
            by_file.setdefault((path, demuxer), []).append(stream)
        size = sum(_size(self._folder / path) for path, _ in by_file)
        found = self._sandbox.call(
            "packets_of_files",
            {"files": [(*file, indexes) for file, indexes in by_file.items()]},
            blame=ErrorCode.OUTPUT_UNDECODABLE,
            cwd=self._folder,
            on_tick=self._on_tick,
            timeout_s=HELPER_TIMEOUT_S + size / _READ_BYTES_PER_SECOND,
        )
        digests = checked(_OF_FILES, found, blame=ErrorCode.OUTPUT_UNDECODABLE)
        if [len(one) for one in digests] != [len(indexes) for indexes in by_file.values()]:
            raise MediaError(
                ErrorCode.OUTPUT_UNDECODABLE,
                "the sandboxed process that read the file returned an invalid result",
            )
        named = {
            (*file, index): digest
            for (file, indexes), one in zip(by_file.items(), digests, strict=True)
            for index, digest in zip(indexes, one, strict=True)
        }
        return [named[stream] for stream in streams]

    def of_source(self, source_fd: int, streams: Sequence[int]) -> dict[int, _Digest]:
        with reopened(source_fd) as own:
            found = self._sandbox.call(
                "packets_of_source",
                {"fd": 3, "streams": [*streams]},
                blame=ErrorCode.SOURCE_UNSUPPORTED,
                fds={3: own},
                on_tick=self._on_tick,
                timeout_s=HELPER_TIMEOUT_S + os.fstat(source_fd).st_size / _READ_BYTES_PER_SECOND,
            )
        digests = checked(_OF_SOURCE, found, blame=ErrorCode.SOURCE_UNSUPPORTED)
        if len(digests) != len(streams):
            raise MediaError(
                ErrorCode.SOURCE_UNSUPPORTED,
                "the sandboxed process that read the file returned an invalid result",
            )
        return dict(zip(streams, digests, strict=True))


def _size(path: Path) -> int:
    return path.lstat().st_size if path.exists() else 0
