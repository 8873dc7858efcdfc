"""Tests of the MPEG-TS sources: their clocks and their picture sizes."""

from pathlib import Path

import pytest

from tests.media.readers.media import packet_starts
from tests.media.readers.pictures import numbers
from tests.media.sources.cache import Sources
from tests.media.sources.transport_streams import (
    OFFSETS_S,
    WRAP_OFFSET_S,
    changing_size,
    joined_bytes,
    shifted_flashes,
    shifted_numbers,
)

WRAP_S = 2**33 / 90_000
_PACKET, _VIDEO_STREAMS = 188, range(0xE0, 0xF0)


def clock_values(path: Path) -> list[int]:
    """Return the presentation times (33 bits each) of the video in the file."""
    data, found = path.read_bytes(), []
    for at in range(0, len(data), _PACKET):
        packet = data[at : at + _PACKET]
        start = 5 + packet[4] if packet[3] & 0x20 else 4
        header = packet[start : start + 14]
        if packet[1] & 0x40 and header[:3] == b"\0\0\1" and header[3] in _VIDEO_STREAMS and header[7] & 0x80:
            one, two, three, four, five = header[9:14]
            high, middle = (one >> 1 & 7) << 30, (two << 7 | three >> 1) << 15
            found.append(high | middle | four << 7 | five >> 1)
    return found


@pytest.mark.parametrize("offset", OFFSETS_S)
def test_a_stream_begins_at_its_offset(sources: Sources, offset: float) -> None:
    for path in (shifted_flashes(sources, offset), shifted_numbers(sources, offset)):
        assert min(packet_starts(path).values()) % WRAP_S == pytest.approx(offset + 1.4, abs=0.1)


def test_the_clock_wraps_in_the_middle(sources: Sources) -> None:
    values = clock_values(shifted_numbers(sources, WRAP_OFFSET_S))
    assert len(values) == 100
    before = [value for value in values if value > 2**32]
    assert 30 < len(before) < 70
    assert numbers(shifted_numbers(sources, WRAP_OFFSET_S)) == [*range(100)]


def test_the_size_of_a_film_changes_and_its_pictures_go_on(sources: Sources) -> None:
    for path in (changing_size(sources), joined_bytes(sources)):
        assert numbers(path) == [*range(50)]
