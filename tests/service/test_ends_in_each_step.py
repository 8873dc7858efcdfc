"""Tests of a cancel and of SIGKILL in each step.

2 s after the cancel or the kill, no child runs. No files remain, and a retry makes the same bytes. The tests
wait for the end of each process by its pidfd.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from euterpe.domain.rows import JobRow
from euterpe.domain.spec import parse_spec
from euterpe.domain.states import FINISHED, JobStatus
from euterpe.storage.buckets import LEAST_EARLY
from euterpe.store.engine.wakeup import Topic
from tests.media.sources.cache import ffmpeg
from tests.net.servers import Server
from tests.s3 import S3Server
from tests.service.held_worker import ENCRYPTION
from tests.service.installation import Installation, Program
from tests.service.process_table import ProcessWatch, descendants
from tests.service.worker_harness import (
    TIMEOUT_S,
    EncryptionGate,
    Gate,
    S3Proxy,
    WorkerHarness,
    run_worker,
)
from tests.storage.fake_stores import http_handler

pytest_plugins = ("tests.service.worker_fixtures",)

ROOT = Path(__file__).parents[2]
NO_CHILD_AFTER_S = 2.0
# The worker sends a file of at least this size before its verification. The film of each test is larger.
LEAST_EARLY_BYTES = 1000
Output = dict[str, Any]
FILM: Output = {"name": "film", "type": "mp4", "video": {"codec": "h264", "height": 90}}
HLS: Output = {
    "name": "hls",
    "type": "hls",
    "segment_seconds": 1,
    "video": {"codec": "h264", "ladder": [90]},
}
AES: Output = {"method": "aes-128", "key_url": "https://keys.example/42", "key": "0123456789abcdef" * 2}
LOUD: Output = {"name": "loud", "type": "m4a", "audio": {"loudness": {"target": -16}}}


@dataclass(frozen=True)
class Step:
    """A step in which a test can block an attempt.

    The attempt blocks in a child with `task`, in a `request` to the store (a method and a part of the
    target), or in both at the same time.
    """

    name: str
    task: str = ""
    request: tuple[str, str] | None = None
    phases: tuple[str, ...] = ("processing",)
    outputs: tuple[str, ...] = ("film", "hls")
    is_early: bool = False  # whether the worker sends finished files before their verification


OUTPUTS: dict[str, Output] = {
    "film": FILM,
    "hls": HLS,
    "loud": LOUD,
    "aimed": {**FILM, "name": "aimed", "video": {**FILM["video"], "target": {"vmaf": 80}}},
    "scored": {**FILM, "name": "scored", "measure": ["vmaf"]},
    "copied": {"name": "copied", "type": "mp4", "video": {"copy": "auto"}, "audio": {"copy": "auto"}},
    "titled": {**FILM, "name": "titled", "subtitles": "all"},
    "secret": {**HLS, "name": "secret", "encryption": AES},
    "marked": {**FILM, "name": "marked", "watermark": {"source": {"url": "logo.png"}}},
}
STEPS = (
    Step("fetch", request=("GET", "titled.mp4"), phases=("fetching",)),
    Step("probe", "probe", phases=("fetching", "processing")),
    Step("encode", "ffmpeg"),
    Step("verify", "inspect"),
    Step("package", "read_segments"),
    Step("align", "align_decode_times"),
    Step("upload", request=("PUT", "/film.mp4"), phases=("uploading",)),
    # In the jobs of the next three steps, the first run of ffmpeg is a measurement.
    Step("loudness", "ffmpeg", outputs=("loud",)),
    Step("search", "ffmpeg", outputs=("aimed",)),
    Step("search-score", "read_quality_logs", outputs=("aimed",)),
    # In the job of the next two steps, ffmpeg encodes the film, and also decodes its output to score it.
    Step("loopback", "ffmpeg", outputs=("scored",)),
    Step("score", "read_quality_logs", outputs=("scored",)),
    Step("copy", "ffmpeg", outputs=("copied",)),
    Step("copy-check", "same_samples", outputs=("copied",)),
    Step("subtitles", "subtitles", outputs=("titled",)),
    Step("encryption", ENCRYPTION, outputs=("secret",)),
    Step("watermark-fetch", request=("GET", "logo.png"), phases=("fetching",), outputs=("marked",)),
    Step("watermark-probe", "watermark", phases=("fetching", "processing"), outputs=("marked",)),
    Step("early-upload", "inspect", request=("PUT", "/film.mp4"), outputs=("film",), is_early=True),
)
each_step = pytest.mark.parametrize("step", STEPS, ids=[step.name for step in STEPS])
_SHORT_LEASE = {"EUTERPE_LEASE_TTL_MS": "2000", "EUTERPE_HEARTBEAT_INTERVAL_MS": "400"}


def outputs_of(step: Step, bucket: str) -> list[Output]:
    made = [dict(OUTPUTS[name]) for name in step.outputs]
    for output in made:
        if "watermark" in output:
            output["watermark"] = {"source": {"url": f"s3://{bucket}/logo.png"}}
    return made


def add_sources(bucket: Path) -> None:
    """Put a film and a logo into a bucket.

    The film has two seconds of pictures, sound and subtitles to copy.
    """
    titles = bucket / "titles.srt"
    titles.write_text("1\n00:00:00,200 --> 00:00:00,800\nHello\n")
    picture = "-f lavfi -i testsrc2=size=320x180:rate=25:duration=2"
    sound = "-f lavfi -i sine=frequency=440:duration=2"
    codecs = "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -c:a aac -c:s mov_text"
    ffmpeg(f"{picture} {sound} -i {titles} {codecs} {bucket / 'titled.mp4'}")
    ffmpeg(f"-f lavfi -i color=red:s=64x32 -frames:v 1 {bucket / 'logo.png'}")
    titles.unlink()


def checksums(job: JobRow) -> list[tuple[str, str]]:
    return sorted((one["path"], one["sha256"]) for output in job.outputs or () for one in output["files"])


@contextmanager
def held_at(harness: WorkerHarness, proxy: S3Proxy, step: Step) -> Iterator[list[Gate]]:
    """Yield the gates at which the next attempt is held in this step."""
    gates = [proxy.gate(*step.request)] if step.request else []
    encryption = EncryptionGate.of_process()
    if step.task:
        gates.append(gate := Gate())
        if step.task == ENCRYPTION:
            encryption.call_next(gate.pass_through)
        else:
            harness.sandbox.stop_next(step.task, lambda _: gate.pass_through())
    yield gates
    harness.sandbox.on_child = None
    encryption.call_next(None)


def assert_unpublished(folder: Path, step: Step) -> None:
    """Check that nothing is visible before the upload, and no playlist or manifest during the upload."""
    # `rclone serve s3` stores the parts of an upload in hidden files.
    found = {path.name for path in folder.rglob("[!.]*") if path.is_file()}
    assert not [name for name in found if step.name != "upload" or name.endswith((".m3u8", ".mpd"))]


@pytest.fixture(scope="module")
def expected() -> dict[tuple[str, ...], list[tuple[str, str]]]:
    """Return an empty dictionary, in which tests store the checksums of the first job with these outputs."""
    return {}


@pytest.fixture(scope="session")
def titled(bucket: Path) -> Path:
    """Return the worker's bucket, with the sources of these tests."""
    add_sources(bucket)
    return bucket


