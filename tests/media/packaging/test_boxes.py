"""Tests that the boxes of MP4 files are read only within their bounds, whatever sizes they declare."""

import os
from collections.abc import Callable
from pathlib import Path
from struct import pack

import pytest

from euterpe.media.errors import MediaError
from euterpe.media.packaging.boxes import Box, Fields, boxes_in, boxes_of_file, child, optional_child

FILE = Box(b"", 0, 0, 0)


def box(kind: bytes, body: bytes = b"", *, declared: int | None = None) -> bytes:
    return pack(">I4s", len(body) + 8 if declared is None else declared, kind) + body


def large(kind: bytes, body: bytes, declared: int) -> bytes:
    return pack(">I4sQ", 1, kind, declared) + body


def read_in_memory(data: bytes) -> list[Box]:
    return list(boxes_in(data, 0, len(data)))


def read_in_a_file(data: bytes, path: Path) -> list[Box]:
    path.write_bytes(data)
    fd = os.open(path, os.O_RDONLY)
    try:
        return list(boxes_of_file(fd, len(data)))
    finally:
        os.close(fd)


@pytest.fixture(params=["memory", "file"])
def read(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[bytes], list[Box]]:
    if request.param == "memory":
        return read_in_memory
    return lambda data: read_in_a_file(data, tmp_path / "boxes")


def test_boxes_are_found_with_their_positions(read: Callable[[bytes], list[Box]]) -> None:
    data = box(b"ftyp", bytes(4)) + large(b"mdat", bytes(3), 19) + box(b"free")
    assert read(data) == [Box(b"ftyp", 0, 8, 12), Box(b"mdat", 12, 28, 31), Box(b"free", 31, 39, 39)]


@pytest.mark.parametrize(
    "data",
    [
        b"\0\0\0",
        box(b"free") + b"\0" * 7,
        box(b"free", declared=0),  # size 0 means "to the end of the file", so nothing could be appended
        box(b"free", declared=7),
        box(b"free", declared=9),
        box(b"free", bytes(8), declared=2**32 - 1),
        large(b"mdat", b"", 15),
        large(b"mdat", bytes(8), 2**64 - 1),
        box(b"free", declared=1),
        box(b"free", declared=1) + bytes(4),
        box(b"free") * 10_001,
    ],
)
def test_a_wrong_size_is_an_error(read: Callable[[bytes], list[Box]], data: bytes) -> None:
    with pytest.raises(MediaError):
        read(data)


def test_a_child_must_be_the_only_one() -> None:
    data = box(b"moov") + box(b"free") + box(b"free")
    file = Box(b"", 0, 0, len(data))
    assert child(data, file, b"moov").start == 0
    assert optional_child(data, file, b"mdat") is None
    for kind in (b"mdat", b"free"):
        with pytest.raises(MediaError):
            child(data, file, kind)


def test_fields_end_with_their_box() -> None:
    fields = Fields(bytes(range(1, 9)), 0, 6)
    assert (fields.number(1), fields.number(2), fields.left) == (1, 0x0203, 3)
    for read in (
        lambda: fields.number(4),
        lambda: fields.signed(4),
        lambda: fields.take(4),
        lambda: fields.skip(-1),
    ):
        with pytest.raises(MediaError):
            read()
    assert fields.take(3) == b"\4\5\6"
