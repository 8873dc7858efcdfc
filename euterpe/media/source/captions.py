"""Read the closed captions (CEA-608, field 1) in the pictures of a source.

This module runs in sandboxed children only. Packets of H.264, HEVC and MPEG-2 contain the captions separately
from the picture data (ATSC A/53), so no picture is decoded. ffmpeg's caption decoder converts the byte pairs
to text. The decoder accepts only packets that were read from a container, and that have times. So the byte
pairs are written as an SCC file, in which pair number n has time n.
"""

import io
from collections.abc import Iterator
from dataclasses import dataclass, field

import av
from av.packet import Packet
from av.stream import Stream
from av.subtitles.stream import SubtitleStream
from av.subtitles.subtitle import AssSubtitle

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.errors import MediaError
from euterpe.media.source.cues import plain_text

CAPTION_DECODER = "cc_dec"
# The preambles of H.264 and HEVC (ITU-T T.35) and of MPEG-2 (user data), and the bytes after each preamble.
_PREAMBLES = (b"\xb5\x00\x31", b"\x00\x00\x01\xb2")
_ATSC = b"GA94\x03"
_HAS_DATA, _COUNT, _TRIPLE = 0x40, 0x1F, 3
_FIELD_1 = 0xFC  # five marker bits, "valid", and the type 0
_MARKERS, _SEVEN_BITS = 0xF8, 0x7F
# An hour has at most 108,000 pairs that are not empty.
_MOST_PAIRS = 2_000_000
_ERASE = b"\x94\x2c"  # the command that erases the displayed memory
_ENDLESS = 5.0  # a caption that is never erased is shown for this many seconds


@dataclass
class CaptionReader:
    """Collect the byte pairs of pictures with captions, or of a caption track (`c608` in MOV)."""

    stream: Stream
    _pairs: list[tuple[int, int, bytes]] = field(default_factory=list)  # time, order, pair

    def take(self, packet: "Packet[Stream]") -> None:
        if packet.pts is None or not packet.size:
            return
        data = bytes(packet)
        triples = data if isinstance(self.stream, SubtitleStream) else b"".join(_caption_data(data))
        for at in range(0, len(triples) - 2, _TRIPLE):
            kind, first, second = triples[at : at + _TRIPLE]
            if kind == _FIELD_1 and (first | second) & _SEVEN_BITS:
                self._pairs.append((packet.pts, len(self._pairs), bytes((first, second))))
        if len(self._pairs) > _MOST_PAIRS:
            raise MediaError(
                ErrorCode.SOURCE_UNSUPPORTED,
                f"the captions of stream {self.stream.index} have more than {_MOST_PAIRS} byte pairs",
            )

    def cues(self) -> Iterator[tuple[float, float, str]]:
        """Yield start, end and text of each caption. Times are seconds of container time."""
        if not self._pairs or self.stream.time_base is None:
            return
        pairs = sorted(self._pairs)  # sort by time, because pictures are stored in the order of decoding
        times = [float(ticks * self.stream.time_base) for ticks, _, _ in pairs]
        times.append(times[-1] + _ENDLESS)
        for start, end, text in _decoded([*(pair for _, _, pair in pairs), _ERASE]):
            yield times[start], times[min(end, len(times) - 1)], text


def _caption_data(data: bytes) -> Iterator[bytes]:
    """Yield the captions of a picture, as triples of bytes: a kind and a byte pair."""
    at = data.find(_ATSC)
    while at >= 0:
        head = at + len(_ATSC)
        flags = data[head : head + 1]
        if flags and flags[0] & _HAS_DATA and data[max(0, at - 4) : at].endswith(_PREAMBLES):
            triples = data[head + 2 : head + 2 + _TRIPLE * (flags[0] & _COUNT)]
            # A coded picture can contain the same preamble by chance, but hardly ever all marker bits too.
            if all(kind & _MARKERS == _MARKERS for kind in triples[::_TRIPLE]):
                yield triples
        at = data.find(_ATSC, head)


def _decoded(pairs: list[bytes]) -> Iterator[tuple[int, int, str]]:
    """Yield (index of the pair that shows a caption, index of the pair that ends it, text)."""
    lines = ["Scenarist_SCC V1.0", *(f"{_time(number)}\t{pair.hex()}" for number, pair in enumerate(pairs))]
    with av.open(io.BytesIO("\n\n".join(lines).encode()), "r", format="scc") as captions:
        stream = captions.streams[0]
        if not isinstance(stream, SubtitleStream):
            raise TypeError("the SCC file has no subtitle stream")
        for packet in captions.demux(stream):
            found = stream.codec_context.decode2(packet)
            if found is None:
                continue
            for one in found:
                if isinstance(one, AssSubtitle) and (text := plain_text(one.ass, has_comments=False)):
                    start = round(found.pts / 1_000_000)
                    yield start, start + round(found.end_display_time / 1000), text


def _time(number: int) -> str:
    return f"{number // 3600:02d}:{number // 60 % 60:02d}:{number % 60:02d}:00"
