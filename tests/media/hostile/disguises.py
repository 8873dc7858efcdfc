"""Files with a misleading format: pictures, playlists that follow a media header, and joined files."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from struct import pack

from tests.media.hostile.mp4 import box
from tests.media.hostile.originals import Originals
from tests.media.hostile.png import png
from tests.media.hostile.sounds import playlist

Build = Callable[[Originals], bytes]

_TINY_GIF = b"\x2c\0\0\0\0\1\0\1\0\0\2\2\x44\1\0"


def _pictures() -> Iterator[tuple[str, Build]]:
    gif = b"GIF89a" + pack("<HH", 65_535, 65_535) + b"\x80\0\0" + bytes(6)
    yield "gif-of-65535-lines", lambda _: gif + _TINY_GIF + b";"
    yield "gif-of-20000-pictures", lambda _: gif + _TINY_GIF * 20_000 + b";"
    yield "png-of-100000-lines", lambda _: png(100_000, 100_000)
    yield (
        "webp-of-16-million-lines",
        lambda _: _riff(b"WEBP", b"VP8X" + pack("<I", 10) + bytes(4) + b"\xff" * 6),
    )
    bitmap = pack("<IiiHHIIiiII", 40, 1 << 30, 1 << 30, 1, 32, 0, 0, 0, 0, 0, 0)
    yield "bmp-of-a-billion-lines", lambda _: b"BM" + pack("<III", 54, 0, 54) + bitmap
    yield "tiff-that-leads-to-itself", lambda _: b"II*\0" + pack("<IHI", 8, 0, 8)
    start = b"\xff\xd8\xff\xc0" + pack(">HBHHB", 17, 8, 65_500, 65_500, 3) + b"\1\x11\0\2\x11\1\3\x11\1"
    yield "jpeg-of-65500-lines", lambda _: start + b"\xff\xd9"
    yield "jpeg-xl-of-nothing", lambda _: b"\0\0\0\x0cJXL \r\n\x87\n" + b"\xff" * 200
    yield "svg-of-a-billion-laughs", lambda _: _laughs()


def _riff(kind: bytes, body: bytes) -> bytes:
    return b"RIFF" + pack("<I", len(body) + 4) + kind + body


def _laughs() -> bytes:
    entities = "".join(f'<!ENTITY l{n + 1} "{f"&l{n};" * 10}">' for n in range(9))
    return f'<?xml version="1.0"?><!DOCTYPE svg [<!ENTITY l0 "ha">{entities}]><svg>&l9;</svg>'.encode()


def _playlists() -> Iterator[tuple[str, Build]]:
    heads: Mapping[str, bytes] = {
        "nothing": b"",
        "mp4": box(b"ftyp", b"isom\0\0\0\0isom"),
        "matroska": b"\x1a\x45\xdf\xa3\x80",
        "mpegts": b"\x47\x40\x00\x10".ljust(188, b"\0"),
        "ogg": b"OggS" + bytes(24),
        "flac": b"fLaC",
        "mp3": b"ID3\4\0\0\0\0\0\0",
        "a-byte-order-mark": b"\xef\xbb\xbf",
        "blank-lines": b"\n" * 5000,
    }
    for name, head in heads.items():
        yield f"playlist-behind-{name}", partial(_behind, head=head)
    for name in ("concat", "dash", "rtsp", "imf", "smil"):
        yield f"{name}-that-names-a-host", partial(_list_of, kind=name)


def _behind(originals: Originals, head: bytes) -> bytes:
    return head + playlist(originals) * 50


def _list_of(originals: Originals, kind: str) -> bytes:
    url = originals.outside_url
    return {
        "concat": b"ffconcat version 1.0\nfile '" + url + b"'\n",
        "dash": b'<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011"><BaseURL>'
        + url
        + b"</BaseURL></MPD>",
        "rtsp": b"v=0\ns=x\nc=IN IP4 127.0.0.1\na=control:" + url + b"\nm=video 9 RTP/AVP 96\n",
        "imf": b'<CompositionPlaylist xmlns="http://www.smpte-ra.org/schemas/2067-3/2016"><Id>'
        + url
        + b"</Id></CompositionPlaylist>",
        "smil": b"<smil><body><video src='" + url + b"'/></body></smil>",
    }[kind]


def _joins() -> Iterator[tuple[str, Build]]:
    pairs = (
        ("film.mp4", "film.mp4"),
        ("film.mp4", "film.mkv"),
        ("fragments.mp4", "hevc.mp4"),
        ("film.mkv", "film.mkv"),
        ("film.mkv", "film.webm"),
        ("film.ts", "film.mpg"),
        ("film.ts", "film.mp4"),
        ("film.avi", "film.avi"),
        ("film.flv", "film.flv"),
        ("film.asf", "film.asf"),
        ("sound.mp3", "sound.aac"),
        ("sound.mp3", "film.mp4"),
        ("sound.wav", "sound.wav"),
        ("sound.flac", "sound.flac"),
        ("sound.flac", "sound.ogg"),
        ("sound.ogg", "sound.ogg"),
    )
    for first, second in pairs:
        yield f"{first}-and-{second}", partial(_joined, first=first, second=second)
    archive = b"PK\3\4" + bytes(26) + b"PK\5\6" + bytes(18)
    yield "film-and-an-archive", lambda o: o("film.mp4") + archive
    yield "an-archive-and-a-film", lambda o: archive + o("film.mp4")
    yield "one-byte-and-a-film", lambda o: b"\0" + o("film.mp4")
    yield "a-megabyte-of-zeros", lambda _: bytes(1 << 20)
    yield "a-program", lambda _: b"\x7fELF\2\1\1" + bytes(5000)
    yield "a-script", lambda o: b"#!/bin/sh\ncat " + o.outside_path + b"\n"


def _joined(originals: Originals, first: str, second: str) -> bytes:
    return originals(first) + originals(second)


def cases() -> Mapping[str, Build]:
    return {name: build for part in (_pictures, _joins) for name, build in part()}


def references() -> Mapping[str, Build]:
    """Return the playlists and lists that name a file or a host."""
    return dict(_playlists())
