"""Jobs of one requester that want to look like the worker's own trouble, beside a job of another."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from euterpe.domain.states import JobStatus
from tests.net.servers import Serve, Server
from tests.service.small_disk import small_disk
from tests.service.worker_harness import LONG_S, S3Proxy, WorkerHarness, working

pytest_plugins = ("tests.service.worker_fixtures",)

Hosted = Callable[[Serve], dict[str, str]]
PETABYTE = 10**15
MIB = 1 << 20


@pytest.fixture
def hosted(harness: WorkerHarness) -> Iterator[Hosted]:
    """Return a source on a web server that does as it is told."""
    tls = harness.authority.server_context(["localhost"])
    with ExitStack() as open_servers:

        def host(serve: Serve) -> dict[str, str]:
            server = open_servers.enter_context(Server(serve, tls))
            return {"url": f"https://localhost:{server.port}/clip.mp4"}

        yield host


def announcing(size: int) -> Serve:
    def serve(server: Server, sock: socket.socket) -> None:
        while server.read_request(sock):
            head = f"HTTP/1.1 206 so\r\ncontent-range: bytes 0-0/{size}\r\ncontent-length: 1\r\n\r\n."
            sock.sendall(head.encode())

    return serve


def test_fair_a_lying_source_size_is_the_jobs_own_permanent_failure(
    harness: WorkerHarness, hosted: Hosted
) -> None:
    source = hosted(announcing(PETABYTE))
    with capture_logs() as logs:
        liars = [harness.submit(source) for _ in range(6)]
        ends = [harness.end_of(job_id) for job_id in liars]
        honest = harness.submit(credentials=harness.keys)
        assert harness.reaches(honest, JobStatus.SUCCEEDED)["attempt_count"] == 1
    ended_with = {(end["status"], end["last_error"]["code"], end["attempt_count"]) for end in ends}
    assert ended_with == {("failed", "source_too_large", 1)}
    assert "claims_paused" not in [entry["event"] for entry in logs]


class Flood:
    """A source that tells no size, sends `size` bytes and then nothing, but never ends."""

    def __init__(self, size: int) -> None:
        self._size = size
        self.is_spent, self._over = threading.Event(), threading.Event()

    def __call__(self, server: Server, sock: socket.socket) -> None:
        while request := server.read_request(sock):
            if b"bytes=0-0" in request:
                sock.sendall(b"HTTP/1.1 206 so\r\ncontent-range: bytes 0-0/*\r\ncontent-length: 1\r\n\r\n.")
                continue
            try:
                sock.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + bytes(self._size))
            except ConnectionError:  # the worker has had enough of it
                return
            finally:
                self.is_spent.set()
            self._over.wait(LONG_S)
            return

    def end(self) -> None:
        self._over.set()


def test_fair_an_endless_source_costs_the_job_beside_it_nothing(
    tmp_path: Path, proxy_server: Server, bucket: Path, proxy: S3Proxy
) -> None:
    """24 MiB, of which 4 are the reserve: a slot has 10, and the flood would take 21."""
    work, flood = tmp_path / "small", Flood(21 * MIB)
    with (
        small_disk(work, 24 * MIB) as disk,
        working(tmp_path, proxy_server, bucket, disk, work_dir=work, min_free_bytes=4 * MIB) as harness,
        Server(flood, harness.authority.server_context(["localhost"])) as server,
    ):
        gate = proxy.gate("GET")
        honest = harness.submit(credentials=harness.keys)
        with gate.held():
            endless = harness.submit({"url": f"https://localhost:{server.port}/clip.mp4"}, max_attempts=1)
            assert flood.is_spent.wait(LONG_S)
        assert harness.end_of(honest)["status"] == "succeeded"
        assert (harness.codes(honest), harness.store.jobs.get(honest)["attempt_count"]) == ([None], 1)
        flood.end()
        assert harness.end_of(endless)["status"] == "dead_letter"
        assert harness.codes(endless) == ["too_large_for_worker"]


def test_fair_a_source_that_announces_the_disk_of_others_waits_for_it_and_pays_nothing(
    tmp_path: Path, proxy_server: Server, bucket: Path, proxy: S3Proxy
) -> None:
    """It announces 13 of 20 MiB; the job beside it has 9: its source, and half as much for its outputs."""
    work = tmp_path / "small"
    padding = struct.pack(">I4s", 6 * MIB, b"free") + bytes(6 * MIB - 8)
    (bucket / "padded.mp4").write_bytes((bucket / "clip.mp4").read_bytes() + padding)
    with (
        small_disk(work, 24 * MIB) as disk,
        working(tmp_path, proxy_server, bucket, disk, work_dir=work, min_free_bytes=4 * MIB) as harness,
    ):
        (bucket / "large.mp4").write_bytes(bytes(13 * MIB))
        gate = proxy.gate("GET", "padded.mp4")
        honest = harness.submit("padded.mp4", credentials=harness.keys)
        with gate.held():
            large = harness.submit("large.mp4", credentials=harness.keys, max_attempts=1)
            harness.reaches(large, JobStatus.FETCHING)
            waiting = harness.reaches(large, JobStatus.QUEUED)
            assert (waiting["last_error"]["code"], waiting["attempt_count"]) == ("waits_for_disk", 0)
        assert harness.end_of(honest)["attempt_count"] == 1
        # Alone it is fetched, and turns out to be no media.
        assert harness.end_of(large)["last_error"]["code"] == "source_not_media"
        assert harness.store.jobs.get(large)["attempt_count"] == 1


def test_a_source_larger_than_the_disk_of_an_empty_worker_is_charged(
    tmp_path: Path, proxy_server: Server, bucket: Path
) -> None:
    work = tmp_path / "small"
    with (
        small_disk(work, 24 * MIB) as disk,
        working(tmp_path, proxy_server, bucket, disk, work_dir=work, min_free_bytes=4 * MIB) as harness,
    ):
        (bucket / "larger.mp4").write_bytes(bytes(17 * MIB))
        job_id = harness.submit("larger.mp4", credentials=harness.keys, max_attempts=2)
        assert harness.end_of(job_id)["status"] == "dead_letter"
        assert harness.codes(job_id) == ["too_large_for_worker"] * 2


def test_a_helper_that_is_killed_during_a_fetch_costs_nothing(harness: WorkerHarness, proxy: S3Proxy) -> None:
    gate = proxy.gate("GET")
    job_id = harness.submit(credentials=harness.keys, max_attempts=1)
    with gate.held():
        harness.sandbox.kill_helper()
    assert (harness.end_of(job_id)["status"], harness.store.jobs.get(job_id)["attempt_count"]) == (
        "succeeded",
        1,
    )


@pytest.mark.parametrize("phase", ["probe", "encode", "inspect"])
def test_a_helper_that_is_killed_under_its_child_costs_nothing(harness: WorkerHarness, phase: str) -> None:
    harness.sandbox.break_helper(phase)
    job_id = harness.submit(credentials=harness.keys, max_attempts=1)
    job = harness.end_of(job_id)
    assert (job["status"], job["attempt_count"]) == ("succeeded", 1)
    assert harness.codes(job_id) == ["sandbox_failed", None]
    assert [attempt["attempt_no"] for attempt in harness.store.jobs.attempts(job_id)] == [1, 1]


def test_fair_a_job_that_breaks_the_helper_each_time_is_charged_in_the_end_and_never_rests_the_worker(
    harness: WorkerHarness,
) -> None:
    with capture_logs() as logs:
        harness.sandbox.break_helper("probe", times=6)
        job_id = harness.submit(credentials=harness.keys, max_attempts=1)
        assert harness.end_of(job_id)["status"] == "dead_letter"
        outcomes = [attempt["outcome"] for attempt in harness.store.jobs.attempts(job_id)]
        assert outcomes == ["released"] * 5 + ["failed"]
        assert harness.end_of(harness.submit(credentials=harness.keys))["attempt_count"] == 1
    assert "claims_paused" not in [entry["event"] for entry in logs]


def test_a_worker_whose_sandbox_is_gone_rests_until_it_is_back(harness: WorkerHarness) -> None:
    program = harness.sandbox.ffmpeg
    hidden = program.with_name("no-such-program")
    with capture_logs() as logs:
        harness.sandbox.ffmpeg = hidden
        job_id = harness.submit(credentials=harness.keys, max_attempts=1)
        harness.reaches(job_id, JobStatus.FETCHING)
        harness.reaches(job_id, JobStatus.QUEUED)
        harness.sandbox.ffmpeg = program
        assert harness.end_of(job_id)["status"] == "succeeded"
    assert harness.store.jobs.get(job_id)["attempt_count"] == 1
    assert [entry["code"] for entry in logs if entry["event"] == "attempt_not_charged"] == ["sandbox_failed"]
