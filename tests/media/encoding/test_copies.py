"""Tests of the check of copied tracks: it finds a missing packet and a different packet."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import pytest

from euterpe.media.encoding.copies import check_copies
from euterpe.media.encoding.verify import verify
from euterpe.media.errors import MediaError
from euterpe.media.ffmpeg import find_ffmpeg
from euterpe.media.planning.planner import plan
from euterpe.media.planning.text_inputs import SUBTITLES
from euterpe.media.planning.tree import File, Plan
from euterpe.media.sandbox.sandbox import Sandbox
from tests.media.children import StubSandbox
from tests.media.media_steps import probe, run
from tests.media.planning.facts import info, planned, specs
from tests.media.sources.cache import Sources, ffmpeg
from tests.media.sources.flashes import flash_film
from tests.media.sources.sounds import subtitled

FILM: dict[str, Any] = {
    "name": "film",
    "type": "mp4",
    "video": {"copy": "auto"},
    "audio": {"copy": "auto"},
}


def made(sandbox: Sandbox, source: Path, folder: Path, *outputs: dict[str, Any]) -> Plan:
    found = plan(specs(*outputs), probe(sandbox, source), threads=1)
    run(sandbox, found, source, folder)
    return found


def refusal(sandbox: Sandbox, found: Plan, folder: Path, source: Path) -> str:
    with source.open("rb") as file, pytest.raises(MediaError) as refused:
        verify(sandbox, found, folder, source_fd=file.fileno())
    return refused.value.code


@pytest.mark.parametrize("container", ["mkv", "mp4"])
def test_a_missing_packet_is_found(
    sandbox: Sandbox, sources: Sources, tmp_path: Path, container: str
) -> None:
    """The film lacks a sound packet, but has the source's length, and all its pictures can be decoded.

    So only the check of copied tracks can find the fault.
    """
    source = flash_film(sources, container)
    found = made(sandbox, source, tmp_path, FILM)
    kept = tmp_path / "film.mp4"
    kept.rename(tmp_path.parent / "whole.mp4")
    ffmpeg(f"-i {tmp_path.parent / 'whole.mp4'} -c copy -bsf:a noise=drop=not(n-50) {kept}")
    assert refusal(sandbox, found, tmp_path, source) == "output_truncated"


def test_another_packet_is_found(sandbox: Sandbox, sources: Sources, tmp_path: Path) -> None:
    source = flash_film(sources)
    found = made(sandbox, source, tmp_path, FILM)
    other = sources.remuxed("inverted.mp4", source, "-c:v libx264 -vf negate -preset veryfast -g 12 -bf 2")
    (tmp_path / "film.mp4").write_bytes(other.read_bytes())
    assert refusal(sandbox, found, tmp_path, source) == "output_undecodable"


def test_another_bit_is_found(sandbox: Sandbox, sources: Sources, tmp_path: Path) -> None:
    source = flash_film(sources)
    found = made(sandbox, source, tmp_path, FILM)
    film = tmp_path / "film.mp4"
    with av.open(str(film)) as opened:
        place = opened.streams.audio[0].index_entries[40].pos + 2
    data = bytearray(film.read_bytes())
    data[place] ^= 1
    film.write_bytes(data)
    assert refusal(sandbox, found, tmp_path, source) == "output_undecodable"


def test_a_copy_between_mp4_files_is_checked_by_their_indexes(sources: Sources, tmp_path: Path) -> None:
    source = flash_film(sources)
    with NotingSandbox(find_ffmpeg()) as noting:
        found = made(noting, source, tmp_path, FILM)
        with source.open("rb") as file:
            verify(noting, found, tmp_path, source_fd=file.fileno())
    assert "same_samples" in noting.tasks
    assert not {"packets_of_files", "packets_of_source"} & set(noting.tasks)


def test_other_words_are_found(sandbox: Sandbox, sources: Sources, tmp_path: Path) -> None:
    source = subtitled(sources, "srt")
    found = made(sandbox, source, tmp_path, {"name": "film", "type": "mp4", "subtitles": "all"})
    film = tmp_path / "film.mp4"
    film.write_bytes(film.read_bytes().replace(b"Tom & Jerry", b"Tim & Jerry"))
    assert refusal(sandbox, found, tmp_path, source) == "output_undecodable"


def test_a_film_without_its_subtitles_is_found(sandbox: Sandbox, sources: Sources, tmp_path: Path) -> None:
    source = subtitled(sources, "srt")
    found = made(sandbox, source, tmp_path, {"name": "film", "type": "mp4", "subtitles": "all"})
    (tmp_path / "film.mp4").rename(tmp_path.parent / "whole.mp4")
    ffmpeg(f"-i {tmp_path.parent / 'whole.mp4'} -map 0:v -c copy {tmp_path / 'film.mp4'}")
    assert refusal(sandbox, found, tmp_path, source) == "output_truncated"


def test_subtitles_are_not_written_over_a_link(sandbox: Sandbox, sources: Sources, tmp_path: Path) -> None:
    """Without Landlock, a compromised ffmpeg could make a link in place of a file of the worker."""
    source = subtitled(sources, "srt")
    outside = tmp_path / "outside"
    outside.write_text("kept")
    folder = tmp_path / "out"
    (folder / SUBTITLES).mkdir(parents=True)
    (folder / SUBTITLES / "film-0.mp4").symlink_to(outside)
    with pytest.raises(MediaError) as refused:
        made(sandbox, source, folder, {"name": "film", "type": "mp4", "subtitles": "all"})
    assert refused.value.code == "output_undecodable"
    assert outside.read_text() == "kept"


class NotingSandbox(Sandbox):
    """A sandbox that notes the names of its tasks."""

    def __init__(self, ffmpeg: Path) -> None:
        super().__init__(ffmpeg)
        self.tasks: list[str] = []

    def call(self, task: str, *arguments: Any, **more: Any) -> Any:
        self.tasks.append(task)
        return super().call(task, *arguments, **more)


DIGEST = {"packets": 5, "checksum": 7}


@pytest.mark.parametrize(
    "answer",
    [
        *(None, 7, "x", {}, [], [[]], [[DIGEST]], [[DIGEST] * 3]),
        *([[DIGEST, {**DIGEST, **wrong}]] for wrong in ({"packets": -1}, {"checksum": 1 << 32}, {"evil": 1})),
        [[DIGEST, {**DIGEST, "packets": True}]],
    ],
    ids=lambda answer: str(answer)[:50],
)
def test_an_invalid_answer_of_the_child_is_refused(tmp_path: Path, answer: Any) -> None:
    assert refusal_of_answer(answer, tmp_path, "matroska") == "output_undecodable"


@pytest.mark.parametrize("answer", [None, 7, "x", {}, [], [1], ["true"], [True, True], [[True]]], ids=str)
def test_an_invalid_answer_of_the_comparison_is_refused(tmp_path: Path, answer: Any) -> None:
    assert refusal_of_answer(answer, tmp_path, "mov") == "output_undecodable"


def refusal_of_answer(answer: Any, folder: Path, container: str) -> str:
    found = planned(FILM, facts=info(container=container))
    with (folder / "source").open("w+b") as source, pytest.raises(MediaError) as refused:
        check_copies(StubSandbox(answer), found, ["film"], folder, source.fileno(), on_tick=lambda: None)
    return refused.value.code


def test_copies_need_the_source(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="source"):
        check_copies(
            StubSandbox([[DIGEST, DIGEST]]), planned(FILM), ["film"], tmp_path, None, on_tick=lambda: None
        )


def test_only_the_outputs_that_are_asked_for_are_read(tmp_path: Path) -> None:
    check_copies(StubSandbox(None), planned(FILM), ["other"], tmp_path, None, on_tick=lambda: None)
    product = planned(FILM).commands[0].products[0]
    assert isinstance(product, File)
    encoded = replace(planned(FILM), commands=())
    check_copies(StubSandbox(None), encoded, ["film"], tmp_path, None, on_tick=lambda: None)
