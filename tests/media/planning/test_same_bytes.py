"""Invariant `same-bytes`: the output of a plan does not depend on the worker that runs it."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
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
    **{
        f"{codec.name}-at-a-target": [film(codec=codec.name, height=240, target={"vmaf": 90})]
        for codec in codecs_for("video", "mp4")
    },
    "sound": [{"name": kind, "type": kind} for kind in ("m4a", "mp3", "opus", "flac")],
    "webm": [{"name": "film", "type": "webm", "video": {"height": 240}}],
    "copies": [
        {"name": "film", "type": "mp4", "video": {"copy": "auto"}, "audio": {"copy": "auto"}},
        {"name": "sound", "type": "m4a", "audio": {"copy": "auto"}},
    ],
    "adaptive": [{"name": "both", "type": "adaptive", "video": {"ladder": [240, 120]}}],
    "loudness": [
        {"name": "podcast", "type": "mp3", "audio": {"channels": "mono", "loudness": {}}},
        {
            **{"name": "hls", "type": "hls", "video": {"ladder": [120]}},
            "audio": {"codec": "opus", "loudness": {"target": -23}},
        },
    ],
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
        planned = run(sandbox, planned, source, folder).plan
        with source.open("rb") as file:
            made = verify(sandbox, planned, folder, source_fd=file.fileno())
    return {file.name: sha256(file.path.read_bytes()).hexdigest() for file in made.files}


@pytest.mark.parametrize("kind", OUTPUTS)
def test_same_bytes_on_one_core_and_on_many(clips: Clips, tmp_path: Path, kind: str) -> None:
    source, outputs = clips.make("wide-and-loud.mp4"), specs(*OUTPUTS[kind])
    few = hashes(source, outputs, tmp_path / "few", count=1, threads=1)
    assert few
    assert hashes(source, outputs, tmp_path / "many", count=os.cpu_count() or 1, threads=7) == few


CAPPED = [codec.name for codec in codecs_for("video", "mp4") if codec.rated]


@pytest.mark.parametrize("codec", CAPPED)
def test_a_limit_on_the_rate_makes_the_same_bytes_on_a_busy_machine(
    sandbox: Sandbox, clips: Clips, tmp_path: Path, codec: str
) -> None:
    """Four encodes compete for the cores, so the threads of an encode run at different speeds.

    With slice threads, each of 12 encodes by x264 made different bytes.
    """
    made_of = "testsrc2=s=1280x720:r=25:d=1,noise=alls=25:allf=t"
    source = clips.encoded("noise.mp4", f"-f lavfi -i {made_of} -crf 12")
    outputs = specs(film(codec=codec, height=720, bitrate_kbps=1500, crf=23))
    planned = plan(outputs, probe(sandbox, source), threads=4)

    def made(number: int) -> str:
        (folder := tmp_path / str(number)).mkdir()
        run(sandbox, planned, source, folder)
        return sha256((folder / "film.mp4").read_bytes()).hexdigest()

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(made, range(4)))) == 1


def test_a_damaged_film_makes_the_same_bytes_with_any_number_of_threads(
    sandbox: Sandbox, clips: Clips, tmp_path: Path
) -> None:
    """A decoder with several threads repairs damaged pictures differently.

    Decoding with 5 different numbers of threads made 5 different films.
    """
    damaged = bytearray(clips.make("film.mp4").read_bytes())
    for at in range(len(damaged) // 3, 2 * len(damaged) // 3, 997):
        damaged[at : at + 8] = b"\xa5" * 8
    source = tmp_path / "damaged.mp4"
    source.write_bytes(damaged)
    made = set[str]()
    for threads in (1, 2, 4):
        (folder := tmp_path / str(threads)).mkdir()
        info = probe(sandbox, source)
        planned = plan(specs(film(codec="h264")), info, threads=threads, allow_truncated=True)
        assert run(sandbox, planned, source, folder).damage is not None
        made.add(sha256((folder / "film.mp4").read_bytes()).hexdigest())
    assert len(made) == 1


def test_the_threads_of_an_encoder_follow_from_its_pictures_alone() -> None:
    assert [threads_for(width * height) for width, height in SIZES] == [2, 2, 4, 8, 8]
