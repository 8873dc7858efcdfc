"""`euterpe bench transcode`: whole jobs from source to output, compared with ffmpeg alone."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from euterpe.bench.bare_ffmpeg import bare_command
from euterpe.bench.figures import BenchFailed, Figure
from euterpe.bench.programs import Installation, Program, peak_mib
from euterpe.domain.profiles import built_in_profiles
from euterpe.domain.rows import JobRow
from euterpe.domain.spec import parse_spec
from euterpe.domain.states import JobStatus
from euterpe.media.ffmpeg import find_ffmpeg
from euterpe.media.planning.planner import plan
from euterpe.media.planning.tree import Plan
from euterpe.media.sandbox.sandbox import Sandbox
from euterpe.store.queue.enqueue import Accepted
from euterpe.store.store import Store
from euterpe.wiring.worker import threads_of_a_slot

PROFILE = "h264-720p"
_RAW_FRAME_BYTES = 3840 * 2160 * 3 // 2


class Clips:
    def __init__(self, ffmpeg: Path) -> None:
        self._ffmpeg = ffmpeg

    def make(self, path: Path, *, seconds: float) -> None:
        """Write a 720p clip with sound to `path`."""
        picture = f"testsrc2=size=1280x720:rate=30:duration={seconds}"
        sound = f"sine=frequency=330:beep_factor=4:duration={seconds}"
        codecs = ("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac")
        self._run("-f", "lavfi", "-i", picture, "-f", "lavfi", "-i", sound, *codecs, str(path))

    def make_large(self, path: Path, *, size_bytes: int) -> None:
        """Write `size_bytes` of raw video to `path`. Without an encoder, this takes only seconds."""
        # The source and the worker's copy take twice this size together. A worker also keeps some space free.
        if shutil.disk_usage(path.parent).free < 3 * size_bytes:
            raise BenchFailed(f"{path.parent} has no room for a source of {size_bytes} bytes and its copy")
        picture, frames = (
            "color=gray:size=3840x2160:rate=25,format=yuv420p",
            -(-size_bytes // _RAW_FRAME_BYTES),
        )
        self._run("-f", "lavfi", "-i", picture, "-frames:v", str(frames), "-c:v", "rawvideo", str(path))

    def encode_bare(self, sources: Sequence[Path], *, slots: int, threads: int, keep: bool = False) -> float:
        """Return the seconds that `xargs` takes to run the worker's ffmpeg command on these copies of a clip.

        The output of `a.mp4` is `a.mp4.mp4`, which is removed unless `keep` is set.
        """
        planned = self._planned(sources[0], threads)
        (one,) = planned.commands
        *command, _ = bare_command(planned, one, self._ffmpeg, "{}")  # the last argument is the file name
        began = time.perf_counter()
        subprocess.run(  # noqa: S603  no part comes from outside
            ["xargs", "-P", str(slots), "-I", "{}", *command, "{}.mp4"],  # noqa: S607  found on PATH
            input="\n".join(map(str, sources)),
            text=True,
            check=True,
        )
        took = time.perf_counter() - began
        for source in () if keep else sources:
            source.with_name(f"{source.name}.mp4").unlink()
        return took

    def _planned(self, source: Path, threads: int) -> Plan:
        with Sandbox(self._ffmpeg) as sandbox, source.open("rb") as file:
            return plan(built_in_profiles()[PROFILE].outputs, sandbox.probe(file.fileno()), threads=threads)

    def _run(self, *arguments: str) -> None:
        subprocess.run([self._ffmpeg, "-y", "-nostdin", "-loglevel", "error", *arguments], check=True)  # noqa: S603


_POLL_S = 0.25  # a poll takes 0.6 ms of CPU time, so more polls would slow down the jobs
_LONGEST_S = 1800.0
_MIB = 1024 * 1024
_SHORT = "short.mp4"


@dataclass(frozen=True)
class BenchFolder:
    """A folder for sources and outputs, with the URL that requesters use for it."""

    folder: Path
    url: str
    environ: Mapping[str, str]  # the settings that allow a worker to use the folder
    credentials: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class RanJob:
    """The time of a job from its claim to its end, with the CPU time of ffmpeg and of the worker itself."""

    wall_seconds: float
    encode_cpu_seconds: float
    worker_cpu_seconds: float


@contextmanager
def temporary_folder() -> Iterator[BenchFolder]:
    with tempfile.TemporaryDirectory(prefix="euterpe-bench-") as name:
        folder = Path(name).resolve()
        yield BenchFolder(folder, f"{folder.as_uri()}/", {"EUTERPE_STORAGE_ROOTS": str(folder)})


@contextmanager
def transcode_bench(installation: Installation, place: BenchFolder) -> Iterator["TranscodeBench"]:
    """Yield a benchmark with a separate requester, which is deleted at the end."""
    clips = Clips(find_ffmpeg(installation.settings.ffmpeg))
    clips.make(place.folder / _SHORT, seconds=1)
    with installation.requester() as requester, installation.open() as store:
        yield TranscodeBench(installation, store, requester.requester_id, place, clips)


class TranscodeBench:
    """The transcode benchmark: it runs a worker on generated clips and measures time and memory."""

    def __init__(
        self, installation: Installation, store: Store, requester_id: str, place: BenchFolder, clips: Clips
    ) -> None:
        self._installation, self._store, self._requester_id = installation, store, requester_id
        self._place, self._clips = place, clips
        self._queue = f"bench-{requester_id[-12:]}"

    def measure_one(self, seconds: float) -> Sequence[Figure]:
        source = self._place.folder / "long.mp4"
        self._clips.make(source, seconds=seconds)
        bare = self.encode_bare(source)
        with self._working(slots=1) as worker:
            (job,) = self._work_off(worker, [source.name])
        name = f"{seconds:g} s of 720p"
        return [
            Figure(f"{name}, claimed → succeeded", "s", _seconds(job, job.started_at), bare, at_most=1.08),
            Figure(f"{name}, enqueued → succeeded", "s", _seconds(job, job.created_at), bare, at_most=1.08),
        ]

    def encode_bare(self, source: Path, *, keep: bool = False) -> float:
        """Return the seconds of the worker's ffmpeg command, run by hand on a file."""
        return self._clips.encode_bare([source], slots=1, threads=threads_of_a_slot(1), keep=keep)

    def run_one(self, name: str) -> RanJob:
        """Run a single job, on the source `name` of the folder, with a worker that has one slot."""
        with self._working(slots=1) as worker:
            before = worker.own_cpu_seconds()
            (job,) = self._work_off(worker, [name])
            used = worker.own_cpu_seconds() - before
        (attempt,) = self._store.jobs.attempts(job.job_id)
        encode = float((attempt.timings or {})["cpu_seconds"])
        return RanJob(_seconds(job, job.started_at), encode, used)

    def measure_many(self, count: int, slots: int) -> Figure:
        sources = self._link_clips(count)
        bare = self._clips.encode_bare(sources, slots=slots, threads=threads_of_a_slot(slots))
        rate = self.run_many(count, slots)
        return Figure("clips of one second", "jobs/s", rate, count / bare, at_least=0.8)

    def run_many(self, count: int, slots: int, *, most_s: float = _LONGEST_S, **environ: str) -> float:
        """Return the jobs per second of a worker on clips of one second. Raise `BenchFailed` after `most_s`.

        `environ` has further settings of the worker, such as those of a remote worker.
        """
        names = [source.name for source in self._link_clips(count)]
        with self._working(slots=slots, **environ) as worker:
            jobs = self._work_off(worker, names, most_s)
        took = max(job.finished_at or 0 for job in jobs) - min(job.started_at or 0 for job in jobs)
        return count / took * 1000

    def _link_clips(self, count: int) -> list[Path]:
        sources = [self._place.folder / f"clip-{number}.mp4" for number in range(count)]
        for source in sources:
            source.unlink(missing_ok=True)
            os.link(self._place.folder / _SHORT, source)
        return sources

    def measure_memory(self, large_mib: int) -> Sequence[Figure]:
        source = self._place.folder / "large.mkv"
        self._clips.make_large(source, size_bytes=large_mib * _MIB)
        with self._working(slots=1) as worker:
            self._work_off(worker, [source.name])
            (helper,) = worker.children()
            peaks = worker.peak_mib(), peak_mib(helper)
        source.unlink()
        name = f"with a source of {large_mib} MiB"
        return [
            Figure(f"memory of the worker {name}", "MiB", peaks[0], at_most=150),
            Figure(f"memory of its fork server {name}", "MiB", peaks[1], at_most=150),
        ]

    @contextmanager
    def _working(self, *, slots: int, **more: str) -> Iterator[Program]:
        """Run a worker that serves only the queue of the benchmark. Yield the worker after its first job."""
        environ = {
            "EUTERPE_WORKER_QUEUES": self._queue,
            "EUTERPE_WORKER_SLOTS": str(slots),
            "EUTERPE_REQUIRE_SANDBOX": "false",  # safe: the only media are generated clips
            **self._place.environ,
            **more,
        }
        with self._installation.running("worker", **environ) as worker:
            self._work_off(worker, [_SHORT])
            yield worker

    def _work_off(
        self, worker: Program, names: Sequence[str], most_s: float = _LONGEST_S
    ) -> Sequence[JobRow]:
        until = time.monotonic() + most_s
        accepted = [self._submit(name) for name in names]
        jobs = [committed.result().job_id for committed in accepted]
        while self._store.jobs.unfinished(self._requester_id, at_most=1):
            worker.check_running()
            if time.monotonic() > until:
                raise worker.failure(f"did not end its jobs within {most_s:g} s")
            time.sleep(_POLL_S)
        rows = self._store.jobs.many(jobs, requester_id=self._requester_id)
        for row in rows:
            if row.status != JobStatus.SUCCEEDED:
                raise BenchFailed(f"a job of the bench ended {row.status}: {row.last_error}")
        return rows

    def _submit(self, name: str) -> "Future[Accepted]":
        document = {
            "source": {"url": f"{self._place.url}{name}"},
            "output": {"url": f"{self._place.url}made/{name}/"},
            "profile": PROFILE,
            "queue": self._queue,
        }
        if self._place.credentials is not None:
            document["credentials"] = self._place.credentials
        return self._store.submit(parse_spec(document), self._requester_id)


def _seconds(job: JobRow, since_ms: int | None) -> float:
    return ((job.finished_at or 0) - (since_ms or 0)) / 1000
