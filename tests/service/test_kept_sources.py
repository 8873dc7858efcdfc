"""Tests that a retry on the same worker does not fetch its source again, and never uses another source."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from euterpe.domain.states import JobStatus
from euterpe.media.sandbox.child import Child
from tests.service.worker_harness import S3Proxy, WorkerHarness
from tests.storage.fake_stores import Call, Reply

pytest_plugins = ("tests.service.worker_fixtures",)


def kill(child: Child) -> None:
    os.kill(child.pid, signal.SIGKILL)


def fail_first_put(proxy: S3Proxy, then: Callable[[], object] = lambda: None) -> None:
    def answer(call: Call) -> Reply:
        if call.method != "PUT":
            return proxy.forward(call)
        proxy.answer = proxy.forward
        then()
        return Reply(429)

    proxy.answer = answer


def test_a_retry_after_a_failed_upload_does_not_fetch_again(harness: WorkerHarness, proxy: S3Proxy) -> None:
    fail_first_put(proxy)
    job_id = harness.submit(credentials=harness.keys)
    assert harness.await_end(job_id).status == "succeeded"
    assert harness.error_codes(job_id) == ["storage_throttled", None]
    assert proxy.count("GET", "clip.mp4") == 1
    first, second = (attempt.timings or {} for attempt in harness.store.jobs.attempts(job_id))
    assert first["bytes_in"] > 0
    assert second.get("bytes_in", 0) == 0


def test_a_retry_after_a_killed_encode_does_not_fetch_again(harness: WorkerHarness, proxy: S3Proxy) -> None:
    harness.sandbox.on_ffmpeg = kill
    job_id = harness.submit(credentials=harness.keys)
    assert harness.await_end(job_id).status == "succeeded"
    assert harness.error_codes(job_id) == ["encode_killed", None]
    assert proxy.count("GET", "clip.mp4") == 1


def test_a_retry_takes_a_replaced_source_as_it_is_now(
    harness: WorkerHarness, proxy: S3Proxy, clip: Path
) -> None:
    source = harness.bucket / "replaced.mp4"
    source.write_bytes(clip.read_bytes())
    fail_first_put(proxy, lambda: source.write_bytes(b"no film any more"))
    job_id = harness.submit("replaced.mp4", credentials=harness.keys)
    harness.await_end(job_id)
    assert harness.error_codes(job_id) == ["storage_throttled", "source_not_media"]


def test_a_retry_needs_credentials_that_may_read_the_source(harness: WorkerHarness, proxy: S3Proxy) -> None:
    """Before the worker uses a kept source, it requests the size and the ETag from the store."""

    def refuse() -> None:
        proxy.answer = lambda _: Reply(403)

    fail_first_put(proxy, refuse)
    job_id = harness.submit(credentials=harness.keys)
    harness.await_end(job_id)
    assert harness.error_codes(job_id) == ["storage_throttled", "source_forbidden"]


@pytest.mark.parametrize("ends", ["failed", "dead_letter", "canceled"])
def test_nothing_is_kept_for_a_job_that_is_not_retried(
    harness: WorkerHarness, proxy: S3Proxy, ends: str
) -> None:
    job_ids: list[str] = []

    def answer(call: Call) -> Reply:
        if call.method != "PUT":
            return proxy.forward(call)
        if ends == "canceled":
            harness.store.control.cancel(job_ids[0])
            harness.worker.lease_keeper.beat()
        return Reply(400 if ends == "failed" else 429)

    proxy.answer = answer
    job_ids.append(harness.submit(credentials=harness.keys, max_attempts=1))
    assert harness.await_end(job_ids[0]).status in (JobStatus.FAILED, JobStatus.DEAD_LETTER)
    assert not any((harness.tools.workdir.path / "kept").glob("*")), "nothing-left: files"
