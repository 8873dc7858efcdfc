"""Test attempts that end without success: canceled, timed out, stalled, released, or failed by a bug."""

import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from euterpe.crypto.errors import UnknownKek
from euterpe.domain.rows import JobRow
from euterpe.domain.states import JobStatus
from euterpe.media.sandbox.child import Child
from euterpe.net.errors import EgressUnreachable
from euterpe.worker import attempt
from tests.net.servers import Server
from tests.service.worker_harness import TIMEOUT_S, Gate, S3Proxy, WorkerHarness, run_worker
from tests.storage.fake_stores import Call, Reply

pytest_plugins = ("tests.service.worker_fixtures",)


@pytest.fixture
def ffmpeg(harness: WorkerHarness) -> Gate:
    """Return a gate for the next ffmpeg. The next ffmpeg gets SIGSTOP, so that it cannot finish."""
    return freeze_next_ffmpeg(harness)


def freeze_next_ffmpeg(harness: WorkerHarness) -> Gate:
    gate = Gate()

    def hold(child: Child) -> None:
        os.kill(child.pid, signal.SIGSTOP)
        gate.pass_through()

    harness.sandbox.on_ffmpeg = hold
    return gate


def kill(child: Child) -> None:
    os.kill(child.pid, signal.SIGKILL)


def cancel_at(gate: Gate, harness: WorkerHarness, job_id: str) -> JobRow:
    with gate.held():
        harness.store.control.cancel(job_id)
        harness.worker.lease_keeper.beat()
    job = harness.await_end(job_id)
    assert (job.status, job.error_code) == ("failed", "canceled")
    return job


def test_a_cancel_stops_a_fetch(harness: WorkerHarness, proxy: S3Proxy) -> None:
    gate = proxy.gate("GET")
    job = cancel_at(gate, harness, harness.submit(credentials=harness.keys))
    assert (job.last_error or {})["phase"] == "fetching"


def test_a_cancel_kills_ffmpeg(harness: WorkerHarness, ffmpeg: Gate) -> None:
    job = cancel_at(ffmpeg, harness, harness.submit(credentials=harness.keys))
    assert (job.last_error or {})["phase"] == "processing"


def test_a_cancel_aborts_an_upload_in_parts(harness: WorkerHarness, proxy: S3Proxy) -> None:
    gate = proxy.gate("PUT", "partNumber=2")
    prefix = f"s3://{harness.bucket.name}/canceled/"
    job = cancel_at(gate, harness, harness.submit(credentials=harness.keys, output={"url": prefix}))
    assert (job.last_error or {})["phase"] == "uploading"
    assert proxy.count("POST", "uploads") == proxy.count("DELETE", "uploadId") == 1
    assert list((harness.bucket / "canceled").rglob("*")) == []


def test_a_canceled_job_succeeds_when_it_is_retried(harness: WorkerHarness, proxy: S3Proxy) -> None:
    gate = proxy.gate("GET")
    job_id = harness.submit(credentials=harness.keys)
    cancel_at(gate, harness, job_id)
    harness.store.control.retry(job_id)
    harness.await_status(job_id, JobStatus.SUCCEEDED)
    assert harness.error_codes(job_id) == ["canceled", None]


def test_an_encode_beyond_the_jobs_time_is_ended(harness: WorkerHarness, ffmpeg: Gate) -> None:
    job_id = harness.submit(credentials=harness.keys, timeout_seconds=1)
    with ffmpeg.held():
        pass
    job = harness.await_end(job_id)
    assert (job.status, job.error_code) == ("failed", "attempt_timeout")
    assert (job.last_error or {})["retryable"] is False


def test_a_fetch_beyond_the_jobs_time_is_ended(harness: WorkerHarness, proxy: S3Proxy) -> None:
    gate = proxy.gate("GET")
    job_id = harness.submit(credentials=harness.keys, timeout_seconds=3600)
    with gate.held():
        harness.clock.advance(3601)
    assert harness.await_end(job_id).error_code == "attempt_timeout"


@pytest.mark.parametrize("method", ["HEAD", "GET", "PUT"])
def test_a_store_that_says_nothing_holds_no_slot_beyond_the_jobs_time(
    harness: WorkerHarness, proxy: S3Proxy, method: str
) -> None:
    """In an earlier version, five tries of half a minute each could outlast the timeout of the job."""
    gate = Gate()

    def hold(call: Call) -> Reply:
        if call.method == method:
            gate.pass_through()
        return proxy.forward(call)

    proxy.answer = hold
    job_id = harness.submit(credentials=harness.keys, timeout_seconds=2)
    with gate.held():
        job = harness.await_end(job_id)
    assert (job.status, job.error_code) == ("failed", "attempt_timeout")


def test_a_host_that_says_nothing_holds_no_slot_beyond_the_jobs_time(harness: WorkerHarness) -> None:
    def silent(server: Server, sock: socket.socket) -> None:
        server.read_request(sock)
        server.stopping.wait(TIMEOUT_S)

    with Server(silent, harness.authority.server_context(["localhost"])) as server:
        source = {"url": f"https://localhost:{server.port}/clip.mp4"}
        job = harness.await_end(harness.submit(source, timeout_seconds=1))
    assert (job.status, job.error_code) == ("failed", "attempt_timeout")


