"""Tests of the subtitles of films: `on_tick` is also called while the tracks of a large film are changed."""

from pathlib import Path
from typing import Any

from euterpe.media.encoding.film_subtitles import disable_subtitles
from tests.media.children import StubSandbox
from tests.media.planning.facts import SUBTITLE, VIDEO, info, planned


class TickingSandbox(StubSandbox):
    """A sandbox that runs `on_tick` once in each `call`."""

    def call(self, *_: Any, **options: Any) -> Any:
        options["on_tick"]()


def test_the_attempt_is_checked_while_tracks_are_disabled(tmp_path: Path) -> None:
    ticks = list[int]()
    film = {"name": "film", "type": "mp4", "subtitles": "all"}
    (command,) = planned(film, facts=info(VIDEO, SUBTITLE)).commands
    disable_subtitles(TickingSandbox(None), command, tmp_path, on_tick=lambda: ticks.append(1))
    assert ticks == [1]
