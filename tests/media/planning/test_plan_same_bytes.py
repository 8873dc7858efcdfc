"""Invariant `same-bytes`: the output of a plan does not depend on the worker that runs it."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import pytest

from euterpe.domain.codecs import codecs_for
from euterpe.domain.outputs import HlsOutput, ImageOutput, OutputSpec, SpriteOutput
from euterpe.media.ffmpeg import find_ffmpeg
from euterpe.media.planning.encoders import threads_for
from euterpe.media.planning.plan import plan
from euterpe.media.sandbox.sandbox import Sandbox
from tests.media.clips import Clips
from tests.media.media_steps import SOUND, film, probe, run

OUTPUTS: dict[str, list[OutputSpec]] = {
    "h264": [film("h264")],
    "h264-scaled": [film("h264", 240)],
    **{codec.name: [film(codec.name, 240)] for codec in codecs_for("video", "mp4")[1:]},
    "m4a": [SOUND],
    "hls": [
        HlsOutput.model_validate({"name": "hls", "type": "hls", "video": {"ladder": [240, 120]}}),
    ],
    "stills": [
        ImageOutput(name="poster", type="image", at=("0%", "50%")),
        SpriteOutput(name="scrub", type="sprite", interval_seconds=1),
    ],
}
SIZES = ((160, 90), (640, 360), (1280, 720), (1920, 1080), (3840, 2160))


@contextmanager
def cores(count: int) -> Iterator[Sandbox]:
    """Yield a sandbox whose children run on only `count` cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(sorted(before)[:count]))
    sandbox = Sandbox(find_ffmpeg(None))
    try:
        sandbox.start()
        yield sandbox
    finally:
        os.sched_setaffinity(0, before)
        sandbox.stop()


def hashes(
    source: Path, outputs: Sequence[OutputSpec], folder: Path, *, count: int, threads: int
) -> dict[str, str]:
    """Return the hash of each file that a worker with `count` cores and `threads` per slot makes."""
    folder.mkdir()
    with cores(count) as sandbox:
        run(sandbox, plan(outputs, probe(sandbox, source), threads=threads), source, folder)
    return {
        str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("kind", OUTPUTS)
def test_same_bytes_on_one_core_and_on_many(clips: Clips, tmp_path: Path, kind: str) -> None:
    source = clips.make("wide-and-loud.mp4")
    few = hashes(source, OUTPUTS[kind], tmp_path / "few", count=1, threads=1)
    assert few
    for run_no in range(3):
        folder = tmp_path / f"many-{run_no}"
        assert hashes(source, OUTPUTS[kind], folder, count=os.cpu_count() or 1, threads=7) == few


def test_the_threads_of_an_encoder_follow_from_its_pictures_alone() -> None:
    assert [threads_for(width * height) for width, height in SIZES] == [2, 2, 4, 8, 8]
