"""Tests that durations come from packets, because the headers of a container may be wrong."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from euterpe.media.sandbox.sandbox import Sandbox
from tests.media.media_steps import probe
from tests.media.readers.media import end_seconds, packet_starts
from tests.media.sources.cache import Sources
from tests.media.sources.flashes import flash_film
from tests.media.sources.numbered import constant, jittered, long_last_picture, variable
from tests.media.sources.transport_streams import OFFSETS_S, shifted_flashes

SOURCES: dict[str, Callable[[Sources], Path]] = {
    "mp4": flash_film,
    "mkv": lambda sources: flash_film(sources, "mkv"),
    "variable": variable,
    "variable mkv": lambda sources: variable(sources, "mkv"),
    "variable mov": lambda sources: variable(sources, "mov"),
    "jittered mkv": lambda sources: jittered(sources, "mkv"),
    "long last picture": long_last_picture,
    "one picture": lambda sources: constant(sources, 1),
    **{f"ts at {offset:.0f} s": partial(shifted_flashes, offset_s=offset) for offset in OFFSETS_S},
}


@pytest.mark.parametrize("name", SOURCES)
def test_a_duration_is_that_of_the_packets(sandbox: Sandbox, sources: Sources, name: str) -> None:
    path = SOURCES[name](sources)
    expected = end_seconds(path) - min(packet_starts(path).values())
    assert probe(sandbox, path).duration_seconds == pytest.approx(expected, abs=0.025)