@pytest.fixture(scope="module")
def early_worker(
    tmp_path_factory: pytest.TempPathFactory, proxy_server: Server, bucket: Path
) -> Iterator[WorkerHarness]:
    """Yield a worker that sends each finished file early."""
    folder = tmp_path_factory.mktemp("early")
    with run_worker(folder, proxy_server, bucket, least_early_bytes=LEAST_EARLY_BYTES) as harness:
        yield harness


def uninterrupted(
    harness: WorkerHarness, expected: dict[tuple[str, ...], list[tuple[str, str]]], step: Step
) -> list[tuple[str, str]]:
    if step.outputs not in expected:
        outputs = outputs_of(step, harness.bucket.name)
        job_id = harness.submit("titled.mp4", credentials=harness.keys, outputs=outputs)
        job = harness.await_end(job_id)
        assert job.status == "succeeded", job.last_error
        expected[step.outputs] = checksums(job)
    return expected[step.outputs]


def await_no_child(harness: WorkerHarness, within_s: float) -> None:
    """Wait until the worker has no child.

    If the blocked child has already ended, the worker starts another child, so check again after each end.
    """
    deadline = monotonic() + within_s
    while pids := harness.sandbox.children():
        with closing(ProcessWatch()) as children:
            children.watch(pids)
            children.await_the_end(deadline - monotonic())


