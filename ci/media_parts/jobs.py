"""Measure jobs from S3 to S3, jobs on a slow store, jobs for short clips, and the worker's own CPU time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from ci.media_parts.films import film
from ci.media_parts.measuring import Product
from ci.media_parts.pacing_proxy import pacing_proxy
from ci.service_bench import installed
from euterpe.bench.figures import Figure
from euterpe.bench.transcode import BenchFolder, TranscodeBench, temporary_folder, transcode_bench
from tests.s3 import ACCESS_KEY_ID, SECRET_ACCESS_KEY, S3Server, serving_s3

_SECONDS, _ROUNDS = 60, 3
_SLOW_BYTES_PER_SECOND = 20_000_000
_CLIPS, _CLIP_ROUNDS = 200, 2
_FILM = "film.mp4"


def measure_transfer(_: Product) -> list[Figure]:
    """Measure a job from S3 to S3, on a fast store and on a slow one."""
    with _store() as store:
        with _bench(store, store.endpoint) as bench:
            fast = _fast(bench, store.bucket("media"))
        return [*fast, *_slow(store)]


def measure_clips(_: Product) -> list[Figure]:
    """Compare jobs for many clips of one second with `xargs -P` on local files."""
    with _store() as store, _bench(store, store.endpoint) as bench:
        figures = [bench.measure_many(_CLIPS, os.cpu_count() or 1) for _ in range(_CLIP_ROUNDS)]
    name = f"{_CLIPS} clips of one second, S3 to S3, compared with `xargs -P` on files"
    return [replace(figure, what=name, at_least=0.85) for figure in figures]


def measure_reports(_: Product) -> list[Figure]:
    """Measure the processor time that the worker itself uses while ffmpeg encodes."""
    with ExitStack() as ended:
        url = f"sqlite:///{ended.enter_context(tempfile.TemporaryDirectory())}/bench.db"
        installation, place = ended.enter_context(installed(url)), ended.enter_context(temporary_folder())
        shutil.copyfile(film(720, _SECONDS), place.folder / _FILM)
        bench = ended.enter_context(transcode_bench(installation, place))
        rounds = [bench.run_one(_FILM) for _ in range(_ROUNDS)]
    name = f"the worker's own time in a job of {_SECONDS} s of 720p, as a share of ffmpeg's time"
    return [
        Figure(name, "%", 100 * one.worker_cpu_seconds / one.encode_cpu_seconds, at_most=1) for one in rounds
    ]


def _fast(bench: TranscodeBench, bucket: Path) -> list[Figure]:
    found = []
    shutil.copyfile(film(720, _SECONDS), bucket / _FILM)
    name = f"{_SECONDS} s of 720p, S3 to S3, compared with ffmpeg on files"
    for _ in range(_ROUNDS):
        bare = bench.encode_bare(bucket / _FILM)
        found.append(Figure(name, "s", bench.run_one(_FILM).wall_seconds, bare, at_most=1.05))
    return found


def _slow(store: S3Server) -> list[Figure]:
    found = []
    bucket = store.bucket("media")
    name = f"the same at {_SLOW_BYTES_PER_SECOND // 10**6} MB/s, compared with download, ffmpeg, upload"
    port = urlsplit(store.endpoint).port or 0
    with pacing_proxy(port, _SLOW_BYTES_PER_SECOND) as paced:
        endpoint = f"http://127.0.0.1:{paced}"
        with _bench(store, endpoint) as bench:
            for _ in range(_ROUNDS):
                bare = _one_after_the_other(bench, endpoint)
                found.append(Figure(name, "s", bench.run_one(_FILM).wall_seconds, bare, at_most=1.0))
    size, made = ((bucket / path).stat().st_size / 10**6 for path in (_FILM, "by-hand.mp4"))
    found.append(Figure("the source and the output of these jobs", "MB", size + made))
    return found


def _one_after_the_other(bench: TranscodeBench, endpoint: str) -> float:
    """Return the total seconds of a download with rclone, the worker's ffmpeg command, and an upload."""
    with tempfile.TemporaryDirectory() as name:
        here, output = Path(name) / _FILM, Path(name) / f"{_FILM}.mp4"
        began = time.perf_counter()
        _copy(endpoint, f":s3:media/{_FILM}", here)
        bench.encode_bare(here, keep=True)
        _copy(endpoint, output, ":s3:media/by-hand.mp4")
        return time.perf_counter() - began


def _copy(endpoint: str, source: Path | str, target: Path | str) -> None:
    options = {
        "provider": "Other",
        "endpoint": endpoint,
        "access-key-id": ACCESS_KEY_ID,
        "secret-access-key": SECRET_ACCESS_KEY,
        "force-path-style": "true",
        "no-check-bucket": "true",
    }
    words = [f"--s3-{name}={value}" for name, value in options.items()]
    rclone = Path(sys.executable).with_name("rclone")
    subprocess.run([rclone, "copyto", "--config", "", "--ignore-times", *words, source, target], check=True)


@contextmanager
def _store() -> Iterator[S3Server]:
    with tempfile.TemporaryDirectory(prefix="euterpe-bench-") as folder, serving_s3(Path(folder)) as server:
        yield server


@contextmanager
def _bench(store: S3Server, endpoint: str) -> Iterator[TranscodeBench]:
    """Yield a benchmark with a worker that reads and writes a bucket at the endpoint."""
    with ExitStack() as ended:
        url = f"sqlite:///{ended.enter_context(tempfile.TemporaryDirectory())}/bench.db"
        installation = ended.enter_context(installed(url))
        environ = {"EUTERPE_STORAGE_ENDPOINTS": endpoint}
        place = BenchFolder(store.bucket("media"), "s3://media/", environ, store.document(endpoint=endpoint))
        yield ended.enter_context(transcode_bench(installation, place))
