"""Test attempts in which the storage refuses, fails or restarts, or the disk of the worker is full."""

import os
import resource
import signal
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from euterpe.domain.spec import parse_spec
from euterpe.domain.states import FINISHED, JobStatus
from euterpe.media.sandbox.child import Child
from euterpe.store.engine.wakeup import Topic
from tests.net.servers import Server
from tests.s3 import S3Server
from tests.service.installation import Installation
from tests.service.worker_harness import TIMEOUT_S, FakeDisk, S3Proxy, WorkerHarness, run_worker
from tests.storage.fake_stores import Call, Reply, fail_every

pytest_plugins = ("tests.service.worker_fixtures",)


def answer_method(proxy: S3Proxy, method: str, reply: Reply) -> None:
    """Answer all calls of this method with `reply`, and forward all other calls."""
    proxy.answer = lambda call: reply if call.method == method else proxy.forward(call)


def test_an_output_that_may_not_be_written_is_reported(harness: WorkerHarness, proxy: S3Proxy) -> None:
    answer_method(proxy, "POST", Reply(403, body=b"<Error><Code>AccessDenied</Code></Error>"))
    job_id = harness.submit(credentials=harness.keys, max_attempts=2)
    job = harness.await_end(job_id)
    assert (job.status, (job.last_error or {})["phase"]) == ("failed", "uploading")
    assert harness.error_codes(job_id) == ["output_forbidden"], "a second encode would fail in the same way"


def test_an_output_bucket_that_is_not_there_is_reported(harness: WorkerHarness) -> None:
    job_id = harness.submit(credentials=harness.keys, output={"url": "s3://no-such-bucket/out/"})
    job = harness.await_end(job_id)
    assert (job.status, job.attempt_count) == ("failed", 1)
    assert harness.error_codes(job_id) == ["output_not_found"]


def test_a_store_that_fails_every_third_call_is_good_enough(harness: WorkerHarness, proxy: S3Proxy) -> None:
    proxy.answer = fail_every(3, proxy.forward, lambda _: Reply(503))
    job = harness.await_end(harness.submit(credentials=harness.keys))
    assert (job.status, job.last_error, job.attempt_count) == ("succeeded", None, 1)
    assert len(proxy.calls) > 6


def test_a_store_that_always_fails_spends_the_attempts(harness: WorkerHarness, proxy: S3Proxy) -> None:
    answer_method(proxy, "HEAD", Reply(500))
    job_id = harness.submit(credentials=harness.keys, max_attempts=2)
    assert harness.await_end(job_id).status == "dead_letter"
    assert harness.error_codes(job_id) == ["source_unreachable", "source_unreachable"]


def test_a_store_that_throttles_gets_a_later_attempt(harness: WorkerHarness, proxy: S3Proxy) -> None:
    def answer(_: Call) -> Reply:
        proxy.answer = proxy.forward
        return Reply(429)

    proxy.answer = answer
    job_id = harness.submit(credentials=harness.keys)
    assert harness.await_end(job_id).status == "succeeded"
    assert harness.error_codes(job_id) == ["storage_throttled", None]


@pytest.mark.parametrize(("method", "part"), [("GET", "clip"), ("PUT", "partNumber=2")])
def test_a_job_outlives_a_restart_of_its_store(
    harness: WorkerHarness, s3: S3Server, proxy: S3Proxy, method: str, part: str
) -> None:
    with ExitStack() as running:
        first = S3Server(s3.folder)
        running.callback(first.stop)
        proxy.upstream = first.endpoint
        gate = proxy.gate(method, part)
        job_id = harness.submit(credentials=harness.keys)
        with gate.held():
            running.close()
            proxy.upstream = s3.endpoint  # another server, which does not know the first server's uploads
    job = harness.await_end(job_id)
    assert (job.status, job.last_error) == ("succeeded", None)


def test_a_job_waits_while_the_disk_is_full(tmp_path: Path, proxy_server: Server, bucket: Path) -> None:
    disk = FakeDisk()
    disk.free = 0
    with run_worker(tmp_path, proxy_server, bucket, disk) as harness:
        job_id = harness.submit(credentials=harness.keys)
        for _ in range(3):
            assert disk.measured.acquire(timeout=30)
        assert (harness.store.jobs.get(job_id).status, harness.error_codes(job_id)) == ("queued", [])
        disk.free = None
        assert harness.await_end(job_id).attempt_count == 1


def test_fair_a_disk_that_others_fill_during_an_encode_costs_the_job_nothing(
    tmp_path: Path, proxy_server: Server, bucket: Path
) -> None:
    disk = FakeDisk()

    def fill(child: Child) -> None:
        os.kill(child.pid, signal.SIGSTOP)
        disk.free = 0

    with run_worker(tmp_path, proxy_server, bucket, disk) as harness:
        harness.sandbox.on_ffmpeg = fill
        job_id = harness.submit(credentials=harness.keys, max_attempts=1)
        harness.await_status(job_id, JobStatus.PROCESSING)
        waiting = harness.await_status(job_id, JobStatus.QUEUED)
        assert (waiting.error_code, waiting.attempt_count) == ("disk_full", 0)
        disk.free = None
        assert harness.await_end(job_id).status == "succeeded"
        assert harness.error_codes(job_id) == ["disk_full", None]


def test_an_output_that_grows_too_large_is_ended(harness: WorkerHarness) -> None:
    def fill(child: Child) -> None:
        resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (100, 100))

    harness.sandbox.on_ffmpeg = fill
    job_id = harness.submit(credentials=harness.keys, max_attempts=1)
    assert harness.await_end(job_id).error_code == "output_too_large"


def test_a_sandbox_that_was_killed_is_replaced(harness: WorkerHarness) -> None:
    def kill(_: Child) -> None:
        helper = harness.sandbox._helper
        assert helper is not None
        helper.kill()

    harness.sandbox.on_ffmpeg = kill
    job_id = harness.submit(credentials=harness.keys)
    assert harness.await_end(job_id).status == "succeeded"
    assert harness.error_codes(job_id) == ["sandbox_failed", None]
    assert harness.store.jobs.get(job_id).attempt_count == 1, "the first attempt was given back"


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_source_that_finds_no_room_is_a_full_disk(installation: Installation, media: Path) -> None:
    """A limit on the file size simulates a full disk, because both make a write fail in the same way."""
    limit = 3_000_000
    worker = installation.start("worker", EUTERPE_MIN_FREE_BYTES="0")
    worker.await_log("worker_started")
    resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (limit, limit))
    with installation.store() as store, closing(store.database.listen(Topic.INBOX)) as commits:
        for excess in (1, limit):  # with 1, the last flush fails; with `limit`, an earlier write fails
            (media / "large.mp4").write_bytes(bytes(limit + excess))
            spec = parse_spec({**installation.request("large.mp4"), "max_attempts": 1})
            job_id = store.submit(spec, installation.requester_id).result(TIMEOUT_S).job_id
            while (job := store.jobs.get(job_id)).status not in FINISHED:
                assert commits.wait(TIMEOUT_S)
            assert ((error := job.last_error or {})["code"], error["phase"]) == ("disk_full", "fetching")
    assert worker.stop() == 0
    assert installation.leftovers() == []
