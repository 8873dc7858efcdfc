"""Tests of encodes that begin during the fetch of the source.

Such an encode makes the same bytes as an encode of the complete source, or it is discarded.
"""

import json
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from euterpe.domain.rows import JobRow
from euterpe.media.sandbox.child import Child
from euterpe.worker.head_start import HeadStartTimings
from tests.net.servers import Server
from tests.service.slow_source import NOT_STREAMED, STREAMED, held_back, make_source
from tests.service.worker_harness import Gate, S3Proxy, WorkerHarness, run_worker
from tests.storage.fake_stores import Call, Reply

pytest_plugins = ("tests.service.worker_fixtures",)

FILM = {"name": "film", "type": "mp4", "video": {"codec": "h264", "height": 90}}
HLS = {"name": "hls", "type": "hls", "segment_seconds": 2, "video": {"codec": "h264", "ladder": [90]}}
POSTER = {"name": "poster", "type": "image", "at": ["50%"], "format": "jpeg"}
SOUND = {"name": "sound", "type": "m4a"}
LOSSLESS = {"name": "lossless", "type": "flac"}
AT_ONCE = HeadStartTimings(settle_s=0.0, least_gain_s=0.0)


@pytest.fixture(scope="module")
def eager(
    tmp_path_factory: pytest.TempPathFactory, proxy_server: Server, bucket: Path
) -> Iterator[WorkerHarness]:
    """Yield a worker that begins each encode as early as it can."""
    folder = tmp_path_factory.mktemp("eager")
    with run_worker(folder, proxy_server, bucket, head_start_timings=AT_ONCE) as harness:
        yield harness


@pytest.fixture
def gate(eager: WorkerHarness, proxy: S3Proxy) -> Gate:
    """Return a gate that blocks the thread of the encode as soon as ffmpeg has started."""
    del proxy  # the fixture resets the proxy
    gate = Gate()
    eager.sandbox.on_ffmpeg = lambda _: gate.pass_through()
    return gate


def outputs_for(name: str) -> list[dict[str, Any]]:
    return [SOUND, LOSSLESS] if name.startswith("sound") else [FILM, HLS, POSTER]


def submit(harness: WorkerHarness, name: str, **fields: Any) -> str:
    prefix = {"url": f"s3://{harness.bucket.name}/early/{name}/{os.urandom(4).hex()}/"}
    outputs = outputs_for(name)
    return harness.submit(
        name, credentials=harness.keys, output=prefix, outputs=outputs, profile=None, **fields
    )


def checksums(job: JobRow) -> list[tuple[str, str]]:
    return [(one["path"], one["sha256"]) for output in job.outputs or () for one in output["files"]]


def reference(harness: WorkerHarness, proxy: S3Proxy, name: str) -> list[tuple[str, str]]:
    """Return the files of a job whose source was fetched without a delay."""
    proxy.reset()
    job = harness.await_end(submit(harness, name))
    assert job.status == "succeeded", job.last_error
    return checksums(job)


def events_of(logs: Any) -> list[str]:
    wanted = ("encode_begun_early", "early_encode_kept", "head_start_discarded", "early_encode_ended")
    return [entry["event"] for entry in logs if entry["event"] in wanted]


@pytest.mark.parametrize("name", STREAMED)
def test_an_encode_that_begins_early_makes_the_same_bytes(
    eager: WorkerHarness, harness: WorkerHarness, proxy: S3Proxy, gate: Gate, name: str
) -> None:
    make_source(eager.bucket / name, STREAMED[name])
    with capture_logs() as logs, held_back(proxy, name) as go_on:
        job_id = submit(eager, name)
        with gate.held():
            assert eager.store.jobs.get(job_id).status == "fetching", "the rest of the source is held back"
            go_on.set()
        job = eager.await_end(job_id)
    assert job.status == "succeeded", job.last_error
    assert events_of(logs) == ["encode_begun_early", "early_encode_kept"]
    assert checksums(job) == reference(harness, proxy, name)


