"""Count the packets of streams, and compute a checksum over the packets.

This module runs in sandboxed children only.
"""

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import av
from av.container import InputContainer
from av.packet import Packet
from av.stream import Discard, Stream

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.encoding.parameter_sets import ParameterSets
from euterpe.media.errors import MediaError
from euterpe.media.source.packets import demuxed
from euterpe.media.source.probe import open_source

_EMPTY_TEXT = b"\0\0"  # the timed-text sample for a time without a cue


def packets_of_source(fd: int, streams: Sequence[int]) -> list[dict[str, int]]:
    """Return the number of packets and their checksum for each of these streams of a source.

    Raise `MediaError` if a copy would not play like the source. A copy differs if the size of the pictures
    changes. A copy also differs if an edit list removes packets after the beginning, because the copy would
    show these packets. The probe finds such edit lists only in the parts of the file that it reads.
    """
    with open_source(fd) as container:
        return _digests(container, streams, ErrorCode.SOURCE_UNSUPPORTED, is_source=True)


def packets_of_files(files: Sequence[tuple[str, str, Sequence[int]]]) -> list[list[dict[str, int]]]:
    """Return the number of packets and their checksum for streams of our own files.

    A file is given as (path, demuxer, streams).
    """
    return [_of_file(*file) for file in files]


def _of_file(path: str, demuxer: str, streams: Sequence[int]) -> list[dict[str, int]]:
    options = {"protocol_whitelist": "file"}
    try:
        with av.open(path, format=demuxer, options=options, metadata_errors="replace") as container:
            return _digests(container, streams, ErrorCode.OUTPUT_UNDECODABLE)
    except (av.FFmpegError, OSError) as error:
        raise MediaError(
            ErrorCode.OUTPUT_UNDECODABLE, f"{path}: {error.strerror or 'not readable'}"
        ) from None


def _digests(
    container: InputContainer, streams: Sequence[int], blame: ErrorCode, *, is_source: bool = False
) -> list[dict[str, int]]:
    if not all(0 <= index < len(container.streams) for index in streams):
        raise MediaError(blame, "a stream is missing")
    found: dict[int, dict[str, int]] = {index: {"packets": 0, "checksum": 0} for index in streams}
    wanted, uncopyable = list[Any](), dict[int, _Uncopyable]()
    for stream in container.streams:
        if stream.index in found:
            wanted.append(stream)
            if is_source:
                uncopyable[stream.index] = _Uncopyable(stream)
        else:
            stream.discard = Discard.all  # some demuxers then skip the packets of this unneeded stream
    for packet in demuxed(container, *wanted):
        data, digest = bytes(packet), found[packet.stream.index]
        if is_source and (problem := uncopyable[packet.stream.index].problem_of(packet, data)) is not None:
            raise MediaError(blame, f"{problem}, so it cannot be copied: use copy 'never'")
        if data and data != _EMPTY_TEXT:
            digest["packets"] += 1
            digest["checksum"] = crc32(data, digest["checksum"])
    return [found[index] for index in streams]


class _Uncopyable:
    """Check the packets of a stream for problems that prevent a copy, and that the headers do not show."""

    def __init__(self, stream: Stream) -> None:
        context = stream.codec_context
        self._sets = (
            ParameterSets(context.codec.canonical_name, bytes(context.extradata or b"")) if context else None
        )
        self._is_shown = False

    def problem_of(self, packet: "Packet[Stream]", data: bytes) -> str | None:
        # Discarded packets at the beginning are the delay of the audio encoder, so they are allowed.
        if packet.is_discard and self._is_shown:
            return "an edit list removes a part of the track"
        self._is_shown |= not packet.is_discard
        has_other_sets = self._sets is not None and self._sets.are_changed_by(data)
        # A packet can bring new extradata, also in a sound track: the extradata of AAC contains the number of
        # channels.
        if has_other_sets or packet.has_sidedata("new_extradata"):
            return "the track changes its size or its format"
        return None
