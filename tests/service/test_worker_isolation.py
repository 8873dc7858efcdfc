"""Test which jobs are charged, and which jobs wait, if a source or the sandbox makes the worker fail."""

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
from tests.service.worker_harness import TIMEOUT_S, S3Proxy, WorkerHarness, run_worker

pytest_plugins = ("tests.service.worker_fixtures",)

HostSource = Callable[[Serve], dict[str, str]]
PETABYTE = 10**15
MIB = 1 << 20


@pytest.fixture
def host(harness: WorkerHarness) -> Iterator[HostSource]:
    """Return a function that starts an HTTPS server for a source and returns the source."""
    tls = harness.authority.server_context(["localhost"])
    with ExitStack() as open_servers:

        def start(serve: Serve) -> dict[str, str]:
            server = open_servers.enter_context(Server(serve, tls))
            return {"url": f"https://localhost:{server.port}/clip.mp4"}

        yield start


def announcing(size: int) -> Serve:
    def serve(server: Server, sock: socket.socket) -> None:
        while server.read_request(sock):
            head = f"HTTP/1.1 206 so\r\ncontent-range: bytes 0-0/{size}\r\ncontent-length: 1\r\n\r\n."
            sock.sendall(head.encode())

    return serve


def test_fair_a_lying_source_size_is_the_jobs_own_permanent_failure(
    harness: WorkerHarness, host: HostSource
) -> None:
    source = host(announcing(PETABYTE))
    with capture_logs() as logs:
        lying = [harness.submit(source) for _ in range(6)]
        ends = [harness.await_end(job_id) for job_id in lying]
        other = harness.submit(credentials=harness.keys)
        assert harness.await_status(other, JobStatus.SUCCEEDED).attempt_count == 1
    ended_with = {(end.status, end.error_code, end.attempt_count) for end in ends}
    assert ended_with == {("failed", "source_too_large", 1)}
    assert "claims_paused" not in [entry["event"] for entry in logs]


class EndlessSource:
    """A server that announces no size, sends `size` bytes, and then keeps the connection open."""

    def __init__(self, size: int) -> None:
        self._size = size
        self.all_sent, self._over = threading.Event(), threading.Event()

    def __call__(self, server: Server, sock: socket.socket) -> None:
        while request := server.read_request(sock):
            if b"bytes=0-0" in request:
                sock.sendall(b"HTTP/1.1 206 so\r\ncontent-range: bytes 0-0/*\r\ncontent-length: 1\r\n\r\n.")
                continue
            try:
                sock.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + bytes(self._size))
            except ConnectionError:  # the worker closed the connection
                return
            finally:
                self.all_sent.set()
            self._over.wait(TIMEOUT_S)
            return

    def end(self) -> None:
        self._over.set()


def test_fair_an_endless_source_costs_the_job_beside_it_nothing(
    tmp_path: Path, proxy_server: Server, bucket: Path, proxy: S3Proxy
) -> None:
    """The disk has 24 MiB: a reserve of 4 MiB, and 10 MiB for each slot. The endless source sends 21 MiB."""
    work, source = tmp_path / "small", EndlessSource(21 * MIB)
    with (
        small_disk(work, 24 * MIB) as disk,
        run_worker(tmp_path, proxy_server, bucket, disk, work_dir=work, min_free_bytes=4 * MIB) as harness,
        Server(source, harness.authority.server_context(["localhost"])) as server,
    ):
        gate = proxy.gate("GET")
        other = harness.submit(credentials=harness.keys)
        with gate.held():
            endless = harness.submit({"url": f"https://localhost:{server.port}/clip.mp4"}, max_attempts=1)
            assert source.all_sent.wait(TIMEOUT_S)
        assert harness.await_end(other).status == "succeeded"
        assert (harness.error_codes(other), harness.store.jobs.get(other).attempt_count) == ([None], 1)
        source.end()
        assert harness.await_end(endless).status == "dead_letter"
        assert harness.error_codes(endless) == ["too_large_for_worker"]