def test_an_ffmpeg_that_gets_nowhere_is_ended_and_the_job_tried_again(
    tmp_path: Path, proxy_server: Server, bucket: Path
) -> None:
    with run_worker(tmp_path, proxy_server, bucket, stall_timeout_ms=500) as harness:
        gate = freeze_next_ffmpeg(harness)
        job_id = harness.submit(credentials=harness.keys)
        with gate.held():
            pass
        harness.await_end(job_id)
        assert harness.error_codes(job_id) == ["encode_stalled", None]


def test_a_killed_ffmpeg_is_tried_again(harness: WorkerHarness) -> None:
    harness.sandbox.on_ffmpeg = kill
    job_id = harness.submit(credentials=harness.keys)
    harness.await_end(job_id)
    assert harness.error_codes(job_id) == ["encode_killed", None]
    assert harness.store.jobs.get(job_id).attempt_count == 1, "the first attempt was given back"


def test_a_stopping_worker_hands_back_what_it_cannot_finish(
    tmp_path: Path, proxy_server: Server, bucket: Path, proxy: S3Proxy
) -> None:
    with run_worker(tmp_path, proxy_server, bucket) as harness:
        gate = proxy.gate("GET")
        job_id = harness.submit(credentials=harness.keys)
        with gate.held():
            harness.worker.lease_keeper.stop_attempts()  # `Worker.stop` does this after its drain time
        harness.await_status(job_id, JobStatus.SUCCEEDED)
        attempts = harness.store.jobs.attempts(job_id)
    assert [attempt.outcome for attempt in attempts] == ["released", "succeeded"]
    assert [attempt.attempt_no for attempt in attempts] == [1, 1], "the attempt is given back"


def test_a_stopping_worker_finishes_what_it_can(
    tmp_path: Path, proxy_server: Server, bucket: Path, proxy: S3Proxy
) -> None:
    gate = proxy.gate("GET")
    with run_worker(tmp_path, proxy_server, bucket) as harness:
        job_id = harness.submit(credentials=harness.keys)
        with gate.held():
            stopping = harness.stop_in_background()
        stopping.join()
        assert harness.store.jobs.get(job_id).status == "succeeded"
    assert not any((tmp_path / "work").iterdir()), "nothing-left: files"


def test_a_bug_is_an_internal_error_and_the_slot_lives_on(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plan(*_: object, **__: object) -> None:
        monkeypatch.undo()
        raise ZeroDivisionError("canary")

    monkeypatch.setattr(attempt, "plan", plan)
    job_id = harness.submit(credentials=harness.keys, max_attempts=2)
    harness.await_end(job_id)
    assert harness.error_codes(job_id) == ["internal_error", None]
    error = harness.store.jobs.attempts(job_id)[0].error or {}
    assert error["retryable"]
    assert "ZeroDivisionError" in error["message"]
    assert "canary" not in error["message"]


def test_a_bug_in_a_claim_does_not_end_the_claims(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate()
    real = harness.store.inbox.claim

    def claim(*_: object, **__: object) -> None:
        monkeypatch.setattr(harness.store.inbox, "claim", real)
        gate.pass_through()
        raise EgressUnreachable("host", "not an error that a claim raises")

    monkeypatch.setattr(harness.store.inbox, "claim", claim)
    with gate.held():
        pass
    job_id = harness.submit(credentials=harness.keys)
    assert harness.await_end(job_id).status == "succeeded"


def test_a_job_is_handed_on_by_a_worker_that_lacks_its_key(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """During a key rollout, a worker may lack a key. The job must not be charged for this."""
    real = harness.store.credentials.open

    def fail_once(_: object) -> None:
        monkeypatch.setattr(harness.store.credentials, "open", real)
        raise UnknownKek("k9")

    monkeypatch.setattr(harness.store.credentials, "open", fail_once)
    job_id = harness.submit(credentials=harness.keys, max_attempts=1)
    job = harness.await_end(job_id)
    assert (job.status, job.attempt_count, job.claim_version) == ("succeeded", 1, 2)


class PoolWithoutThreads(ThreadPoolExecutor):
    """A pool that cannot start a thread for the first task."""

    has_refused = False

    def submit(self, *arguments: Any, **options: Any) -> Any:
        if not self.has_refused:
            self.has_refused = True
            raise RuntimeError("can't start new thread")
        return super().submit(*arguments, **options)


def test_a_job_for_which_no_thread_is_to_be_had_is_handed_back(
    tmp_path: Path, proxy_server: Server, bucket: Path, proxy: S3Proxy
) -> None:
    del proxy  # the fixture resets the proxy
    with run_worker(tmp_path, proxy_server, bucket, pool=PoolWithoutThreads(2)) as harness:
        job = harness.await_end(harness.submit(credentials=harness.keys, max_attempts=1))
    assert (job.status, job.attempt_count, job.claim_version) == ("succeeded", 1, 2)


def test_nothing_is_published_once_the_lease_is_lost(harness: WorkerHarness, ffmpeg: Gate) -> None:
    prefix = f"s3://{harness.bucket.name}/lost/"
    job_id = harness.submit(credentials=harness.keys, output={"url": prefix})
    with ffmpeg.held():
        (control,) = harness.worker.lease_keeper.held()
        # The release ends the claim in the same way as a sweep by another worker.
        harness.tools.plane.release(control.job, reason=None, timings={})
        second_ffmpeg = freeze_next_ffmpeg(harness)
        harness.worker.lease_keeper.beat()
    cancel_at(second_ffmpeg, harness, job_id)
    assert list((harness.bucket / "lost").rglob("*")) == []
