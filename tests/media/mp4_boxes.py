"""Helpers that edit MP4 files box by box."""

from collections.abc import Sequence
from pathlib import Path
from struct import pack

_PARENTS = (b"moov", b"trak", b"mdia", b"minf", b"dinf")


def with_outside_data(film: bytes, target: Path) -> bytes:
    """Return the film, changed so that all its tracks refer to media in another file.

    The index must be the last box, because it grows, and the boxes before it must keep their offsets.
    """
    out, position = b"", 0
    while position < len(film):
        size = int.from_bytes(film[position : position + 4], "big")
        kind, body = film[position + 4 : position + 8], film[position + 8 : position + size]
        if kind in _PARENTS:
            body = with_outside_data(body, target)
        elif kind == b"dref":  # one entry with a URL; the flag "self-contained" is not set
            body = bytes(4) + (1).to_bytes(4, "big") + _box(b"url ", bytes(4) + f"file://{target}\0".encode())
        out += _box(kind, body)
        position += size
    return out


def _box(kind: bytes, body: bytes) -> bytes:
    return (len(body) + 8).to_bytes(4, "big") + kind + body


def with_crop(film: bytes, width: int, height: int) -> bytes:
    """Return the film of H.264 with the box `clap`, which crops its pictures to their middle.

    The index must be the last box, as in `with_outside_data`.
    """
    out, position = b"", 0
    while position < len(film):
        size = int.from_bytes(film[position : position + 4], "big")
        kind, body = film[position + 4 : position + 8], film[position + 8 : position + size]
        if kind in (*_PARENTS, b"stbl"):
            body = with_crop(body, width, height)
        elif kind == b"stsd" and body[12:16] == b"avc1":
            fractions = (width, 1, height, 1, 0, 1, 0, 1)
            crop = _box(b"clap", b"".join(number.to_bytes(4, "big") for number in fractions))
            body = body[:8] + _box(b"avc1", body[16:] + crop)
        out += _box(kind, body)
        position += size
    return out


def with_edits(film: bytes, edits: Sequence[tuple[int, int]]) -> bytes:
    """Return the film with this edit list in each track: pairs of duration in milliseconds and media time.

    The index must be the last box, as in `with_outside_data`.
    """
    rows = b"".join(pack(">IiI", *edit, 1 << 16) for edit in edits)
    edit_list = _box(b"edts", _box(b"elst", pack(">II", 0, len(edits)) + rows))
    out, position = b"", 0
    while position < len(film):
        size = int.from_bytes(film[position : position + 4], "big")
        kind, body = film[position + 4 : position + 8], film[position + 8 : position + size]
        if kind in (b"moov", b"trak"):
            body = with_edits(body, edits) + (edit_list if kind == b"trak" else b"")
        if kind != b"edts":
            out += _box(kind, body)
        position += size
    return out


def with_second_description(film: bytes) -> bytes:
    """Return the film with a second, unused copy of its sample description.

    The index must be the last box, as in `with_outside_data`.
    """
    out, position = b"", 0
    while position < len(film):
        size = int.from_bytes(film[position : position + 4], "big")
        kind, body = film[position + 4 : position + 8], film[position + 8 : position + size]
        if kind in (*_PARENTS, b"stbl"):
            body = with_second_description(body)
        elif kind == b"stsd":
            body = pack(">II", 0, 2) + 2 * body[8:]
        out += _box(kind, body)
        position += size
    return out


def with_timescale(film: bytes, kind: bytes, timescale: int) -> bytes:
    """Return the film with this timescale in its boxes of this kind (`mvhd` or `mdhd`, version 0)."""
    out, position = bytearray(film), 0
    while (position := out.find(kind, position)) != -1:
        position += len(kind) + 12  # skip version, flags, and the times of creation and modification
        out[position : position + 4] = timescale.to_bytes(4, "big")
    return bytes(out)
