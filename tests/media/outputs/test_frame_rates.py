"""Tests of the highest frame rate of sources with a variable rate: bursts are thinned, and jitter is kept."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from euterpe.media.planning.planner import plan
from euterpe.media.sandbox.sandbox import Sandbox
from tests.media.media_steps import probe
from tests.media.outputs.product_path import Make
from tests.media.planning.facts import specs, warning_codes
from tests.media.readers.pictures import numbered_pictures, numbers
from tests.media.sources.cache import Sources
from tests.media.sources.numbered import jittered, jittered_at_60, variable, with_burst

FILM: dict[str, Any] = {"name": "film", "type": "mp4"}
Source = Callable[[Sources, str], Path]


@pytest.mark.parametrize("container", ["mp4", "mkv"])
def test_a_burst_is_thinned_and_the_other_pictures_keep_their_times(
    make: Make, sources: Sources, sandbox: Sandbox, container: str
) -> None:
    """An earlier version used the mean rate, 49 pictures per second.

    That version kept all 60 pictures of the burst, which lasts a quarter of a second.
    """
    source = with_burst(sources, container)
    found = list(numbered_pictures(make([FILM], source) / "film.mp4"))
    burst = [one for one in found if 25 <= one.number < 85]
    assert 14 <= len(burst) <= 20
    others = [one for one in found if one not in burst]
    assert [one.number for one in others] == [*range(25), *range(85, 110)]
    assert [one.seconds for one in others] == pytest.approx(
        [*(place / 25 for place in range(25)), *(1.25 + place / 25 for place in range(25))], abs=0.001
    )
    assert warning_codes(plan(specs(FILM), probe(sandbox, source), threads=1)) == ["frame_rate_capped"]


@pytest.mark.parametrize(
    ("source", "fps"), [(jittered_at_60, None), (jittered_at_60, 60), (jittered, 25), (variable, None)]
)
def test_jitter_loses_no_picture(
    make: Make, sources: Sources, sandbox: Sandbox, source: Source, fps: float | None
) -> None:
    film = FILM if fps is None else {**FILM, "video": {"fps": fps}}
    path = source(sources, "mkv")  # the 1 kHz clock of Matroska adds jitter
    assert numbers(make([film], path) / "film.mp4") == list(range(len(numbers(path))))
    assert warning_codes(plan(specs(film), probe(sandbox, path), threads=1)) == []


def test_a_film_with_a_burst_is_not_copied(sources: Sources, sandbox: Sandbox) -> None:
    film = {**FILM, "video": {"copy": "auto"}}
    for path, count in ((with_burst(sources), 0), (variable(sources), 1)):
        (command,) = plan(specs(film), probe(sandbox, path), threads=1).commands
        assert len(command.copies) == count
