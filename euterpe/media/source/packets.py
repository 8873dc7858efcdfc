"""Read the packets at the beginning and at the end of a source, within bounds of packets and bytes."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

import av
from av.container import InputContainer
from av.format import Flags
from av.packet import Packet
from av.stream import Stream

from euterpe.media.source.pictures import PictureReader
from euterpe.media.source.times import Times

# The mean keyframe interval is computed from at least this many intervals.
_ENOUGH_GAPS = 2
# These formats have no index, so every packet must be read.
_WITHOUT_INDEX = ("mp3", "aac")
# In these formats, a reader can begin at any byte.
_BY_BYTES = ("mpegts", "mpeg")
# For these formats, libavformat computes a position from a time. For a time far beyond the end, this
# computation overflows.
_BY_ARITHMETIC = ("wav", "w64", "aiff", "caf")
# If the index is missing in these formats, libavformat reads from the last known keyframe to the end, without
# a limit.
_MAYBE_INDEXED = ("matroska", "avi", "flv")
# A time that is beyond the end in any time base. The product of this time and the size of a sample does not
# overflow.
_BEYOND_THE_END = 2**53
_BEFORE_THE_END_S, _BEFORE_DECLARED_END_S = 5.0, 1.0


@dataclass(frozen=True)
class Budget:
    packets: int
    size_bytes: int


@dataclass(frozen=True)
class Bounds:
    """The limits of reading a source. At 2 µs a packet, the largest number of packets takes 0.6 s."""

    # Read a file of at most this size completely, because this takes less time than seeks.
    whole: Budget = Budget(300_000, 16 << 20)
    beginning: Budget = Budget(5_000, 32 << 20)
    # The budget for reading from the last keyframe to the end.
    end: Budget = Budget(20_000, 256 << 20)
    # The budget for formats without an index.
    linear: Budget = Budget(300_000, 64 << 20)
    # In formats that can be read from any byte, the last packets of all streams are expected within this many
    # bytes of the end.
    last_bytes: int = 8 << 20
    # libavformat may read at most this many bytes to find the last keyframe. The limit is higher if the
    # headers declare no duration, as in recordings by a browser. Reading 1 GiB took 0.8 s, and 0.2 s of CPU.
    search_bytes: int = 256 << 20
    search_bytes_undeclared: int = 4 << 30


DEFAULT_BOUNDS = Bounds()


class _OverBudget(Exception):
    """Raised when the packets that were read exceed a budget."""


class PacketReader:
    """Read the packets of an open source of `size` bytes, and collect their times."""

    def __init__(self, container: InputContainer, size: int, bounds: Bounds = DEFAULT_BOUNDS) -> None:
        self.times = Times(container.streams, may_jump=may_jump(container))
        self._container = container
        self._format = format_name(container)
        self._size = size
        self._bounds = bounds

    def read_beginning(self, pictures: PictureReader | None) -> None:
        """Read packets until the facts of the beginning are known. Read a small file completely."""
        is_small = self._size <= self._bounds.whole.size_bytes
        # Ignore damage here: the last packets of the file may still be readable.
        with suppress(_OverBudget, av.FFmpegError):
            for packet in self._packets(self._bounds.whole if is_small else self._bounds.beginning):
                self.times.take(packet)
                if pictures is not None:
                    pictures.take(packet)
                if not is_small and self._is_enough(pictures):
                    return
            self.times.is_whole = True
            self.times.end()

    def read_end(self, lead: int) -> None:
        """Read the last packets of the file.

        `lead` is the index of the stream in which the reader seeks. If the end of a stream cannot be found
        within the bounds, the end stays unknown.
        """
        stream = self.times.streams.get(lead)
        if stream is None or self.times.is_whole:
            return
        with suppress(_OverBudget, av.FFmpegError):
            if self._format in _BY_BYTES:
                at = max(0, self._size - self._bounds.last_bytes)
                self._container.seek(at, unsupported_byte_offset=True)
                self._read_on(self._bounds.end)
            elif self._format in _WITHOUT_INDEX:
                if self._size <= self._bounds.linear.size_bytes:
                    self._read_on(self._bounds.linear)
            elif self._format not in _MAYBE_INDEXED or self._seeks_quickly(stream):
                self._read_end_by_time(stream)

    def _is_enough(self, pictures: PictureReader | None) -> bool:
        if not self.times.have_begun or (pictures is not None and not pictures.is_done):
            return False
        video = None if pictures is None else self.times.of.get(pictures.index)
        return video is None or self._format == "mov" or len(video.keyframe_gaps) >= _ENOUGH_GAPS

    def _read_end_by_time(self, lead: Stream) -> None:
        for target in self._targets(lead):
            self._container.seek(target, stream=lead)
            self._read_on(self._bounds.end)
            if lead.index in self.times.ends:
                break
        # Another stream can end shortly before the last keyframe, so read again from some seconds earlier.
        if (end := self.times.ends.get(lead.index)) is not None and self._missing():
            self._seek(lead, end - _BEFORE_THE_END_S)
            self._read_on(self._bounds.end)
        if self._format == "mov":  # MP4 has an index for each stream: seek in each stream without an end
            for index in self._missing():
                self._container.seek(_BEYOND_THE_END, stream=self.times.streams[index])
                self._read_on(self._bounds.end)

    def _missing(self) -> set[int]:
        return self.times.of.keys() - self.times.ends.keys()

    def _targets(self, lead: Stream) -> Iterator[int]:
        """Yield the times to try as seek targets, in ticks of the stream, until a seek finds packets."""
        if self._format not in _BY_ARITHMETIC:
            yield _BEYOND_THE_END
        if self._container.duration is not None and lead.time_base:
            end = ((self._container.start_time or 0) + self._container.duration) / 1_000_000
            yield int((end - _BEFORE_DECLARED_END_S) / lead.time_base)

    def _seeks_quickly(self, stream: Stream) -> bool:
        """Return whether a seek to the end reads few bytes: the file is small, or its index is complete."""
        is_declared = self._container.duration is not None
        most = self._bounds.search_bytes if is_declared else self._bounds.search_bytes_undeclared
        if self._size <= most:
            return True
        # Seek first, because the Matroska demuxer reads the index only at the first seek.
        self._seek(stream, self.times.of[stream.index].first or 0.0)
        entries = stream.index_entries
        return len(entries) > 0 and entries[-1].pos >= self._size - most

    def _read_on(self, budget: Budget) -> None:
        """Read to the end of the file. Raise `_OverBudget` if the end is too far away."""
        tail = Times(self._container.streams, may_jump=may_jump(self._container))
        for packet in self._packets(budget):
            tail.take(packet)
        tail.end()
        self.times.adopt_ends(tail)

    def _packets(self, budget: Budget) -> Iterator["Packet[Stream]"]:
        """Yield the packets of all streams up to the end of the file."""
        total = 0
        for count, packet in enumerate(demuxed(self._container)):
            total += packet.size
            if count >= budget.packets or total > budget.size_bytes:
                raise _OverBudget
            yield packet

    def _seek(self, stream: Stream, seconds: float) -> None:
        if stream.time_base:
            self._container.seek(int(seconds / stream.time_base), stream=stream)


def demuxed(container: InputContainer, *streams: Stream) -> Iterator["Packet[Stream]"]:
    """Yield the packets of these streams, by default of all streams, up to the end of the file."""
    # After the last packet, PyAV 18 raises an IndexError if a stream has appeared in the middle of the file.
    with suppress(IndexError):
        yield from container.demux(*streams)


def may_jump(container: InputContainer) -> bool:
    """Return whether times can jump in this format, as in MPEG-TS."""
    return bool(container.format.flags & cast(int, Flags.ts_discont.value))


def format_name(container: InputContainer) -> str:
    """Return the first of the demuxer's names."""
    return container.format.name.partition(",")[0]