@each_step
def test_a_cancel_leaves_nothing_and_a_retry_makes_the_same_bytes(
    request: pytest.FixtureRequest,
    titled: Path,
    proxy: S3Proxy,
    expected: dict[tuple[str, ...], list[tuple[str, str]]],
    step: Step,
) -> None:
    harness: WorkerHarness = request.getfixturevalue("early_worker" if step.is_early else "harness")
    whole, prefix = uninterrupted(harness, expected, step), f"canceled-{step.name}"
    output = {"url": f"s3://{titled.name}/{prefix}/"}
    with held_at(harness, proxy, step) as gates:
        outputs = outputs_of(step, titled.name)
        job_id = harness.submit("titled.mp4", credentials=harness.keys, output=output, outputs=outputs)
        with ExitStack() as held:
            for gate in gates:
                held.enter_context(gate.held())
            harness.store.control.cancel(job_id)
            harness.worker.lease_keeper.beat()
        await_no_child(harness, NO_CHILD_AFTER_S)
        job = harness.await_end(job_id)
    assert (job.status, job.error_code) == ("failed", "canceled")
    assert (job.last_error or {})["phase"] in step.phases
    assert harness.sandbox.children() == [], "nothing-left: processes"
    assert_unpublished(harness.bucket / prefix, step)
    harness.store.control.retry(job_id)
    again = harness.await_status(job_id, JobStatus.SUCCEEDED)
    assert checksums(again) == whole


@pytest.fixture
def proxied(installation: Installation) -> Iterator[S3Proxy]:
    """Yield a proxy in front of the installation's object store."""
    proxy = S3Proxy(installation.s3)
    with Server(http_handler(proxy)) as server:
        installation.environ["EUTERPE_STORAGE_ENDPOINTS"] += f",http://{server.pair}"
        yield proxy


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
@each_step
def test_a_killed_worker_leaves_no_child_and_the_retry_makes_the_same_bytes(
    installation: Installation, proxied: S3Proxy, s3: S3Server, step: Step
) -> None:
    prefix = f"killed-{step.name}-{os.urandom(4).hex()}"
    endpoint = installation.environ["EUTERPE_STORAGE_ENDPOINTS"].rpartition(",")[2]
    request = installation.request(
        "titled.mp4",
        credentials=s3.document(endpoint=endpoint),
        outputs=outputs_of(step, "media"),
        profile=None,
    )
    add_sources(s3.folder / "media")
    published = s3.folder / "media" / prefix
    gate = proxied.gate(*step.request) if step.request else None
    with installation.store() as store:
        spec = parse_spec({**request, "output": {"url": f"s3://media/{prefix}/"}})
        job_id = store.submit(spec, installation.requester_id).result(TIMEOUT_S).job_id
        orphans = ProcessWatch()
        held = hold(installation, step)
        try:
            with ExitStack() as stopped:
                if gate is not None:
                    stopped.enter_context(gate.held())
                if step.task:
                    await_held(held)
                orphans.watch(descendants(held.pid))
                held.kill()
                assert orphans.await_the_end(NO_CHILD_AFTER_S) >= 1, "the fork server at least"
        finally:
            orphans.close()
            if held.is_running:
                held.kill()
        assert_unpublished(published, step)
        second = installation.start("worker", **_SHORT_LEASE)
        second.await_log("job_succeeded", timeout_s=120)
        job = store.jobs.get(job_id)
        again = parse_spec({**request, "output": {"url": f"s3://media/{prefix}-again/"}})
        other_id = store.submit(again, installation.requester_id).result(TIMEOUT_S).job_id
        with closing(store.database.listen(Topic.INBOX)) as commits:
            while (other := store.jobs.get(other_id)).status not in FINISHED:
                assert commits.wait(TIMEOUT_S)
        assert second.stop() == 0
    assert (job.status, other.status) == ("succeeded", "succeeded")
    assert checksums(job) == checksums(other)
    assert installation.leftovers() == []


def await_held(worker: Program) -> None:
    """Wait until the worker blocks. Kill it after TIMEOUT_S: a worker that does not block prints no line."""
    too_late = threading.Timer(TIMEOUT_S, worker.kill)
    too_late.start()
    try:
        while not (line := worker.stdout_line()).startswith("held "):
            assert line, "the worker has ended: " + "".join(worker.log[-20:])
    finally:
        too_late.cancel()


def hold(installation: Installation, step: Step) -> Program:
    """Start a worker that blocks in this step of its first job."""
    least_early = LEAST_EARLY_BYTES if step.is_early else LEAST_EARLY
    environ = {**installation.environ, **_SHORT_LEASE, "PYTHONPATH": str(ROOT)}
    arguments = (step.task or "none", str(least_early))
    return Program(arguments, environ, installation.folder, module=("tests.service.held_worker",))
