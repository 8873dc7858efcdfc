"""Tests that the boxes of an MP4 file show whether it is cut off."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from euterpe.media.errors import MediaError
from euterpe.media.sandbox.sandbox import Sandbox
from euterpe.media.source.probe import is_cut_off
from tests.media.clips import Clips
from tests.media.media_steps import probe


def box(kind: bytes, size: int, *, declared: int | None = None) -> bytes:
    return (size if declared is None else declared).to_bytes(4, "big") + kind + bytes(size - 8)


@pytest.fixture
def cut_off(tmp_path: Path) -> Callable[[bytes], bool]:
    def is_file_cut_off(data: bytes) -> bool:
        path = tmp_path / "boxes"
        path.write_bytes(data)
        fd = os.open(path, os.O_RDONLY)
        try:
            return is_cut_off(fd)
        finally:
            os.close(fd)

    return is_file_cut_off


@pytest.mark.parametrize(
    ("data", "verdict"),
    [
        (box(b"ftyp", 24) + box(b"moov", 100), False),
        (box(b"ftyp", 24) + box(b"moov", 100)[:-1], True),
        (box(b"ftyp", 24) + box(b"mdat", 64, declared=0), False),
        (box(b"ftyp", 24) + box(b"mdat", 64, declared=2**31), True),
        (box(b"ftyp", 24) + (1).to_bytes(4, "big") + b"mdat" + (40).to_bytes(8, "big") + bytes(24), False),
        (box(b"ftyp", 24) + (1).to_bytes(4, "big") + b"mdat" + (2**60).to_bytes(8, "big"), True),
        (box(b"ftyp", 24) + box(b"junk", 16, declared=3), False),
        (box(b"ftyp", 24) + b"\0\0\0", False),
        (b"RIFF, and a text that is no box at all", False),
        (b"", False),
    ],
)
def test_a_file_is_cut_off_when_a_box_ends_beyond_it(
    cut_off: Callable[[bytes], bool], data: bytes, verdict: bool
) -> None:
    assert cut_off(data) is verdict


@pytest.mark.parametrize("lost", [100, 500])
def test_a_film_that_lost_the_end_of_its_index_is_not_taken_for_a_silent_one(
    clips: Clips, sandbox: Sandbox, tmp_path: Path, lost: int
) -> None:
    """A reader can open such a file without an error, but finds only its first stream."""
    whole = clips.make("film.mp4").read_bytes()
    at = whole.rindex(b"moov") - 4
    cut = tmp_path / "cut.mp4"
    cut.write_bytes(whole[: at + int.from_bytes(whole[at : at + 4], "big") - lost])
    with pytest.raises(MediaError) as refused:
        probe(sandbox, cut)
    assert refused.value.code == "source_truncated"