@pytest.mark.parametrize("name", NOT_STREAMED)
def test_other_sources_are_encoded_when_they_are_here(
    eager: WorkerHarness, proxy: S3Proxy, name: str
) -> None:
    make_source(eager.bucket / name, NOT_STREAMED[name])
    with capture_logs() as logs, held_back(proxy, name) as go_on:
        job_id = submit(eager, name)
        assert not go_on.wait(1.0), "time in which the encode would begin"
        go_on.set()
        job = eager.await_end(job_id)
    assert job.status == "succeeded", job.last_error
    assert events_of(logs) == []


def test_progress_never_falls(eager: WorkerHarness, proxy: S3Proxy, gate: Gate) -> None:
    make_source(eager.bucket / "front.mp4", STREAMED["front.mp4"])
    with held_back(proxy, "front.mp4") as go_on:
        job_id = submit(eager, "front.mp4", webhook_events=["progress", "succeeded"])
        with gate.held():
            go_on.set()
        eager.await_end(job_id)
    events = eager.store.jobs.events(job_id)
    percents = [json.loads(event.payload)["progress"] for event in events if event.type == "job.progress"]
    assert percents == sorted(percents)


def test_a_cancel_stops_an_encode_that_began_early(eager: WorkerHarness, proxy: S3Proxy, gate: Gate) -> None:
    make_source(eager.bucket / "front.mp4", STREAMED["front.mp4"])
    with held_back(proxy, "front.mp4"):
        job_id = submit(eager, "front.mp4")
        with gate.held():
            eager.store.control.cancel(job_id)
            eager.worker.lease_keeper.beat()
        job = eager.await_end(job_id)
    assert (job.status, job.error_code) == ("failed", "canceled")
    assert (job.last_error or {})["phase"] == "fetching"


def test_an_early_encode_that_dies_costs_the_job_nothing(
    eager: WorkerHarness, harness: WorkerHarness, proxy: S3Proxy
) -> None:
    make_source(eager.bucket / "front.mp4", STREAMED["front.mp4"])
    gate = Gate()

    def kill(child: Child) -> None:
        os.kill(child.pid, signal.SIGKILL)
        gate.pass_through()

    eager.sandbox.on_ffmpeg = kill
    with capture_logs() as logs, held_back(proxy, "front.mp4") as go_on:
        job_id = submit(eager, "front.mp4")
        with gate.held():
            go_on.set()
        job = eager.await_end(job_id)
    assert (job.status, job.attempt_count) == ("succeeded", 1)
    assert events_of(logs)[:1] == ["encode_begun_early"]
    assert "early_encode_kept" not in events_of(logs)
    assert checksums(job) == reference(harness, proxy, "front.mp4")


def test_a_fetch_that_fails_publishes_nothing(eager: WorkerHarness, proxy: S3Proxy, gate: Gate) -> None:
    """ffmpeg must not treat the end of the fetch as the end of the film."""
    make_source(eager.bucket / "film.mkv", STREAMED["film.mkv"])
    answers = iter([0.8])

    def break_off(call: Call) -> Reply:
        if call.method != "GET" or not call.path.endswith("film.mkv"):
            return proxy.forward(call)
        share = next(answers, None)
        if share is None:
            return Reply(404, body=b"<Error><Code>NoSuchKey</Code></Error>")
        reply = proxy.forward(call)
        return replace(reply, pause_at=len(reply.body) // 2, until=go_on, sent=int(len(reply.body) * share))

    go_on = threading.Event()
    proxy.answer = break_off
    job_id = submit(eager, "film.mkv", max_attempts=1)
    with gate.held():
        go_on.set()
    job = eager.await_end(job_id)
    assert (job.status, job.error_code) == ("dead_letter", "source_not_found")
    prefix = str(eager.store.jobs.get(job_id).spec["output"]["url"]).removeprefix("s3://").partition("/")[2]
    assert not (eager.bucket / prefix).exists()
