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

# Two intervals between keyframes give a mean.
_ENOUGH_GAPS = 2
# Formats without an index, in which every packet must be read.
_WITHOUT_INDEX = ("mp3", "aac")
# Formats in which a reader may begin at any byte.
_BY_BYTES = ("mpegts", "mpeg")
# Formats that compute a position from a time, and overflow for a time far beyond the end.
_BY_ARITHMETIC = ("wav", "w64", "aiff", "caf")
# In these formats, libavformat reads from the last known keyframe to the end if the index is missing, without
# a bound of its own.
_MAYBE_INDEXED = ("matroska", "avi", "flv")
# Beyond the end in any time base, and small enough to be multiplied by the size of a sample.
_BEYOND_THE_END = 2**53
_BEFORE_THE_END_S, _BEFORE_DECLARED_END_S = 5.0, 1.0


@dataclass(frozen=True)
class Budget:
    packets: int
    size_bytes: int


@dataclass(frozen=True)
class Bounds:
    """The limits of reading a source. At 2 µs a packet, the largest number of packets takes 0.6 s."""

    # A file of this size is read as a whole: that takes less time than seeks could save.
    whole: Budget = Budget(300_000, 16 << 20)
    beginning: Budget = Budget(5_000, 32 << 20)
    # From the last keyframe to the end.
    end: Budget = Budget(20_000, 256 << 20)
    # For formats without an index.
    linear: Budget = Budget(300_000, 64 << 20)
    # In formats that are read from any byte on, the last packets of all streams are within this many bytes.
    last_bytes: int = 8 << 20
    # libavformat may read this many bytes in search of the last keyframe, and more if the headers declare no
    # duration, as those of recordings by a browser. It took 0.2 s of CPU and 0.8 s for 1 GiB.
    search_bytes: int = 256 << 20
    search_bytes_undeclared: int = 4 << 30


DEFAULT_BOUNDS = Bounds()


class _OverBudget(Exception):
    """Raised when the packets read exceed a budget."""


class PacketReader:
    """Reads the packets of an open source of `size` bytes, and collects their times."""

    def __init__(self, container: InputContainer, size: int, bounds: Bounds = DEFAULT_BOUNDS) -> None:
        self.times = Times(container.streams, may_jump=may_jump(container))
        self._container = container
        self._format = format_name(container)
        self._size = size
        self._bounds = bounds

    def read_beginning(self, pictures: PictureReader | None) -> None:
        """Read packets until the facts of the beginning are known. Read a small file to its end."""
        is_small = self._size <= self._bounds.whole.size_bytes
        # After damage, the last packets may still be readable.
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
        """Read the last packets of the file, seeking with the stream `lead`.

        A stream whose end cannot be found within the bounds stays without an end.
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
        # The other streams may end a little before the last keyframe.
        if (end := self.times.ends.get(lead.index)) is not None and self._missing():
            self._seek(lead, end - _BEFORE_THE_END_S)
            self._read_on(self._bounds.end)
        if self._format == "mov":  # it has an index of each stream
            for index in self._missing():
                self._container.seek(_BEYOND_THE_END, stream=self.times.streams[index])
                self._read_on(self._bounds.end)

    def _missing(self) -> set[int]:
        return self.times.of.keys() - self.times.ends.keys()

    def _targets(self, lead: Stream) -> Iterator[int]:
        """Yield the times to seek to until packets follow, in ticks of the stream."""
        if self._format not in _BY_ARITHMETIC:
            yield _BEYOND_THE_END
        if self._container.duration is not None and lead.time_base:
            end = ((self._container.start_time or 0) + self._container.duration) / 1_000_000
            yield int((end - _BEFORE_DECLARED_END_S) / lead.time_base)

    def _seeks_quickly(self, stream: Stream) -> bool:
        """Return whether a seek to the end reads few bytes: the file is small, or its index is whole."""
        is_declared = self._container.duration is not None
        most = self._bounds.search_bytes if is_declared else self._bounds.search_bytes_undeclared
        if self._size <= most:
            return True
        self._seek(stream, self.times.of[stream.index].first or 0.0)  # Matroska reads its index only now
        entries = stream.index_entries
        return len(entries) > 0 and entries[-1].pos >= self._size - most

    def _read_on(self, budget: Budget) -> None:
        """Read to the end of the file. Raise `_OverBudget` if it is too far."""
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
    """Yield the packets of these streams, or of all, up to the end of the file."""
    # After the last packet, PyAV 18 raises an IndexError if a stream has appeared in the middle of the file.
    with suppress(IndexError):
        yield from container.demux(*streams)


def may_jump(container: InputContainer) -> bool:
    """Return whether the times of this format may jump, as those of MPEG-TS may."""
    return bool(container.format.flags & cast(int, Flags.ts_discont.value))


def format_name(container: InputContainer) -> str:
    """Return the first of the demuxer's names."""
    return container.format.name.partition(",")[0]