def test_fair_a_source_that_announces_the_disk_of_others_waits_for_it_and_pays_nothing(
    tmp_path: Path, proxy_server: Server, bucket: Path, proxy: S3Proxy
) -> None:
    """The disk has 20 MiB for jobs, and the source announces 13 MiB.

    The other job reserves 9 MiB: 6 MiB for its source, and 3 MiB for its outputs.
    """
    work = tmp_path / "small"
    padding = struct.pack(">I4s", 6 * MIB, b"free") + bytes(6 * MIB - 8)
    (bucket / "padded.mp4").write_bytes((bucket / "clip.mp4").read_bytes() + padding)
    with (
        small_disk(work, 24 * MIB) as disk,
        run_worker(tmp_path, proxy_server, bucket, disk, work_dir=work, min_free_bytes=4 * MIB) as harness,
    ):
        (bucket / "large.mp4").write_bytes(bytes(13 * MIB))
        gate = proxy.gate("GET", "padded.mp4")
        other = harness.submit("padded.mp4", credentials=harness.keys)
        with gate.held():
            large = harness.submit("large.mp4", credentials=harness.keys, max_attempts=1)
            harness.await_status(large, JobStatus.FETCHING)
            waiting = harness.await_status(large, JobStatus.QUEUED)
            assert (waiting.error_code, waiting.attempt_count) == ("waits_for_disk", 0)
        assert harness.await_end(other).attempt_count == 1
        # The worker fetches `large` when no other job runs. The job fails because the source is not media.
        assert harness.await_end(large).error_code == "source_not_media"
        assert harness.store.jobs.get(large).attempt_count == 1


def test_a_source_larger_than_the_disk_of_an_empty_worker_is_charged(
    tmp_path: Path, proxy_server: Server, bucket: Path
) -> None:
    work = tmp_path / "small"
    with (
        small_disk(work, 24 * MIB) as disk,
        run_worker(tmp_path, proxy_server, bucket, disk, work_dir=work, min_free_bytes=4 * MIB) as harness,
    ):
        (bucket / "larger.mp4").write_bytes(bytes(17 * MIB))
        job_id = harness.submit("larger.mp4", credentials=harness.keys, max_attempts=2)
        assert harness.await_end(job_id).status == "dead_letter"
        assert harness.error_codes(job_id) == ["too_large_for_worker"] * 2


def test_a_helper_that_is_killed_during_a_fetch_costs_nothing(harness: WorkerHarness, proxy: S3Proxy) -> None:
    gate = proxy.gate("GET")
    job_id = harness.submit(credentials=harness.keys, max_attempts=1)
    with gate.held():
        harness.sandbox.kill_helper()
    assert (harness.await_end(job_id).status, harness.store.jobs.get(job_id).attempt_count) == (
        "succeeded",
        1,
    )


@pytest.mark.parametrize("phase", ["probe", "encode", "inspect"])
def test_a_helper_that_is_killed_under_its_child_costs_nothing(harness: WorkerHarness, phase: str) -> None:
    harness.sandbox.break_helper(phase)
    job_id = harness.submit(credentials=harness.keys, max_attempts=1)
    job = harness.await_end(job_id)
    assert (job.status, job.attempt_count) == ("succeeded", 1)
    assert harness.error_codes(job_id) == ["sandbox_failed", None]
    assert [attempt.attempt_no for attempt in harness.store.jobs.attempts(job_id)] == [1, 1]


def test_fair_a_job_that_breaks_the_helper_each_time_is_charged_in_the_end_and_never_rests_the_worker(
    harness: WorkerHarness,
) -> None:
    with capture_logs() as logs:
        harness.sandbox.break_helper("probe", times=6)
        job_id = harness.submit(credentials=harness.keys, max_attempts=1)
        assert harness.await_end(job_id).status == "dead_letter"
        outcomes = [attempt.outcome for attempt in harness.store.jobs.attempts(job_id)]
        assert outcomes == ["released"] * 5 + ["failed"]
        assert harness.await_end(harness.submit(credentials=harness.keys)).attempt_count == 1
    assert "claims_paused" not in [entry["event"] for entry in logs]


def test_a_worker_whose_sandbox_is_gone_rests_until_it_is_back(harness: WorkerHarness) -> None:
    program = harness.sandbox.ffmpeg
    hidden = program.with_name("no-such-program")
    with capture_logs() as logs:
        harness.sandbox.ffmpeg = hidden
        job_id = harness.submit(credentials=harness.keys, max_attempts=1)
        harness.await_status(job_id, JobStatus.FETCHING)
        harness.await_status(job_id, JobStatus.QUEUED)
        harness.sandbox.ffmpeg = program
        assert harness.await_end(job_id).status == "succeeded"
    assert harness.store.jobs.get(job_id).attempt_count == 1
    assert [entry["code"] for entry in logs if entry["event"] == "attempt_not_charged"] == ["sandbox_failed"]
