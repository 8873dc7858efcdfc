"""Invariant `same-bytes`: the output of a plan does not depend on the worker that runs it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from euterpe.domain.codecs import codecs_for
from euterpe.domain.outputs import OutputSpecs
from euterpe.media.encoding.verify import verify
from euterpe.media.ffmpeg import find_ffmpeg
from euterpe.media.planning.planner import plan
from euterpe.media.planning.tracks import threads_for
from euterpe.media.sandbox.sandbox import Sandbox
from tests.media.clips import Clips
from tests.media.media_steps import probe, run
from tests.media.planning.facts import specs


def film(**video: Any) -> dict[str, Any]:
    return {"name": "film", "type": "mp4", "video": video}


OUTPUTS: dict[str, list[dict[str, Any]]] = {
    "h264": [film()],
    **{codec.name: [film(codec=codec.name, height=240)] for codec in codecs_for("video", "mp4")},
    **{
        f"{codec.name}-capped": [film(codec=codec.name, height=240, crf=20, bitrate_kbps=100)]
        for codec in codecs_for("video", "mp4")
    },
    **{
        f"{codec.name}-in-two-passes": [film(codec=codec.name, height=240, bitrate_kbps=300)]
        for codec in codecs_for("video", "mp4")
    },
    "sound": [{"name": kind, "type": kind} for kind in ("m4a", "mp3", "opus", "flac")],
    "webm": [{"name": "film", "type": "webm", "video": {"height": 240}}],
    "adaptive": [{"name": "both", "type": "adaptive", "video": {"ladder": [240, 120]}}],
    "stills": [
        {"name": "poster", "type": "image", "at": ["0%", "50%"]},
        {"name": "best", "type": "image", "at": "best", "format": "webp"},
        {"name": "scrub", "type": "sprite", "interval_seconds": 1},
        {"name": "teaser", "type": "preview", "seconds": 1, "width": 160},
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


def hashes(source: Path, outputs: OutputSpecs, folder: Path, *, count: int, threads: int) -> dict[str, str]:
    """Return the hash of each file that a worker with `count` cores and `threads` per slot publishes."""
    folder.mkdir()
    with cores(count) as sandbox:
        planned = plan(outputs, probe(sandbox, source), threads=threads)
        run(sandbox, planned, source, folder)
        made = verify(sandbox, planned, folder)
    return {file.name: sha256(file.path.read_bytes()).hexdigest() for file in made.files}


@pytest.mark.parametrize("kind", OUTPUTS)
def test_same_bytes_on_one_core_and_on_many(clips: Clips, tmp_path: Path, kind: str) -> None:
    source, outputs = clips.make("wide-and-loud.mp4"), specs(*OUTPUTS[kind])
    few = hashes(source, outputs, tmp_path / "few", count=1, threads=1)
    assert few
    for run_no in range(3):
        folder = tmp_path / f"many-{run_no}"
        assert hashes(source, outputs, folder, count=os.cpu_count() or 1, threads=7) == few


def test_the_threads_of_an_encoder_follow_from_its_pictures_alone() -> None:
    assert [threads_for(width * height) for width, height in SIZES] == [2, 2, 4, 8, 8]
