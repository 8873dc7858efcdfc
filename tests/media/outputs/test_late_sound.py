"""Tests of the silence before sound that begins late: how much memory it takes, and when the sound begins."""

from pathlib import Path

import pytest

from euterpe.media.planning.planner import plan
from euterpe.media.sandbox.sandbox import Sandbox
from tests.media.media_steps import probe, run
from tests.media.outputs.product_path import parsed
from tests.media.readers.sounds import beeps
from tests.media.sources.cache import Sources
from tests.media.sources.flashes import very_late_sound

_LATE_S = 20 * 60
_MIB = 1 << 20


@pytest.mark.parametrize("audio", [{}, {"loudness": {}}], ids=["plain", "loudness"])
def test_the_silence_before_late_sound_needs_no_memory(
    sandbox: Sandbox, sources: Sources, tmp_path: Path, audio: dict[str, object]
) -> None:
    """An earlier version put the whole silence into one frame.

    This frame took 1,571 MiB for an hour of silence, and 240 MiB for the 20 minutes of this test.
    """
    source = very_late_sound(sources, _LATE_S)
    film = {"name": "film", "type": "mp4", "audio": {"codec": "flac", "channels": "mono", **audio}}
    stats = run(sandbox, plan(parsed([film]), probe(sandbox, source), threads=1), source, tmp_path)
    assert stats.peak_memory_bytes < 120 * _MIB
    (beep,) = beeps(tmp_path / "film.mp4")
    assert beep == pytest.approx(_LATE_S, abs=0.002)
