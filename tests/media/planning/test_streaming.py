"""Tests of the decision whether the encode of a plan may begin before its source is complete."""

from typing import Any

import pytest

from euterpe.media.planning.streaming import STREAMED, can_stream
from tests.media.planning.facts import AUDIO, SUBTITLE, VIDEO, info, planned

FILM: dict[str, Any] = {"name": "film", "type": "mp4"}
HLS: dict[str, Any] = {"name": "hls", "type": "hls", "video": {"ladder": [720, 480]}}
SOUND: dict[str, Any] = {"name": "sound", "type": "m4a"}
POSTER: dict[str, Any] = {"name": "poster", "type": "image", "at": ["50%"]}


@pytest.mark.parametrize("container", STREAMED)
def test_a_command_that_reads_all_of_its_source_once_can_begin_early(container: str) -> None:
    assert can_stream(planned(FILM, HLS, SOUND, POSTER, facts=info(container=container)))


@pytest.mark.parametrize(
    "output",
    [
        POSTER,
        {**FILM, "start": 1.0},
        {**FILM, "end": 5.0},
        {**FILM, "video": {"codec": "h264", "bitrate_kbps": 1000}},
        {**FILM, "metadata": "keep"},
        {**FILM, "optional": True},
        {**FILM, "subtitles": "all"},
        {**FILM, "video": {"copy": "auto"}},
        {**FILM, "audio": {"copy": "auto"}},
    ],
    ids=[
        *("seek", "start", "end", "two passes", "tags of the end", "optional"),
        *("subtitles", "picture is copied", "sound is copied"),
    ],
)
def test_other_commands_wait_for_the_source(output: dict[str, Any]) -> None:
    assert not can_stream(planned(output, facts=info(VIDEO, AUDIO, SUBTITLE)))


@pytest.mark.parametrize("container", ["mpegts", "mp3", "avi"])
def test_a_container_whose_pipe_may_differ_waits(container: str) -> None:
    assert not can_stream(planned(SOUND, facts=info(AUDIO, container=container)))
