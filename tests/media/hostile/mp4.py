"""Hostile MP4 and MOV files: wrong sizes, counts, times and edits, and references to other files."""

import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from struct import pack

from tests.media.hostile.originals import Originals
from tests.media.hostile.png import png

Change = Callable[[bytes], bytes]
Build = Callable[[Originals], bytes]

_STBL = "moov/trak/mdia/minf/stbl"
_MAX = 0xFFFFFFFF
_BOMB_BYTES = 64 << 20


def box(kind: bytes, body: bytes = b"") -> bytes:
    return pack(">I", len(body) + 8) + kind + body


def full(kind: bytes, body: bytes, version: int = 0) -> bytes:
    return box(kind, pack(">I", version << 24) + body)


def boxes(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield the start, end and type of each box of a valid file."""
    at = 0
    while at + 8 <= len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        yield at, at + size, data[at + 4 : at + 8]
        at += size


def find(data: bytes, path: str, base: int = 0) -> tuple[int, int]:
    """Return start and end of the first box at this path, such as `moov/trak/tkhd`."""
    name, _, rest = path.partition("/")
    start, end = next((one, two) for one, two, kind in boxes(data) if kind == name.encode())
    return find(data[start + 8 : end], rest, base + start + 8) if rest else (base + start, base + end)


def edited(data: bytes, path: str, change: Change) -> bytes:
    """Change the body of the first box at this path, correct the sizes around it, and return the file."""
    name, _, rest = path.partition("/")
    out, is_done = b"", False
    for start, end, kind in boxes(data):
        if kind == name.encode() and not is_done:
            body = data[start + 8 : end]
            out, is_done = out + box(kind, edited(body, rest, change) if rest else change(body)), True
        else:
            out += data[start:end]
    assert is_done, f"there is no {path}"
    return out


def _with(path: str, change: Change, original: str = "index-last.mp4") -> Build:
    return lambda originals: edited(originals(original), path, change)


def _body(path: str, body: bytes, original: str = "index-last.mp4") -> Build:
    return _with(path, lambda _: body, original)


def _overwritten(path: str, offset: int, value: bytes, original: str = "index-last.mp4") -> Build:
    """Overwrite bytes in the body of a box."""
    return _with(path, lambda body: body[:offset] + value + body[offset + len(value) :], original)


def _sized(path: str, size: int, original: str = "film.mp4") -> Build:
    """Set only the size field of a box, so that it no longer fits the box."""

    def build(originals: Originals) -> bytes:
        film = bytearray(originals(original))
        start, _ = find(bytes(film), path)
        film[start : start + 4] = pack(">I", size)
        return bytes(film)

    return build


def _sizes() -> Iterator[tuple[str, Build]]:
    paths = (
        "ftyp",
        "moov",
        "moov/trak",
        "moov/trak/mdia/minf/stbl",
        f"{_STBL}/stsd",
        f"{_STBL}/stsz",
        "mdat",
    )
    for path in paths:
        for size in (0, 1, 7, 9, 0x7FFFFFFF, _MAX):
            yield f"size-of-{path.rpartition('/')[2]}-is-{size}", _sized(path, size)


def _cuts() -> Iterator[tuple[str, Build]]:
    for name in ("film.mp4", "index-last.mp4", "fragments.mp4"):
        for place in range(4):
            for shift, where in ((0, "at"), (4, "after-half-a-header-of"), (23, "inside")):

                def build(
                    originals: Originals, name: str = name, place: int = place, shift: int = shift
                ) -> bytes:
                    film = originals(name)
                    starts = [start for start, _, _ in boxes(film)][1:]
                    return film[: starts[min(place, len(starts) - 1)] + shift]

                yield f"{name.removesuffix('.mp4')}-cut-{where}-box-{place + 1}", build


def _counts() -> Iterator[tuple[str, Build]]:
    many, none = pack(">II", 0, _MAX), pack(">II", 0, 0)
    for kind in ("stts", "stsc", "stco", "stss"):
        yield f"{kind}-counts-4-billion", _overwritten(f"{_STBL}/{kind}", 0, many)
        yield f"{kind}-is-empty", _body(f"{_STBL}/{kind}", none)
    yield "stsz-counts-4-billion-of-one-size", _body(f"{_STBL}/stsz", pack(">III", 0, 1, _MAX))
    yield "stsz-counts-4-billion-sizes", _body(f"{_STBL}/stsz", pack(">III", 0, 0, _MAX))
    yield "every-sample-has-4-gigabytes", _body(f"{_STBL}/stsz", pack(">III", 0, _MAX, 25))
    yield "every-sample-is-empty", _body(f"{_STBL}/stsz", pack(">III", 0, 0, 25) + bytes(100))
    yield "chunks-lie-beyond-the-end", _body(f"{_STBL}/stco", pack(">III", 0, 1, 0x7FFFFFF0))
    yield "chunks-lie-in-the-header", _body(f"{_STBL}/stco", pack(">III", 0, 1, 0))
    yield "first-chunk-is-0", _body(f"{_STBL}/stsc", pack(">IIIII", 0, 1, 0, 1000, 1))
    yield "samples-of-no-description", _body(f"{_STBL}/stsc", pack(">IIIII", 0, 1, 1, 1000, 99))
    yield "every-picture-at-one-time", _body(f"{_STBL}/stts", pack(">IIII", 0, 1, 25, 0))
    yield "every-picture-lasts-4-billion-ticks", _body(f"{_STBL}/stts", pack(">IIII", 0, 1, 25, _MAX))
    yield (
        "a-million-runs-of-times",
        _body(f"{_STBL}/stts", pack(">II", 0, 1_000_000) + pack(">II", 1, 1) * 1_000_000),
    )
    yield "descriptions-that-are-not-there", _overwritten(f"{_STBL}/stsd", 4, pack(">I", _MAX))
    shifts = pack(">II", 0, 25) + b"".join(pack(">Ii", 1, (-1) ** n * 0x7FFFFFFF) for n in range(25))
    yield "pictures-shown-before-and-after-all-time", _with(_STBL, lambda body: body + box(b"ctts", shifts))


def _clocks() -> Iterator[tuple[str, Build]]:
    for kind, path in (("mvhd", "moov/mvhd"), ("mdhd", "moov/trak/mdia/mdhd")):
        for scale in (0, 1, _MAX):
            yield f"timescale-of-{kind}-is-{scale}", _overwritten(path, 12, pack(">I", scale))
        for ticks in (0, 1, _MAX):
            yield f"duration-of-{kind}-is-{ticks}", _overwritten(path, 16, pack(">I", ticks))
    # In tkhd, the matrix begins at byte 40, and the size in pixels (16.16 fixed point) at byte 76.
    yield "size-of-the-track-is-65535", _overwritten("moov/trak/tkhd", 76, b"\xff" * 8)
    yield "size-of-the-track-is-0", _overwritten("moov/trak/tkhd", 76, bytes(8))
    yield "matrix-is-0", _overwritten("moov/trak/tkhd", 40, bytes(36))
    yield "matrix-is-extreme", _overwritten("moov/trak/tkhd", 40, b"\x7f\xff\xff\xff\x80\0\0\0" * 4)
    yield "track-number-is-0", _overwritten("moov/trak/tkhd", 12, bytes(4))
    # In stsd, 8 bytes precede the first entry, and width and height are at byte 32 of the entry.
    for name, size in (("0x0", (0, 0)), ("65535x65535", (65535, 65535)), ("1x65535", (1, 65535))):
        yield f"entry-of-{name}", _overwritten(f"{_STBL}/stsd", 8 + 32, pack(">HH", *size))


def _edits() -> Iterator[tuple[str, Build]]:
    def edit_list(entries: list[tuple[int, int, int]], count: int | None = None) -> Build:
        rows = b"".join(pack(">IiI", *entry) for entry in entries)
        elst = full(b"elst", pack(">I", len(entries) if count is None else count) + rows)
        return _with("moov/trak", lambda body: _without(body, b"edts") + box(b"edts", elst))

    once = 1 << 16
    yield "edits-that-are-none", edit_list([])
    yield "edits-that-are-not-there", edit_list([], _MAX)
    yield "edit-from-before-the-media", edit_list([(1000, -2, once)])
    yield "edit-from-the-last-tick-of-all", edit_list([(1000, 0x7FFFFFFF, once)])
    yield "edit-of-no-length", edit_list([(0, 0, once)])
    yield "edit-of-4-billion-ticks", edit_list([(_MAX, 0, once)])
    yield "empty-edit-of-49-days", edit_list([(_MAX, -1, once), (1000, 0, once)])
    yield "empty-edit-of-a-minute", edit_list([(60_000, -1, once), (1000, 0, once)])
    yield "only-empty-edits", edit_list([(1000, -1, once)] * 3)
    yield "edit-that-stands-still", edit_list([(1000, 0, 0)])
    yield "edit-at-twice-the-speed", edit_list([(500, 0, 2 * once)])
    yield "edit-that-runs-backwards", edit_list([(1000, 0, 0xFFFF0000)])
    yield "the-same-edit-500-times", edit_list([(1000, 0, once)] * 500)
    yield "20000-edits-of-a-tick", edit_list([(1, n % 12_000, once) for n in range(20_000)])
    yield "edits-in-reverse", edit_list([(100, 900 * 12 - n * 1200, once) for n in range(9)])
    yield "edits-that-overlap", edit_list([(1000, 0, once), (1000, 512, once), (1000, 0, once)])


def _without(body: bytes, unwanted: bytes) -> bytes:
    return b"".join(body[start:end] for start, end, kind in boxes(body) if kind != unwanted)


def _codecs() -> Iterator[tuple[str, Build]]:
    for code in (b"hvc1", b"av01", b"mp4v", b"png ", b"rle ", b"encv", b"drmi", b"text", b"\0\0\0\0"):
        name = code.decode().strip("\0 ") or "nothing"
        yield f"h264-that-is-called-{name}", _overwritten(f"{_STBL}/stsd", 8 + 4, code)
    yield "pictures-in-a-track-of-sound", _overwritten("moov/trak/mdia/hdlr", 8, b"soun")
    yield "pictures-in-a-track-of-subtitles", _overwritten("moov/trak/mdia/hdlr", 8, b"sbtl")
    yield "hevc-that-is-called-avc1", _overwritten(f"{_STBL}/stsd", 8 + 4, b"avc1", "hevc.mp4")
    yield "a-decoder-configuration-of-zeros", _overwritten(f"{_STBL}/stsd", 8 + 86 + 8, bytes(30))


def _references() -> Iterator[tuple[str, Build]]:
    """Yield films that name a file or a host, which must not be opened."""

    def outside(kind: bytes, body: Callable[[Originals], bytes]) -> Build:
        path = "moov/trak/mdia/minf/dinf/dref"
        return lambda o: edited(
            o("index-last.mp4"), path, lambda _: pack(">II", 0, 1) + box(kind, bytes(4) + body(o))
        )

    yield "data-at-a-path", outside(b"url ", lambda o: b"file://" + o.outside_path + b"\0")
    yield "data-at-a-url", outside(b"url ", lambda o: o.outside_url + b"\0")
    yield "data-in-an-alias", outside(b"alis", lambda o: _alias(o.outside_path))
    yield "data-in-a-resource", outside(b"rsrc", lambda o: o.outside_path + b"\0")
    yield "a-movie-that-is-only-a-reference", lambda o: _reference_movie(o.outside_url)


def _reference_movie(url: bytes) -> bytes:
    target = full(b"rdrf", b"url " + pack(">I", len(url) + 1) + url + b"\0")
    return box(b"ftyp", b"qt  \0\0\0\0qt  ") + box(b"moov", box(b"rmra", box(b"rmda", target)))


def _alias(target: bytes) -> bytes:
    """Return an alias of Mac OS with a volume, a folder and an absolute path."""
    name = b"x".ljust(64, b"\0")
    fixed = bytes(8) + b"\0\2\0\0" + b"\4disk".ljust(28, b"\0") + bytes(6) + b"\1" + name[:63] + bytes(16)
    even = target + bytes(len(target) % 2)
    fields = b"".join(pack(">HH", kind, len(target)) + even for kind in (2, 18))
    return pack(">HH", 0, 150) + fixed.ljust(146, b"\0") + fields + pack(">HH", 0xFFFF, 0)


def _nests() -> Iterator[tuple[str, Build]]:
    def nested(kind: bytes, depth: int) -> bytes:
        body = b""
        for _ in range(depth):
            body = box(kind, body)
        return body

    for kind in (b"moov", b"trak", b"udta", b"meta"):
        data = box(b"ftyp", b"isom\0\0\0\0isom") + nested(kind, 5000)
        yield f"5000-{kind.decode()}-in-each-other", partial(_constant, data=data)
    yield "100000-empty-boxes", lambda o: box(b"free") * 100_000 + o("film.mp4")
    yield (
        "2000-tracks",
        _with("moov", lambda body: body + body[find(body, "trak")[0] : find(body, "trak")[1]] * 200),
    )
    yield "an-index-inside-the-media", lambda o: _in_media(o("film.mp4"))
    yield "two-indexes", lambda o: o("index-last.mp4") + _part(o("index-last.mp4"), "moov")
    yield "a-compressed-index-of-64-megabytes", lambda o: _with_packed_index(o, _bomb(), _BOMB_BYTES)
    yield "a-compressed-index-that-lies", lambda o: _with_packed_index(o, _bomb()[:1000], _MAX)


@cache
def _bomb() -> bytes:
    return zlib.compress(bytes(_BOMB_BYTES), 9)


def _with_packed_index(originals: Originals, packed: bytes, size: int) -> bytes:
    body = box(b"cmov", box(b"dcom", b"zlib") + box(b"cmvd", pack(">I", size) + packed))
    return edited(originals("index-last.mp4"), "moov", lambda _: body)


def _constant(_: Originals, data: bytes) -> bytes:
    return data


def _part(film: bytes, path: str) -> bytes:
    start, end = find(film, path)
    return film[start:end]


def _in_media(film: bytes) -> bytes:
    return _part(film, "ftyp") + box(b"mdat", _part(film, "moov") + _part(film, "mdat"))


def _fragments() -> Iterator[tuple[str, Build]]:
    run = "moof/traf/trun"
    name = "fragments.mp4"
    yield "a-fragment-of-4-billion-samples", _overwritten(run, 4, pack(">I", _MAX), name)
    yield "a-fragment-of-no-track", _overwritten("moof/traf/tfhd", 4, pack(">I", 99), name)
    yield "a-fragment-without-a-head", _with("moof/traf", lambda body: _without(body, b"tfhd"), name)
    yield "a-fragment-at-the-end-of-time", _body("moof/traf/tfdt", b"\1\0\0\0" + b"\x7f" + b"\xff" * 7, name)
    yield "the-same-fragments-100-times", lambda o: o(name) + _from(o(name), b"moof") * 100
    yield "fragments-in-reverse", lambda o: _reversed(o(name))
    yield "fragments-without-an-index", lambda o: _from(o(name), b"moof")
    index = full(b"sidx", pack(">IIIIHH", 1, 1000, 0, 0, 0, 0xFFFF) + b"\xff" * 12)
    yield "an-index-of-segments-that-lies", lambda o: index + o(name)


def _from(film: bytes, kind: bytes) -> bytes:
    return film[next(start for start, _, found in boxes(film) if found == kind) :]


def _reversed(film: bytes) -> bytes:
    parts = [film[start:end] for start, end, _ in boxes(film)]
    return b"".join(parts[:2] + parts[:1:-1])


def _pictures() -> Iterator[tuple[str, Build]]:
    cover = box(b"data", pack(">II", 14, 0) + png(60_000, 60_000))
    items = box(b"ilst", box(b"covr", cover))
    handler = full(b"hdlr", bytes(4) + b"mdir" + b"appl" + bytes(9))
    tags = box(b"udta", full(b"meta", handler + items))
    yield "a-cover-of-60000-lines", lambda o: edited(o("sound.m4a"), "moov", lambda body: body + tags)
    grid = full(b"ispe", pack(">II", 65_535, 65_535))
    properties = box(b"iprp", box(b"ipco", grid) + full(b"ipma", pack(">IHBB", 1, 1, 1, 0x81)))
    meta = full(b"hdlr", bytes(4) + b"pict" + bytes(13)) + full(b"pitm", pack(">H", 1)) + properties
    yield "an-avif-of-65535-lines", lambda _: box(b"ftyp", b"avif\0\0\0\0avifmif1miaf") + full(b"meta", meta)


def cases() -> Mapping[str, Build]:
    parts = (_cuts, _sizes, _counts, _clocks, _edits, _codecs, _nests, _fragments, _pictures)
    return {name: build for part in parts for name, build in part()}


def references() -> Mapping[str, Build]:
    """Return the films that name a file or a host."""
    return dict(_references())
