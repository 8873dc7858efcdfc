"""Make films with closed captions (CEA-608) in the pictures: one hand-written byte pair for each picture."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import av
from av.packet import Packet

from tests.media.sources.cache import Sources, ffmpeg

RATE = 25
# The codes of channel 1 for pop-on captions, which are loaded into hidden memory and then shown.
LOAD, CLEAR, SHOW, ERASE = (0x14, 0x20), (0x14, 0x2E), (0x14, 0x2F), (0x14, 0x2C)
ROLL_UP, NEW_LINE = (0x14, 0x25), (0x14, 0x2D)
LAST_ROW = (0x14, 0x70)
Pair = tuple[int, int]


@dataclass(frozen=True)
class Shown:
    """A caption and the pictures at which it appears and disappears."""

    text: str
    start: int
    end: int


CAPTIONS = (Shown("HELLO & <BYE>", 20, 45), Shown("SECOND LINE", 60, 70))
PICTURES = 75


def pop_on(captions: Sequence[Shown], count: int) -> list[Pair | None]:
    """Return the byte pair of each picture, or None for a picture without captions."""
    pairs: list[Pair | None] = [None] * count
    for one in captions:
        codes = [*_twice(LOAD), *_twice(CLEAR), *_twice(LAST_ROW), *_letters(one.text)]
        first = one.start - len(codes)
        assert first >= 0
        assert not any(pairs[first : one.start + 2])
        pairs[first : one.start + 2] = [*codes, *_twice(SHOW)]
        pairs[one.end : one.end + 2] = _twice(ERASE)
    return pairs


def roll_up(lines: Sequence[tuple[int, str]], count: int) -> list[Pair | None]:
    """Return the byte pairs of roll-up captions. A line is (picture at which it begins, text)."""
    pairs: list[Pair | None] = [None] * count
    for start, text in lines:
        codes = [*_twice(ROLL_UP), *_twice(NEW_LINE), *_twice(LAST_ROW), *_letters(text)]
        pairs[start : start + len(codes)] = codes
    return pairs


def captioned(sources: Sources, codec: str = "h264", suffix: str = "mp4") -> Path:
    """Return a film of three seconds with B-frames and `CAPTIONS`."""
    return sources.get(
        f"captions-{codec}.{suffix}", lambda path: write(path, codec, pop_on(CAPTIONS, PICTURES))
    )


_ENCODERS = {
    "h264": "-c:v libx264 -preset veryfast -bf 3",
    "hevc": "-c:v libx265 -preset ultrafast -x265-params log-level=error:bframes=3",
    "mpeg2video": "-c:v mpeg2video -bf 2",
}


def write(path: Path, codec: str, pairs: Sequence[Pair | None]) -> None:
    """Encode a film, and insert the byte pairs into its pictures in the order of presentation."""
    plain = path.with_name(f"plain-{path.stem}.ts")
    picture = f"-f lavfi -i testsrc2=size=160x96:rate={RATE}:duration={len(pairs) / RATE}"
    ffmpeg(f"{picture} -pix_fmt yuv420p {_ENCODERS[codec]} {plain}")
    marked = path.with_name(f"marked-{path.stem}.ts")
    with av.open(plain) as source, av.open(marked, "w") as target:
        stream = source.streams.video[0]
        to = target.add_stream_from_template(stream)
        packets = [one for one in source.demux(stream) if one.size]
        places = {pts: place for place, pts in enumerate(sorted(one.pts or 0 for one in packets))}
        for one in packets:
            copy = Packet(_marked(codec, bytes(one), pairs[places[one.pts or 0]]))
            copy.pts, copy.dts, copy.time_base, copy.stream = one.pts, one.dts, one.time_base, to
            copy.is_keyframe = one.is_keyframe
            target.mux(copy)
    ffmpeg(f"-i {marked} -c copy {path}")


def _marked(codec: str, picture: bytes, pair: Pair | None) -> bytes:
    """Insert a byte pair before the first slice of a picture with start codes."""
    triples = bytes((0xFC, *map(_odd, pair))) if pair else b"\xfc\x80\x80"
    # Add letters in field 2, and CEA-708 data, as broadcasts do.
    triples += bytes((0xFD, *map(_odd, b"ES"))) + b"\xfa\x00\x00"
    data = b"GA94\x03" + bytes((0x40 | len(triples) // 3, 0xFF)) + triples + b"\xff"
    at = next(_slices(codec, picture))
    return picture[:at] + _unit(codec, data) + picture[at:]


def _unit(codec: str, data: bytes) -> bytes:
    if codec == "mpeg2video":
        return b"\0\0\1\xb2" + data
    message = b"\xb5\x00\x31" + data
    head = b"\x06" if codec == "h264" else b"\x4e\x01"
    return b"\0\0\0\1" + head + bytes((4, len(message))) + message + b"\x80"


def _slices(codec: str, picture: bytes) -> Iterator[int]:
    """Yield the positions of the start codes before the slices of a picture."""
    at = picture.find(b"\0\0\1")
    while at >= 0:
        kind = picture[at + 3]
        is_slice = {
            "h264": kind & 0x1F in (1, 5),
            "hevc": (kind >> 1) & 0x3F < 32,
            "mpeg2video": 1 <= kind <= 0xAF,
        }[codec]
        if is_slice:
            yield at - 1 if at and picture[at - 1] == 0 else at
        at = picture.find(b"\0\0\1", at + 3)


def _twice(code: Pair) -> list[Pair]:
    return [code, code]


def _letters(text: str) -> list[Pair]:
    data = text.encode() + b"\0" * (len(text) % 2)
    return [(data[at], data[at + 1]) for at in range(0, len(data), 2)]


def _odd(byte: int) -> int:
    """Return the byte with seven bits of data and a bit for odd parity."""
    return byte | (0x80 if byte.bit_count() % 2 == 0 else 0)
