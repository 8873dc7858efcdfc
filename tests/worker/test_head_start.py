"""Tests of an encode that begins during the fetch: it is kept only if the final plan has the same command."""

import errno
import os
import select
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest
from pydantic import TypeAdapter
from structlog.contextvars import bound_contextvars, merge_contextvars
from structlog.testing import capture_logs

from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.leased_job import LeasedJob
from euterpe.domain.outputs import OutputSpecs
from euterpe.media.encoding.encode import EncodeStats, encode
from euterpe.media.encoding.progress import EncodeProgress
from euterpe.media.encoding.runner import SourceStream
from euterpe.media.errors import MediaError
from euterpe.media.planning.planner import plan
from euterpe.media.planning.tree import Plan
from euterpe.media.sandbox.sandbox import Sandbox
from euterpe.storage.source_file import SourceFile
from euterpe.storage.transfer import ObjectInfo
from euterpe.worker.attempt_control import AttemptControl
from euterpe.worker.head_start import HeadStart, HeadStartTimings, RunFirst, SourcePipe
from tests.media.clips import sandbox
from tests.media.media_steps import probe, run
from tests.service.process_table import at_home_in
from tests.service.slow_source import STREAMED, make_source

__all__ = ["sandbox"]
TIMEOUT_S = 60.0
_SPECS: TypeAdapter[OutputSpecs] = TypeAdapter(OutputSpecs)
FILM = _SPECS.validate_python([{"name": "film", "type": "mp4", "video": {"codec": "h264", "height": 48}}])
OTHER = _SPECS.validate_python([{"name": "film", "type": "mp4", "video": {"codec": "h264", "height": 72}}])
# The tags at the end of a Matroska file can change the language of a track. Then the loudness of another
# track is measured.
MEASURED = _SPECS.validate_python(
    [{"name": "film", "type": "mp4", "video": {"codec": "h264", "height": 48}, "audio": {"loudness": {}}}]
)


class BrokenFile(SourceFile):
    """A source whose end cannot be read by the thread that feeds the pipe."""

    def __init__(self, descriptor: int, expect: ObjectInfo) -> None:
        super().__init__(descriptor, expect)
        self.failed = threading.Event()

    def await_front(self, position: int, seconds: float) -> int:
        if position and threading.current_thread().name == "euterpe-feed":
            self.failed.set()
            raise OSError(errno.EIO, "the disk is broken")
        return super().await_front(position, seconds)


@dataclass
class Fetch:
    """A source that is fetched step by step. The early encode of the source writes to the folder `out`."""

    sandbox: Sandbox
    content: bytes
    folder: Path
    stall_seconds: float = TIMEOUT_S
    file_type: type[SourceFile] = SourceFile
    ticks: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def __post_init__(self) -> None:
        self.path, self.out = self.folder / "source", self.folder / "out"
        self.out.mkdir()
        self._opened = self.path.open("xb")
        self.file = self.file_type(self._opened.fileno(), ObjectInfo(len(self.content), '"etag"'))

    def receive(self, until: float) -> None:
        self.file.append(self.content[self.file.front : int(len(self.content) * until)])

    def head_start(self, control: AttemptControl, run: RunFirst | None = None) -> HeadStart:
        timings = HeadStartTimings(settle_s=0.0, least_gain_s=0.0)
        outputs = lambda: FILM  # noqa: E731
        return HeadStart(
            self.sandbox, control, self.path, outputs, run or self._run, threads=1, timings=timings
        )

    def planned(self, outputs: OutputSpecs) -> Plan:
        return plan(outputs, probe(self.sandbox, self.path), threads=1)

    def await_ticks(self, count: int) -> None:
        for _ in range(count):
            assert self.ticks.acquire(timeout=TIMEOUT_S), "the early encode does not run"

    def _run(
        self, first: Plan, stream: SourceStream, on_progress: Callable[[EncodeProgress], None]
    ) -> EncodeStats:
        def tick(progress: EncodeProgress) -> None:
            self.ticks.release()
            on_progress(progress)

        with self.path.open("rb") as source:
            return encode(
                *(self.sandbox, first, source.fileno(), self.out),
                timeout_seconds=TIMEOUT_S,
                stall_seconds=self.stall_seconds,
                max_output_bytes=1 << 30,
                memory_bytes=4 << 30,
                on_progress=tick,
                on_cpu=lambda _: None,
                on_disk=lambda _: None,
                stream=stream,
            )

    def close(self) -> None:
        self._opened.close()


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("sources") / "front.mp4"
    return make_source(path, STREAMED["front.mp4"]).read_bytes()


@pytest.fixture
def fetch(sandbox: Sandbox, content: bytes, tmp_path: Path) -> Iterator[Fetch]:
    fetch = Fetch(sandbox, content, tmp_path)
    yield fetch
    fetch.close()


@pytest.fixture
def control(job: LeasedJob) -> AttemptControl:
    return AttemptControl(job, TIMEOUT_S)


def test_the_same_command_is_kept_and_makes_the_same_bytes(
    fetch: Fetch, control: AttemptControl, tmp_path: Path
) -> None:
    with fetch.head_start(control) as head_start:
        fetch.receive(0.6)
        head_start.begin(fetch.file)
        fetch.await_ticks(1)
        fetch.receive(1.0)
        planned = fetch.planned(FILM)
        assert head_start.fits(planned)
        assert head_start.finish(len(fetch.content), lambda _: None) is not None
    (tmp_path / "again").mkdir()
    run(fetch.sandbox, planned, fetch.path, tmp_path / "again")
    assert (fetch.out / "film.mp4").read_bytes() == (tmp_path / "again" / "film.mp4").read_bytes()


