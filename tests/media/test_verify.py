"""A success that is none: every lie about a made file is found."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from euterpe.domain.outputs import ImageOutput
from euterpe.media.errors import MediaError
from euterpe.media.files import Track
from euterpe.media.plan import Plan, plan
from euterpe.media.sandbox import Sandbox
from euterpe.media.verify import verify
from tests.media.clips import Clips
from tests.media.making import FILM, SOUND, probe, run
from tests.media.processes import working_in

Made = tuple[Plan, Path]


@pytest.fixture
def made(clips: Clips, sandbox: Sandbox, tmp_path: Path) -> Made:
    source = clips.make("long.mp4")
    planned = plan([FILM, SOUND], probe(sandbox, source), threads=1)
    run(sandbox, planned, source, tmp_path)
    return planned, tmp_path


def with_track(planned: Plan, **changes: Any) -> Plan:
    film, *rest = planned.files
    track = replace(film.tracks[0], **changes)
    return replace(planned, files=(replace(film, tracks=(track, *film.tracks[1:])), *rest))


def refused(sandbox: Sandbox, planned: Plan, folder: Path) -> str:
    with pytest.raises(MediaError) as error:
        verify(sandbox, planned, folder)
    return error.value.code


def test_what_is_as_planned_passes(sandbox: Sandbox, made: Made) -> None:
    assert [file.name for file in verify(sandbox, *made)] == ["film.mp4", "sound.m4a"]


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda data: data[: len(data) // 2], "output_undecodable"),
        (lambda data: data[:-200], "output_undecodable"),
        (lambda _: b"", "output_undecodable"),
        (lambda data: bytes(len(data)), "output_undecodable"),
    ],
)
def test_a_file_that_was_cut_off_or_lost_is_found(
    sandbox: Sandbox, made: Made, spoil: Callable[[bytes], bytes], code: str
) -> None:
    planned, folder = made
    path = folder / "film.mp4"
    path.write_bytes(spoil(path.read_bytes()))
    assert refused(sandbox, planned, folder) == code


def test_a_file_that_is_missing_is_found(sandbox: Sandbox, made: Made) -> None:
    planned, folder = made
    (folder / "sound.m4a").unlink()
    assert refused(sandbox, planned, folder) == "output_undecodable"


def test_a_check_that_takes_long_can_be_ended(sandbox: Sandbox, made: Made) -> None:
    class LeaseLost(Exception):
        pass

    def lose() -> None:
        assert len(working_in(folder)) == 1
        raise LeaseLost

    planned, folder = made
    (folder / "film.mp4").unlink()
    os.mkfifo(folder / "film.mp4")
    with pytest.raises(LeaseLost):
        verify(sandbox, planned, folder, on_tick=lose)
    assert working_in(folder) == []


def test_a_film_that_is_shorter_than_its_source_is_found(sandbox: Sandbox, made: Made) -> None:
    planned, folder = made
    assert refused(sandbox, with_track(planned, least_seconds=9.5), folder) == "output_truncated"


@pytest.mark.parametrize("changes", [{"codec": "hevc"}, {"width": 162}, {"height": 92}, {"kind": "audio"}])
def test_another_stream_than_was_planned_is_found(
    sandbox: Sandbox, made: Made, changes: dict[str, object]
) -> None:
    planned, folder = made
    assert refused(sandbox, with_track(planned, **changes), folder) == "output_undecodable"


def test_a_missing_stream_is_found(sandbox: Sandbox, made: Made) -> None:
    planned, folder = made
    film, sound = planned.files
    more = replace(film, tracks=(*film.tracks, Track("audio", "aac", None)))
    assert refused(sandbox, replace(planned, files=(more, sound)), folder) == "output_truncated"


def test_a_link_out_of_the_folder_is_not_followed(sandbox: Sandbox, made: Made, tmp_path: Path) -> None:
    """Nor in it: on some kernels only the worker itself can tell."""
    planned, folder = made
    for outside in (tmp_path.parent / f"{tmp_path.name}-outside.mp4", folder / "inside.mp4"):
        (folder / "film.mp4").rename(outside)
        (folder / "film.mp4").symlink_to(outside)
        assert refused(sandbox, planned, folder) == "output_undecodable"


def test_a_folder_that_became_a_link_is_not_followed(clips: Clips, sandbox: Sandbox, tmp_path: Path) -> None:
    source = clips.make("one.mp4")
    planned = plan([ImageOutput(name="poster", type="image", at=("0%",))], probe(sandbox, source), threads=1)
    run(sandbox, planned, source, tmp_path)
    (tmp_path / "poster").rename(tmp_path / "other")
    (tmp_path / "poster").symlink_to("other")
    assert refused(sandbox, planned, tmp_path) == "output_undecodable"
