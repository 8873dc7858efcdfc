"""Hostile sound files: WAV, AIFF, CAF, FLAC, Ogg, MP3 and AAC with wrong chunks, rates and counts."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from struct import pack, unpack_from

from tests.media.hostile.originals import Originals

Build = Callable[[Originals], bytes]

_MOST = 0xFFFFFFFF


def _fixed(data: bytes) -> Build:
    return lambda _: data


def _wave(
    *,
    code: int = 1,
    channels: int = 1,
    rate: int = 48_000,
    bits: int = 16,
    align: int = 2,
    size: int | None = None,
    before: bytes = b"",
) -> bytes:
    """Return a WAV file of silence with these fields."""
    head = pack("<4sIHHIIHH", b"fmt ", 16, code, channels, rate, min(rate * align, _MOST), align, bits)
    data = bytes(9600)
    body = b"WAVE" + before + head + pack("<4sI", b"data", len(data) if size is None else size) + data
    return b"RIFF" + pack("<I", len(body)) + body


def _waves() -> Iterator[tuple[str, Build]]:
    for rate in (0, 1, 7, 384_000, 0x7FFFFFFF, _MOST):
        yield f"wav-of-{rate}-hertz", _fixed(_wave(rate=rate))
    for channels in (0, 64, 65_535):
        yield f"wav-of-{channels}-channels", _fixed(_wave(channels=channels))
    for bits in (0, 1, 65_535):
        yield f"wav-of-{bits}-bits", _fixed(_wave(bits=bits))
    for align in (0, 65_535):
        yield f"wav-aligned-to-{align}", _fixed(_wave(align=align))
    for size in (0, 1, 0x7FFFFFFF, _MOST):
        yield f"wav-with-{size}-bytes-of-data", _fixed(_wave(size=size))
    for code in (0, 2, 0x11, 0x55, 0x161, 0xFFFE, 0xFFFF):
        yield f"wav-of-format-{code}", _fixed(_wave(code=code))
    lists = b"".join(pack("<4sI4s", b"LIST", 4, b"INFO") for _ in range(20_000))
    yield "wav-with-20000-lists", lambda _: _wave(before=lists)
    yield "wav-with-a-list-of-4-gigabytes", lambda _: _wave(before=pack("<4sI", b"LIST", _MOST))
    long = pack("<4sIQQQI", b"ds64", 28, (1 << 63) - 1, (1 << 63) - 1, (1 << 63) - 1, 0)
    yield "rf64-of-9-exabytes", lambda _: b"RF64" + _wave(before=long, size=_MOST)[4:]
    yield "wav-that-holds-an-mp3", lambda o: _wave(code=0x55)[:44] + o("sound.mp3")
    yield "wav-that-holds-a-playlist", lambda o: _wave()[:44] + playlist(o)


def playlist(originals: Originals) -> bytes:
    """Return a playlist that names a file and a host."""
    entries = b"".join(
        b"#EXTINF:2,\n" + target + b"\n" for target in (originals.outside_path, originals.outside_url)
    )
    return b"#EXTM3U\n#EXT-X-TARGETDURATION:2\n" + entries + b"#EXT-X-ENDLIST\n"


def _big_endian() -> Iterator[tuple[str, Build]]:
    rates = {"0": bytes(10), "infinite": b"\x7f\xff" + bytes(8), "negative": b"\xc0\x0e" + b"\xbb" * 8}
    for name, rate in rates.items():

        def slow(originals: Originals, rate: bytes = rate) -> bytes:
            data = bytearray(originals("sound.aiff"))
            at = data.index(b"COMM") + 8
            data[at + 8 : at + 18] = rate
            return bytes(data)

        yield f"aiff-of-{name}-hertz", slow
    for name, (at, value) in {
        "0-hertz": (0, pack(">d", 0.0)),
        "nan-hertz": (0, pack(">d", float("nan"))),
        "packets-of-0-bytes": (16, bytes(4)),
        "packets-of-4-gigabytes": (16, b"\xff" * 4),
        "4-billion-channels": (24, b"\xff" * 4),
    }.items():

        def changed(originals: Originals, at: int = at, value: bytes = value) -> bytes:
            data = bytearray(originals("sound.caf"))
            start = data.index(b"desc") + 12 + at
            data[start : start + len(value)] = value
            return bytes(data)

        yield f"caf-of-{name}", changed
    negative = b"caff\0\1\0\0desc" + pack(">q", -2)
    yield "caf-with-a-chunk-of-negative-size", lambda o: negative + o("sound.caf")[20:]


def _flac_block(kind: int, body: bytes, size: int | None = None, *, is_last: bool = False) -> bytes:
    length = len(body) if size is None else size
    return bytes([kind | 0x80 * is_last]) + length.to_bytes(3, "big") + body


def _flacs() -> Iterator[tuple[str, Build]]:
    # The fields of STREAMINFO: the lowest and highest number of samples and of bytes in a block, then the
    # rate (20 bits), the channels (3), the bits of a sample (5), and the number of samples (36).
    for rate in (0, 1, 655_350, 0xFFFFF):
        for samples in (0, (1 << 36) - 1):
            yield (
                f"flac-of-{rate}-hertz-and-{samples}-samples",
                partial(_with_info, numbers=rate << 44 | 15 << 36 | samples),
            )
    yield "flac-with-blocks-of-0-samples", lambda o: o("sound.flac")[:8] + bytes(10) + o("sound.flac")[18:]
    blocks = {
        "a-comment-of-4-gigabytes": _flac_block(4, pack("<I", _MOST) + b"x" * 50),
        "4-billion-comments": _flac_block(4, pack("<II", 0, _MOST) + b"x" * 50),
        "a-cover-of-4-gigabytes": _flac_block(6, pack(">II", 3, _MOST) + b"x" * 50),
        "a-cover-of-4-billion-lines": _flac_block(
            6, pack(">II9sIIIIII", 3, 9, b"image/png", 0, _MOST, _MOST, 24, 0, 4) + b"\x89PNG"
        ),
        "a-block-of-16-megabytes": _flac_block(1, b"", 0xFFFFFF),
        "5000-empty-blocks": _flac_block(1, b"") * 5000,
        "a-cue-sheet-of-255-tracks": _flac_block(5, bytes(395) + b"\xff" + bytes(200)),
    }
    for name, block in blocks.items():
        yield f"flac-with-{name}", partial(_with_block, block=block)


def _with_info(originals: Originals, numbers: int) -> bytes:
    data = originals("sound.flac")
    return data[:18] + numbers.to_bytes(8, "big") + data[26:]


def _with_block(originals: Originals, block: bytes) -> bytes:
    """Insert a metadata block after STREAMINFO, which has 34 bytes."""
    data = originals("sound.flac")
    return data[:4] + bytes([data[4] & 0x7F]) + data[5:42] + block + data[42:]


def _crc_of_ogg(page: bytearray) -> int:
    value = 0
    for byte in page:
        value ^= byte << 24
        for _ in range(8):
            value = (value << 1 ^ (0x04C11DB7 if value & 0x80000000 else 0)) & _MOST
    return value


def _pages(data: bytes) -> Iterator[bytearray]:
    at = 0
    while data[at : at + 4] == b"OggS":
        count = data[at + 26]
        size = 27 + count + sum(data[at + 27 : at + 27 + count])
        yield bytearray(data[at : at + size])
        at += size


def _ogg(change: Callable[[int, bytearray], None], *, signed: bool = True) -> Build:
    """Change each page, and correct its checksum if `signed`."""

    def build(originals: Originals) -> bytes:
        out = b""
        for number, page in enumerate(_pages(originals("sound.ogg"))):
            change(number, page)
            if signed:
                page[22:26] = bytes(4)
                page[22:26] = pack("<I", _crc_of_ogg(page))
            out += page
        return out

    return build


def _oggs() -> Iterator[tuple[str, Build]]:
    def granule(number: int, page: bytearray, value: bytes) -> None:
        if number >= 2:
            page[6:14] = value

    def every_other(number: int, page: bytearray) -> None:
        page[14:18] = pack("<I", number % 2)

    def overwritten(number: int, page: bytearray, first: int, at: int, value: bytes) -> None:
        if number >= first:
            page[at : at + len(value)] = value

    for name, value in {
        "0": bytes(8),
        "the-largest": b"\xff" * 7 + b"\x7f",
        "negative": b"\xfe" + b"\xff" * 7,
    }.items():
        yield f"ogg-whose-times-are-{name}", _ogg(partial(granule, value=value))
    yield "ogg-of-two-mixed-streams", _ogg(every_other)
    yield "ogg-whose-pages-all-begin-a-stream", _ogg(lambda n, page: overwritten(n, page, 1, 5, b"\2"))
    yield "ogg-whose-pages-all-end-a-stream", _ogg(lambda n, page: overwritten(n, page, 0, 5, b"\4"))
    yield "ogg-with-wrong-sums", _ogg(lambda n, page: overwritten(n, page, 1, 22, b"\1\2\3\4"), signed=False)
    yield "ogg-of-full-page-tables", _ogg(lambda n, page: overwritten(n, page, 2, 26, b"\xff"))
    yield "ogg-of-0-hertz", _ogg(lambda n, page: overwritten(n, page, 0, 40, bytes(4)) if n == 0 else None)
    yield (
        "ogg-of-255-channels",
        _ogg(lambda n, page: overwritten(n, page, 0, 39, b"\xff") if n == 0 else None),
    )
    yield "ogg-chained-20-times", lambda o: o("sound.ogg") * 20
    yield "ogg-of-sound-then-film", lambda o: o("sound.ogg") + o("film.ogg")


def _streams() -> Iterator[tuple[str, Build]]:
    tag = b"ID3\4\0\0"
    yield "mp3-with-a-tag-of-256-megabytes", lambda o: tag + b"\x7f" * 4 + o("sound.mp3")
    cover = b"APIC" + b"\0\0\x7f\x7f\0\0" + b"\0image/png\0\3\0" + b"\x89PNG\r\n\x1a\n" + bytes(16_360)
    yield "mp3-with-a-broken-cover", lambda o: tag + b"\0\1\x00\x00" + cover + o("sound.mp3")
    yield "mp3-with-500-tags", lambda o: (tag + b"\0\0\0\x0a" + bytes(10)) * 500 + o("sound.mp3")
    yield "mp3-that-counts-4-billion-frames", lambda o: _with_xing(o("sound.mp3"))
    yield "mp3-whose-rate-changes", lambda o: _frames_at_another_rate(o("sound.mp3"))
    yield "mp3-behind-a-megabyte-of-nothing", lambda o: bytes(1 << 20) + o("sound.mp3")
    yield "aac-with-frames-of-no-length", lambda o: _with_frame_length(o("sound.aac"), 0)
    yield "aac-with-frames-of-8191-bytes", lambda o: _with_frame_length(o("sound.aac"), 8191)
    yield "aac-of-a-reserved-rate", lambda o: _with_byte(o("sound.aac"), 2, 0x7C)
    yield "aac-of-no-channels", lambda o: _with_byte(o("sound.aac"), 3, 0)


def _with_xing(data: bytes) -> bytes:
    at = max(data.find(b"Xing"), data.find(b"Info"))
    return data[: at + 8] + b"\xff" * 8 + data[at + 16 :]


def _frames_at_another_rate(data: bytes) -> bytes:
    """Change the sample rate in the header of each frame in the second half."""
    out, at = bytearray(data), len(data) // 2
    while (at := out.find(b"\xff\xfb", at)) >= 0 and at + 3 < len(out):
        out[at + 2] ^= 0x04
        at += 2
    return bytes(out)


def _adts(data: bytes) -> Iterator[int]:
    at = 0
    while at + 7 < len(data) and unpack_from(">H", data, at)[0] & 0xFFF0 == 0xFFF0:
        yield at
        at += (data[at + 3] & 3) << 11 | data[at + 4] << 3 | data[at + 5] >> 5


def _with_frame_length(data: bytes, length: int) -> bytes:
    out = bytearray(data)
    for at in [*_adts(data)][5:]:
        out[at + 3] = out[at + 3] & 0xFC | length >> 11
        out[at + 4] = length >> 3 & 0xFF
        out[at + 5] = out[at + 5] & 0x1F | (length & 7) << 5
    return bytes(out)


def _with_byte(data: bytes, place: int, value: int) -> bytes:
    out = bytearray(data)
    for at in _adts(data):
        out[at + place] = value
    return bytes(out)


def cases() -> Mapping[str, Build]:
    parts = (_waves, _big_endian, _flacs, _oggs, _streams)
    return {name: build for part in parts for name, build in part()}
