"""Tests of the film with flashes and beeps, and of the variants of its file."""

from pathlib import Path

import pytest

from tests.media.readers.media import opened, packet_ends, packet_starts
from tests.media.readers.pictures import flashes
from tests.media.readers.sounds import beeps
from tests.media.sources.cache import Sources
from tests.media.sources.flashes import (
    INSTANTS,
    cut_by_copy,
    cut_inside_a_picture,
    flash_film,
    late_picture,
    late_sound,
    longer_sound,
)


def offsets(path: Path) -> list[float]:
    return [beep - flash for flash, beep in zip(flashes(path), beeps(path), strict=True)]


@pytest.mark.parametrize("container", ["mp4", "mov", "mkv", "ts"])
def test_each_flash_has_its_beep_at_the_known_instant(sources: Sources, container: str) -> None:
    path = flash_film(sources, container)
    assert len(flashes(path)) == len(INSTANTS)
    assert offsets(path) == pytest.approx([0.0] * len(INSTANTS), abs=0.0015)
    if container != "ts":
        assert beeps(path) == pytest.approx(INSTANTS, abs=0.0015)


def test_late_sound_is_late_by_two_seconds(sources: Sources) -> None:
    assert packet_starts(late_sound(sources))[1] == pytest.approx(2.0, abs=0.03)
    assert offsets(late_sound(sources)) == pytest.approx([2.0] * len(INSTANTS), abs=0.0015)


def test_a_late_picture_is_late_by_a_second(sources: Sources) -> None:
    assert offsets(late_picture(sources)) == pytest.approx([-1.0] * len(INSTANTS), abs=0.0015)


def test_a_film_cut_by_copy_hides_packets_by_an_edit_list(sources: Sources) -> None:
    path = cut_by_copy(sources)
    with opened(path) as container:
        packets = [packet for packet in container.demux(container.streams.video[0]) if packet.size]
        assert any(packet.is_discard for packet in packets)
    assert len(flashes(path)) == 3
    assert offsets(path) == pytest.approx([0.0] * 3, abs=0.0015)


def test_the_reader_sees_a_film_that_was_cut_inside_a_picture_20_ms_apart(sources: Sources) -> None:
    """The edit lists contain no offset, but libavformat moves the pictures to the start of the edit."""
    assert offsets(cut_inside_a_picture(sources)) == pytest.approx([0.02] * 3, abs=0.0015)


def test_longer_sound_ends_after_the_picture(sources: Sources) -> None:
    ends = packet_ends(longer_sound(sources))
    assert ends[1] - ends[0] == pytest.approx(0.3, abs=0.05)
