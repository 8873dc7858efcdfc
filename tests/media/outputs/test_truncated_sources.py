"""Tests of cut off or damaged sources: the job fails, or encodes the readable part if this is allowed."""

import re
from pathlib import Path
from typing import Any

import av
import pytest

from euterpe.domain.outputs import OutputSpec
from euterpe.media.encoding.encode import EncodeStats
from euterpe.media.encoding.verify import verify
from euterpe.media.errors import MediaError
from euterpe.media.planning.planner import plan
from euterpe.media.planning.tree import Plan
from euterpe.media.sandbox.sandbox import Sandbox
from tests.media.clips import Clips
from tests.media.media_steps import run
from tests.media.outputs.product_path import parsed

FILM: dict[str, Any] = {"name": "film", "type": "mp4", "video": {"height": 90}}
HLS: dict[str, Any] = {"name": "hls", "type": "hls", "segment_seconds": 1, "video": {"ladder": [90]}}


def outputs_of(*outputs: dict[str, Any]) -> tuple[OutputSpec, ...]:
    return parsed(outputs)


def make(sandbox: Sandbox, source: Path, folder: Path, *, allow: bool) -> tuple[Plan, EncodeStats]:
    outputs = outputs_of(FILM, HLS)
    with source.open("rb") as file:
        info = sandbox.probe(file.fileno(), allow_truncated=allow)
        planned = plan(outputs, info, threads=1, allow_truncated=allow)
        stats = run(sandbox, planned, source, folder)
        verify(sandbox, planned, folder, source_fd=file.fileno())
    return planned, stats


def pictures(path: Path) -> int:
    with av.open(str(path)) as film:
        return sum(1 for _ in film.decode(video=0))


@pytest.mark.parametrize("name", ["truncated.mp4", "truncated.mkv", "damaged.mp4"])
def test_a_truncated_or_damaged_source_fails_by_default(
    sandbox: Sandbox, clips: Clips, tmp_path: Path, name: str
) -> None:
    with pytest.raises(MediaError) as failure:
        make(sandbox, clips.make(name), tmp_path, allow=False)
    assert failure.value.code in ("source_truncated", "source_damaged")


@pytest.mark.parametrize("name", ["truncated.mp4", "truncated.mkv"])
def test_what_is_left_of_a_truncated_source_is_made_when_allowed(
    sandbox: Sandbox, clips: Clips, tmp_path: Path, name: str
) -> None:
    planned, _ = make(sandbox, clips.make(name), tmp_path, allow=True)
    assert [warning.code for warning in planned.warnings] == ["source_truncated"]
    assert 10 <= pictures(tmp_path / "film.mp4") < 50
    assert (tmp_path / "hls" / "master.m3u8").exists()


def test_a_damaged_source_is_made_and_named_when_allowed(
    sandbox: Sandbox, clips: Clips, tmp_path: Path
) -> None:
    planned, stats = make(sandbox, clips.make("damaged.mp4"), tmp_path, allow=True)
    assert planned.warnings == ()
    assert stats.damage is not None
    assert (stats.damage.code, stats.damage.output) == ("source_damaged", None)
    parts = r"[12]\.[0-9]{2} s of 2\.[0-9]{2} s were made"
    assert re.fullmatch(rf"the source is damaged; ffmpeg reports: [^\[].*; {parts}", stats.damage.message), (
        stats.damage.message
    )
    assert pictures(tmp_path / "film.mp4") >= 40


def test_a_whole_source_has_no_warning_when_damage_is_allowed(
    sandbox: Sandbox, clips: Clips, tmp_path: Path
) -> None:
    planned, stats = make(sandbox, clips.make("film.mp4"), tmp_path, allow=True)
    assert (planned.warnings, stats.damage) == ((), None)
    assert pictures(tmp_path / "film.mp4") == 50


def test_a_source_without_its_index_cannot_be_made(sandbox: Sandbox, clips: Clips, tmp_path: Path) -> None:
    with pytest.raises(MediaError) as failure:
        make(sandbox, clips.make("headless.mp4"), tmp_path, allow=True)
    assert failure.value.code == "source_truncated"
