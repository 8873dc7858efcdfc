"""A PNG that declares more pixels than it has, as a file and as a cover."""

import zlib
from struct import pack


def png(width: int, height: int) -> bytes:
    """Return a PNG whose pixels are compressed 1000 times."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return pack(">I", len(body)) + kind + body + pack(">I", zlib.crc32(kind + body))

    head = chunk(b"IHDR", pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(bytes(1 << 20), 9))
    return b"\x89PNG\r\n\x1a\n" + head + pixels + chunk(b"IEND", b"")
