"""The bridge to BullMQ with a real producer in Node, on a real Redis and on BullMQ's Postgres backend."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from euterpe.bridges.payloads import MOST_TEXT
from euterpe.domain.rows import JobRow
from euterpe.domain.states import JobStatus
from euterpe.store.queue.progress import ProgressReport
from euterpe.store.store import Store
from tests import engines
from tests.bridges.bridge_process import BridgedInstallation, installed
from tests.bridges.node_producer import NodeProducer, producing
from tests.bridges.scripted_worker import FLAKY, NOT_MEDIA, claim, fail, succeed
from tests.redis_server import RedisServer, running_redis
from tests.service.clips import make_clip
from tests.service.installation import Program

DATA = {"source": "https://media.example/a.mov", "videoId": "v-1"}
OUTPUTS = [{"name": "mp4", "url": "s3://out/a/mp4.mp4", "size_bytes": 1}]
BACKENDS = ("redis", "postgres")


@dataclass
class Scene:
    """A foreign queue with its producer, a bridge as a process, and the store of the bridge."""

    producer: NodeProducer
    installation: BridgedInstallation
    bridge: Program
    store: Store
    redis: RedisServer | None

    def rows(self) -> list[JobRow]:
        return [self.store.jobs.get(row.job_id) for row in self.store.jobs.page()]

    def row(self) -> JobRow:
        (row,) = self.rows()
        return row


Open = Callable[[str], Scene]


@pytest.fixture
def scene_on(servers: Callable[[str], engines.Engine], tmp_path: Path) -> Iterator[Open]:
    """Return a function that starts a `Scene` on Redis or on Postgres."""
    with ExitStack() as opened:

        def scene(backend: str) -> Scene:
            database = opened.enter_context(servers("sqlite").fresh())
            redis = None
            if backend == "redis":
                redis = opened.enter_context(running_redis(tmp_path))
                url = redis.url
            else:
                server = servers("postgres")
                assert isinstance(server, engines.Postgres)
                url = opened.enter_context(server.blank()).replace("postgresql+psycopg://", "postgresql://")
            kind = "bullmq" if backend == "redis" else "bullmq-postgres"
            installation = opened.enter_context(installed(database, url, kind=kind))
            producer = opened.enter_context(producing(url))
            bridge = installation.start()
            store = opened.enter_context(installation.store())
            return Scene(producer, installation, bridge, store, redis)

        yield scene


@pytest.fixture(params=BACKENDS)
def scene(request: pytest.FixtureRequest, scene_on: Open) -> Scene:
    return scene_on(str(request.param))


@pytest.fixture
def on_redis(scene_on: Open) -> Scene:
    return scene_on("redis")


def test_a_producer_sees_progress_and_the_outputs(scene: Scene) -> None:
    producer = scene.producer
    job_id = producer.add(DATA)
    claimed = claim(scene.store)
    scene.store.progress.write([ProgressReport(claimed, 41.5)])
    assert producer.wait_for("progress", job_id)[-1]["data"] == 41.5
    succeed(scene.store, claimed)
    (completed,) = producer.wait_for("completed", job_id)
    row = scene.row()
    assert completed["returnvalue"] == {
        "job_id": row.job_id,
        "status": "succeeded",
        "external_id": "v-1",
        "outputs": OUTPUTS,
        "warnings": [],
    }
    assert row.source_ref is not None
    assert row.source_ref.startswith("bullmq:")
    job = producer.job(job_id)
    assert job is not None
    assert (job["state"], int(job["attemptsMade"])) == ("completed", 1)
    assert producer.of("stalled", job_id) == []


def test_attempts_are_paced_by_bullmq_with_its_backoff(scene: Scene) -> None:
    producer = scene.producer
    job_id = producer.add(DATA, attempts=3, backoff={"type": "exponential", "delay": 50})
    for _ in range(2):
        fail(scene.store, claim(scene.store), FLAKY)
    succeed(scene.store, claim(scene.store))
    producer.wait_for("completed", job_id)
    job = producer.job(job_id)
    assert job is not None
    assert (int(job["attemptsMade"]), scene.row().attempt_count) == (3, 3)
    assert len(producer.of("delayed", job_id)) == 2


def test_a_job_fails_when_its_attempts_are_used_up(scene: Scene) -> None:
    producer = scene.producer
    job_id = producer.add(DATA, attempts=2)
    for _ in range(2):
        fail(scene.store, claim(scene.store), FLAKY)
    (failed,) = producer.wait_for("failed", job_id)
    assert failed["failedReason"] == "source_unreachable: it broke"
    producer.wait_for("retries-exhausted", job_id)
    # A retry that the producer requests still works, because the row allows more attempts than the foreign
    # job does.
    producer.call("retry", id=job_id)
    succeed(scene.store, claim(scene.store))
    producer.wait_for("completed", job_id)
    assert len(scene.rows()) == 1


def test_a_permanent_failure_is_not_repeated(scene: Scene) -> None:
    producer = scene.producer
    job_id = producer.add(DATA, attempts=5)
    fail(scene.store, claim(scene.store), NOT_MEDIA)
    (failed,) = producer.wait_for("failed", job_id)
    assert failed["failedReason"] == "source_not_media: not media"
    job = producer.job(job_id)
    assert job is not None
    assert (job["state"], int(job["attemptsMade"])) == ("failed", 1)


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("video-generation", {"script": {}}, "name: no mapping for jobs named 'video-generation'"),
        ("transcode", "text", "data: must be a JSON object"),
        ("transcode", [1], "data: must be a JSON object"),
        ("transcode", {"source": 7}, "source.url: must begin with"),
        ("transcode", {**DATA, "accessKeyId": "hunter2"}, "data.accessKeyId: must not be in the payload"),
        ("transcode", {**DATA, "profile": "hunter2"}, "profile: must be one of audio-aac, h264-480p"),
        ("transcode", {**DATA, "x": "y" * 2**20}, "data: must not have more than 1048576 characters"),
    ],
)
def test_bad_payloads_are_refused_once_with_reasons(
    on_redis: Scene, name: str, data: object, reason: str
) -> None:
    producer = on_redis.producer
    job_id = producer.add(data, name, attempts=5)
    (failed,) = producer.wait_for("failed", job_id)
    assert reason in failed["failedReason"]
    assert "hunter2" not in failed["failedReason"]
    assert on_redis.rows() == []
    job = producer.job(job_id)
    assert job is not None
    assert int(job["attemptsMade"]) == 1
    assert on_redis.bridge.stop() == 0
    assert "hunter2" not in "".join(on_redis.bridge.log)


def test_a_payload_that_is_no_json_is_refused(on_redis: Scene) -> None:
    assert on_redis.redis is not None
    producer = on_redis.producer
    producer.call("pause")
    bad = [producer.add(DATA) for _ in range(3)]
    with on_redis.redis.client() as client:
        for job_id, raw in zip(bad, (b"{not json", b"\xff\xfe{}", b"[" * 100_000), strict=True):
            client.hset(f"bull:video-jobs:{job_id}", "data", raw)
    good = producer.add(DATA)
    producer.call("resume")
    succeed(on_redis.store, claim(on_redis.store))
    producer.wait_for("completed", good)
    for job_id in bad:
        (failed,) = producer.wait_for("failed", job_id)
        assert failed["failedReason"] == "invalid_request: data: must be a JSON object"


def test_a_job_whose_backoff_is_invalid_is_retried_and_is_no_outage(on_redis: Scene) -> None:
    assert on_redis.redis is not None
    producer = on_redis.producer
    producer.call("pause")
    job_id = producer.add(DATA)
    options = {"attempts": 2, "backoff": {"type": "fixed", "delay": {"a": 1}}}
    with on_redis.redis.client() as client:
        client.hset(f"bull:video-jobs:{job_id}", "opts", json.dumps(options))
    producer.call("resume")
    fail(on_redis.store, claim(on_redis.store), FLAKY)
    producer.wait_for("delayed", job_id)
    succeed(on_redis.store, claim(on_redis.store))
    producer.wait_for("completed", job_id)
    assert on_redis.bridge.stop() == 0
    assert "foreign_queue_unavailable" not in "".join(on_redis.bridge.log)


def test_a_job_that_cannot_be_read_fails_once_and_the_log_shows_no_value(on_redis: Scene) -> None:
    assert on_redis.redis is not None
    producer = on_redis.producer
    producer.call("pause")
    job_id = producer.add(DATA, attempts=3)
    with on_redis.redis.client() as client:
        client.hset(f"bull:video-jobs:{job_id}", "timestamp", "hunter2")
    producer.call("resume")
    (failed,) = producer.wait_for("failed", job_id)
    assert failed["failedReason"].startswith("unreadable_job: timestamp: must be a whole number")
    assert on_redis.bridge.stop() == 0
    log = "".join(on_redis.bridge.log)
    assert "bullmq_job_unreadable" in log
    assert "hunter2" not in log


def test_a_payload_that_is_too_large_is_refused_before_it_is_parsed(on_redis: Scene) -> None:
    assert on_redis.redis is not None
    producer = on_redis.producer
    producer.call("pause")
    job_id = producer.add(DATA, attempts=3)
    with on_redis.redis.client() as client:
        client.hset(f"bull:video-jobs:{job_id}", "data", "{not json" + " " * MOST_TEXT)
    producer.call("resume")
    (failed,) = producer.wait_for("failed", job_id)
    assert failed["failedReason"] == (
        "invalid_request: data: must not have more than 4194304 characters of JSON"
    )


def test_priority_delay_and_pause_are_those_of_bullmq(on_redis: Scene) -> None:
    producer, store = on_redis.producer, on_redis.store
    producer.call("pause")
    late = producer.add({**DATA, "videoId": "late"}, delay=300)
    low = producer.add({**DATA, "videoId": "low"}, priority=10)
    high = producer.add({**DATA, "videoId": "high"}, priority=1)
    none = producer.add({**DATA, "videoId": "none"})
    assert store.jobs.page() == []
    producer.call("resume")
    producer.wait_for("active", late)
    for _ in range(4):
        succeed(store, claim(store))
    for job_id in (late, low, high, none):
        producer.wait_for("completed", job_id)
    active = [event["jobId"] for event in producer.events if event["event"] == "active"]
    assert active[:3] == [none, high, low]
    assert {row.external_id: row.priority for row in on_redis.rows()} == {
        "none": 50,
        "late": 50,
        "high": 90,
        "low": 40,
    }


def test_retention_is_that_of_the_producer(scene: Scene) -> None:
    producer = scene.producer
    removed = producer.add(DATA, removeOnComplete=True)
    succeed(scene.store, claim(scene.store))
    producer.wait_for("completed", removed)
    assert producer.job(removed) is None
    for _ in range(2):
        kept = producer.add(DATA, removeOnComplete={"count": 1})
        succeed(scene.store, claim(scene.store))
        producer.wait_for("completed", kept)
    failed = producer.add(DATA, removeOnFail=True)
    fail(scene.store, claim(scene.store), NOT_MEDIA)
    producer.wait_for("failed", failed)
    assert producer.job(failed) is None


def test_a_held_job_never_stalls(scene: Scene) -> None:
    """The lock lasts 2 s. The job is held for 6 s, while the bridge checks for stalled jobs every 2 s."""
    producer = scene.producer
    job_id = producer.add(DATA)
    claimed = claim(scene.store)
    other = producer.add(DATA, delay=6_000)
    producer.wait_for("active", other)
    succeed(scene.store, claimed)
    producer.wait_for("completed", job_id)
    job = producer.job(job_id)
    assert job is not None
    assert (producer.of("stalled", job_id), int(job.get("stalledCounter") or 0)) == ([], 0)


def test_a_stopped_bridge_hands_its_jobs_back_without_an_attempt(scene: Scene) -> None:
    producer = scene.producer
    job_id = producer.add(DATA, attempts=1)
    claimed = claim(scene.store)
    assert scene.bridge.stop() == 0
    scene.installation.start()
    producer.wait_for("active", job_id, 2)
    succeed(scene.store, claimed)
    producer.wait_for("completed", job_id)
    job = producer.job(job_id)
    assert job is not None
    assert (int(job["attemptsMade"]), scene.row().attempt_count) == (1, 1)
    assert producer.of("stalled", job_id) == []
    assert producer.of("failed", job_id) == []


def test_a_removed_queue_leaves_the_row(on_redis: Scene) -> None:
    assert on_redis.redis is not None
    on_redis.producer.add(DATA)
    claimed = claim(on_redis.store)
    with on_redis.redis.client() as client:
        client.flushall()
    succeed(on_redis.store, claimed)
    other = on_redis.producer.add(DATA)
    succeed(on_redis.store, claim(on_redis.store))
    on_redis.producer.wait_for("completed", other)
    assert [row.status for row in on_redis.rows()] == [JobStatus.SUCCEEDED] * 2


def test_redis_is_killed_during_a_job(on_redis: Scene) -> None:
    assert on_redis.redis is not None
    producer = on_redis.producer
    job_id = producer.add(DATA)
    claimed = claim(on_redis.store)
    on_redis.bridge.await_log('"bridged_job_attached"')
    on_redis.redis.kill()
    on_redis.bridge.await_log('"foreign_queue_unavailable"')
    succeed(on_redis.store, claimed)
    on_redis.redis.launch()
    producer.wait_for("completed", job_id)
    row = on_redis.row()
    assert (row.attempt_count, len(producer.of("completed", job_id))) == (1, 1)
    outages = [line for line in on_redis.bridge.log if '"foreign_queue_unavailable"' in line]
    assert len(outages) == 1


def test_the_command_line_knows_a_bridge_that_answers(on_redis: Scene) -> None:
    installation = on_redis.installation
    assert "bullmq 3." in installation.run("bridge", "check").stdout
    assert on_redis.redis is not None
    place = f"Redis at 127.0.0.1:{on_redis.redis.port}"
    on_redis.redis.stop()
    found = installation.run("bridge", "check", "--json", code=1).stdout
    assert f"{place} does not answer" in found
    assert "correct the address in VIDEOS_URL" in found
    assert on_redis.bridge.stop() == 0


def test_a_clip_is_transcoded_for_a_producer_in_node(on_redis: Scene) -> None:
    installation, producer = on_redis.installation, on_redis.producer
    make_clip(installation.media / "clip.mp4", seconds=1, size="320x180")
    worker = installation.start("worker", EUTERPE_WORK_DIR=str(installation.folder))
    job_id = producer.add({"source": f"file://{installation.media}/clip.mp4"})
    (completed,) = producer.wait_for("completed", job_id)
    (output,) = completed["returnvalue"]["outputs"]
    made = installation.media / "out" / job_id / output["url"].rpartition("/")[2]
    assert made.stat().st_size == output["size_bytes"]
    assert producer.of("stalled", job_id) == []
    assert worker.stop() == 0