@pytest.mark.parametrize("outputs", [OTHER, MEASURED], ids=["other", "measured"])
def test_another_command_stops_the_encode(
    fetch: Fetch, control: AttemptControl, outputs: OutputSpecs
) -> None:
    with fetch.head_start(control) as head_start:
        fetch.receive(0.6)
        head_start.begin(fetch.file)
        fetch.await_ticks(1)
        assert at_home_in(fetch.out) != []
        fetch.receive(1.0)
        assert not head_start.fits(fetch.planned(outputs))
        assert at_home_in(fetch.out) == [], "no ffmpeg writes to the folder any more"


def test_nothing_runs_after_the_attempt(fetch: Fetch, control: AttemptControl) -> None:
    with fetch.head_start(control) as head_start:
        fetch.receive(0.6)
        head_start.begin(fetch.file)
        fetch.await_ticks(1)
    assert at_home_in(fetch.out) == []
    names = [thread.name for thread in threading.enumerate()]
    assert not {"euterpe-head-start", "euterpe-feed"} & {*names}


def test_a_wait_for_the_source_is_no_stall(
    sandbox: Sandbox, content: bytes, control: AttemptControl, tmp_path: Path
) -> None:
    (tmp_path / "stalling").mkdir()
    fetch = Fetch(sandbox, content, tmp_path / "stalling", stall_seconds=0.1)
    with fetch.head_start(control) as head_start:
        fetch.receive(0.6)
        head_start.begin(fetch.file)
        fetch.await_ticks(4)  # each tick is half a second
        fetch.receive(1.0)
        assert head_start.fits(fetch.planned(FILM))
        assert head_start.finish(len(content), lambda _: None) is not None
    fetch.close()


def test_a_fetch_that_is_almost_at_its_end_is_waited_for(fetch: Fetch, control: AttemptControl) -> None:
    with fetch.head_start(control) as head_start:
        fetch.receive(1.0)
        head_start.begin(fetch.file)
        assert not head_start.fits(fetch.planned(FILM))
    assert list(fetch.out.iterdir()) == []


def test_a_pipe_has_all_bytes_in_order_and_ends_only_when_the_source_is_whole(fetch: Fetch) -> None:
    pipe = SourcePipe(fetch.file, fetch.path)
    received = bytearray()
    with pipe.reader() as reading:
        for share in (0.1, 0.5, 1.0):
            fetch.receive(share)
            while len(received) < fetch.file.front:
                received += os.read(reading, 1 << 20)
        assert bytes(received) == fetch.content
        poll = select.poll()
        poll.register(reading, select.POLLIN | select.POLLHUP)
        assert poll.poll(300) == [], "the source may still turn out to be changed"
        pipe.finish(len(fetch.content))
        assert os.read(reading, 1) == b""


def test_a_pipe_that_nobody_reads_ends(fetch: Fetch) -> None:
    fetch.receive(1.0)
    with SourcePipe(fetch.file, fetch.path).reader() as reading:
        assert os.read(reading, 1) != b""


def test_a_source_that_cannot_be_read_to_its_end_gives_no_encode(
    sandbox: Sandbox, content: bytes, control: AttemptControl, tmp_path: Path
) -> None:
    (tmp_path / "broken").mkdir()
    fetch = Fetch(sandbox, content, tmp_path / "broken", file_type=BrokenFile)
    with capture_logs() as logs, fetch.head_start(control) as head_start:
        fetch.receive(0.6)
        head_start.begin(fetch.file)
        assert cast(BrokenFile, fetch.file).failed.wait(TIMEOUT_S)
        fetch.receive(1.0)
        assert head_start.fits(fetch.planned(FILM))
        assert head_start.finish(len(content), lambda _: None) is None
    assert "source_pipe_failed" in [log["event"] for log in logs]
    fetch.close()


def test_a_pipe_of_a_missing_source_ends(fetch: Fetch) -> None:
    pipe = SourcePipe(fetch.file, fetch.folder / "missing")
    with pipe.reader() as reading:
        assert os.read(reading, 1) == b""
    assert pipe.has_failed


def test_the_end_of_an_early_encode_is_logged_with_its_code(fetch: Fetch, control: AttemptControl) -> None:
    has_run = threading.Event()

    def fail(*_: object, **__: object) -> EncodeStats:
        has_run.set()
        raise MediaError(ErrorCode.ENCODE_KILLED, "the kernel ended it")

    with capture_logs() as logs, fetch.head_start(control, fail) as head_start:
        fetch.receive(0.6)
        head_start.begin(fetch.file)
        assert has_run.wait(TIMEOUT_S)
    assert [log["code"] for log in logs if log["event"] == "early_encode_ended"] == ["encode_killed"]


def test_the_log_lines_of_its_threads_have_the_fields_of_the_attempt(
    fetch: Fetch, control: AttemptControl
) -> None:
    has_failed = threading.Event()

    def read_nothing(first: Plan, stream: SourceStream, on_progress: object) -> EncodeStats:
        del first, on_progress
        fetch.path.unlink()
        with stream.reader() as reading:
            assert os.read(reading, 1) == b""
        has_failed.set()
        raise MediaError(ErrorCode.ENCODE_KILLED, "the kernel ended it")

    with (
        capture_logs([merge_contextvars]) as logs,
        bound_contextvars(job_id="j1"),
        fetch.head_start(control, read_nothing) as head_start,
    ):
        fetch.receive(0.6)
        head_start.begin(fetch.file)
        assert has_failed.wait(TIMEOUT_S)
    assert [(log["event"], log.get("job_id")) for log in logs] == [
        ("encode_begun_early", "j1"),
        ("source_pipe_failed", "j1"),
        ("early_encode_ended", "j1"),
    ]
