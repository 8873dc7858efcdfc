"""The bridge to OmniQ, with OmniQ's real client as producer, on a real Redis."""

import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from euterpe.domain.rows import JobRow
from euterpe.domain.states import JobStatus
from euterpe.store.store import Store
from tests import engines
from tests.bridges.bridge_process import BridgedInstallation, installed
from tests.bridges.omniq_producer import Job, OmniqProducer, producing
from tests.bridges.scripted_worker import FLAKY, NOT_MEDIA, claim, fail, succeed
from tests.redis_server import RedisServer, running_redis
from tests.service.clips import make_clip
from tests.service.installation import Program

ROOT = Path(__file__).parents[2]
DATA = {"type": "transcode", "source": "https://media.example/a.mov", "videoId": "v-1"}
SHORT_MS = 1_500  # a lease that expires while a test still runs


@dataclass
class Scene:
    """A queue with its producer, a bridge as a process, and the store behind it."""

    producer: OmniqProducer
    installation: BridgedInstallation
    bridge: Program
    store: Store
    redis: RedisServer

    def rows(self) -> list[JobRow]:
        return [self.store.jobs.get(row.job_id) for row in self.store.jobs.page()]

    def row(self) -> JobRow:
        (row,) = self.rows()
        return row


@pytest.fixture
def scene(servers: Callable[[str], engines.Engine], tmp_path: Path) -> Iterator[Scene]:
    with ExitStack() as opened:
        database = opened.enter_context(servers("sqlite").fresh())
        redis = opened.enter_context(running_redis(tmp_path))
        installation = opened.enter_context(installed(database, redis.url, kind="omniq"))
        producer = opened.enter_context(producing(redis.port))
        bridge = installation.start()
        yield Scene(producer, installation, bridge, opened.enter_context(installation.store()), redis)


def test_a_published_job_is_acked_when_its_row_has_succeeded(scene: Scene) -> None:
    job_id = scene.producer.publish(DATA)
    claimed = claim(scene.store)
    assert scene.producer.wait_for("active", job_id)["attempt"] == 1
    succeed(scene.store, claimed)
    job = scene.producer.wait_for("completed", job_id)
    row = scene.row()
    assert (job["attempt"], job["last_error"], row.external_id) == (1, "", "v-1")
    assert row.source_ref == f"omniq:video-jobs:{job_id}:{job['created_ms']}"


def test_attempts_are_paced_by_omniq_with_its_backoff(scene: Scene) -> None:
    job_id = scene.producer.publish(DATA, max_attempts=3, backoff_ms=50)
    for _ in range(2):
        fail(scene.store, claim(scene.store), FLAKY)
    succeed(scene.store, claim(scene.store))
    job = scene.producer.wait_for("completed", job_id)
    assert (job["attempt"], scene.row().attempt_count) == (3, 3)
    assert job["last_error"].startswith("source_unreachable: it broke")


def test_a_job_fails_when_its_attempts_are_used_up_and_runs_again_by_hand(scene: Scene) -> None:
    job_id = scene.producer.publish(DATA, max_attempts=2, backoff_ms=10)
    for _ in range(2):
        fail(scene.store, claim(scene.store), FLAKY)
    job = scene.producer.wait_for("failed", job_id)
    assert job["last_error"].startswith("source_unreachable: it broke")
    scene.producer.call("retry_failed", job_id=job_id)
    succeed(scene.store, claim(scene.store))
    scene.producer.wait_for("completed", job_id)
    assert scene.row().attempt_count == 3


def test_a_permanent_failure_is_reported_at_each_delivery_and_runs_once(scene: Scene) -> None:
    job_id = scene.producer.publish(DATA, max_attempts=3, backoff_ms=10)
    fail(scene.store, claim(scene.store), NOT_MEDIA)
    job = scene.producer.wait_for("failed", job_id)
    assert job["last_error"].startswith("source_not_media: not media")
    assert (job["attempt"], scene.row().attempt_count) == (3, 1)


def test_a_canceled_job_does_not_run_again(scene: Scene) -> None:
    job_id = scene.producer.publish(DATA, max_attempts=3, backoff_ms=10)
    scene.bridge.await_log('"bridged_job_attached"')
    scene.store.control.cancel(scene.row().job_id)
    job = scene.producer.wait_for("failed", job_id)
    row = scene.row()
    assert (row.status, row.error_code, row.attempt_count) == (JobStatus.FAILED, "canceled", 0)
    assert (job["attempt"], job["last_error"].partition(":")[0]) == (3, "canceled")


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ({"type": "video-generation"}, "name: no mapping for jobs named 'video-generation'"),
        ({"script": {}}, "name: no mapping for jobs without a name"),
        ([1], "name: no mapping for jobs without a name"),
        ({"type": "transcode", "source": 7}, "source.url: must begin with"),
        ({**DATA, "accessKeyId": "hunter2"}, "data.accessKeyId: must not be in the payload"),
        ({**DATA, "profile": "hunter2"}, "profile: must be one of audio-aac, h264-480p"),
        ({**DATA, "x": "y" * 2_000_000}, "data: must not have more than 1048576 characters"),
        ({**DATA, "x": "y" * 10_000_000}, "data: must not have more than 4194304 characters of JSON"),
    ],
)
def test_bad_payloads_are_refused_with_reasons(scene: Scene, payload: object, reason: str) -> None:
    job_id = scene.producer.publish(payload, max_attempts=1)
    job = scene.producer.wait_for("failed", job_id)
    assert reason in job["last_error"]
    assert "hunter2" not in job["last_error"]
    assert scene.rows() == []
    assert scene.bridge.stop() == 0
    assert "hunter2" not in "".join(scene.bridge.log)


def test_a_refused_job_fails_at_each_of_its_deliveries(scene: Scene) -> None:
    job_id = scene.producer.publish({"type": "x"}, max_attempts=2, backoff_ms=10)
    assert scene.producer.wait_for("failed", job_id)["attempt"] == 2


def test_a_payload_that_is_no_json_is_refused(scene: Scene) -> None:
    scene.producer.call("pause")
    bad = [scene.producer.publish(DATA, max_attempts=1) for _ in range(3)]
    with scene.redis.client() as client:
        for job_id, raw in zip(bad, (b"{not json", b"\xff\xfe{}", b"[" * 100_000), strict=True):
            client.hset(f"{{video-jobs}}:job:{job_id}", "payload", raw)
    good = scene.producer.publish(DATA)
    scene.producer.call("resume")
    succeed(scene.store, claim(scene.store))
    scene.producer.wait_for("completed", good)
    for job_id in bad:
        # Replace the payload, because the producer's client cannot read text that is not UTF-8.
        with scene.redis.client() as client:
            client.hset(f"{{video-jobs}}:job:{job_id}", "payload", "")
        scene.producer.wait_for("failed", job_id)


def test_heartbeats_keep_the_lease_and_do_not_add_up(scene: Scene) -> None:
    """A heartbeat adds `timeout_ms` to the end of the lease. The producer reaps after each heartbeat."""
    job_id = scene.producer.publish(DATA, timeout_ms=SHORT_MS, max_attempts=1)
    claimed = claim(scene.store)
    first = scene.producer.wait_for("active", job_id)
    for renewals in range(1, 5):
        least_ms = first["lock_until_ms"] + renewals * SHORT_MS
        job = scene.producer.wait_until(job_id, partial(_is_locked_until, least_ms))
        assert job["state"] == "active"
        assert job["lock_until_ms"] - job["updated_ms"] <= 2_000 + SHORT_MS
        assert scene.producer.call("reap_expired") == 0
    succeed(scene.store, claimed)
    assert scene.producer.wait_for("completed", job_id)["attempt"] == 1


def _is_locked_until(least_ms: int, job: Job) -> bool:
    return bool(job["lock_until_ms"] >= least_ms)


def test_a_stopped_bridge_hands_its_jobs_back_without_an_attempt(scene: Scene) -> None:
    """In the last attempt, a reap would end the job as failed in OmniQ, although its row is still running."""
    job_id = scene.producer.publish(DATA, max_attempts=1)
    claimed = claim(scene.store)
    assert scene.bridge.stop() == 0
    scene.installation.start().await_log('"bridged_job_attached"')
    succeed(scene.store, claimed)
    job = scene.producer.wait_for("completed", job_id)
    assert (job["attempt"], scene.row().attempt_count) == (1, 1)


def test_a_group_is_held_until_the_ack(scene: Scene) -> None:
    first, second = [scene.producer.publish(DATA, gid="customer-1", group_limit=1) for _ in range(2)]
    other = scene.producer.publish(DATA)
    claimed = [claim(scene.store), claim(scene.store)]
    scene.producer.wait_for("active", first)
    scene.producer.wait_for("active", other)
    assert scene.producer.state(second) == "wait"
    for one in claimed:
        succeed(scene.store, one)
    succeed(scene.store, claim(scene.store))
    for job_id in (first, second, other):
        scene.producer.wait_for("completed", job_id)


def test_a_pause_stops_new_jobs_and_not_those_that_run(scene: Scene) -> None:
    running = scene.producer.publish(DATA)
    claimed = claim(scene.store)
    scene.producer.call("pause")
    waiting = scene.producer.publish(DATA)
    succeed(scene.store, claimed)
    scene.producer.wait_for("completed", running)
    assert scene.producer.state(waiting) == "wait"
    scene.producer.call("resume")
    succeed(scene.store, claim(scene.store))
    scene.producer.wait_for("completed", waiting)


def test_a_delayed_job_is_promoted_when_it_is_due(scene: Scene) -> None:
    job_id = scene.producer.publish(DATA, due_ms=int(time.time() * 1000) + 300)
    assert scene.producer.state(job_id) == "delayed"
    succeed(scene.store, claim(scene.store))
    scene.producer.wait_for("completed", job_id)


def test_a_lost_lease_cancels_nothing_and_the_next_delivery_reports(scene: Scene) -> None:
    far_ms = 10**13
    job_id = scene.producer.publish(DATA, timeout_ms=SHORT_MS, backoff_ms=10**13)
    claimed = claim(scene.store)
    assert scene.producer.call("reap_expired", now_ms_override=far_ms) == 1
    scene.bridge.await_log('"foreign_lease_lost"')
    succeed(scene.store, claimed)
    row = scene.row()
    assert (row.status, row.cancel_requested_at) == (JobStatus.SUCCEEDED, None)
    assert scene.producer.state(job_id) == "delayed"
    assert scene.producer.call("promote_delayed", now_ms_override=4 * far_ms) == 1
    assert scene.producer.wait_for("completed", job_id)["attempt"] == 2
    assert scene.row().attempt_count == 1


def test_an_id_that_is_published_twice_is_one_job_while_it_waits_and_another_one_later(scene: Scene) -> None:
    scene.producer.call("pause")
    for _ in range(2):
        job_id = scene.producer.publish(DATA, job_id="video-1", timeout_ms=SHORT_MS)
    scene.producer.call("resume")
    succeed(scene.store, claim(scene.store))
    scene.producer.wait_for("completed", job_id)
    assert scene.row().attempt_count == 1
    scene.producer.publish(DATA, job_id="video-1")
    succeed(scene.store, claim(scene.store))
    scene.producer.wait_for("completed", job_id)
    assert [row.attempt_count for row in scene.rows()] == [1, 1]


def test_a_flushed_redis_leaves_the_row(scene: Scene) -> None:
    scene.producer.publish(DATA)
    claimed = claim(scene.store)
    with scene.redis.client() as client:
        client.flushall()
    succeed(scene.store, claimed)
    other = scene.producer.publish(DATA)
    succeed(scene.store, claim(scene.store))
    scene.producer.wait_for("completed", other)
    assert [row.status for row in scene.rows()] == [JobStatus.SUCCEEDED] * 2


def test_redis_is_killed_during_a_job(scene: Scene) -> None:
    job_id = scene.producer.publish(DATA)
    claimed = claim(scene.store)
    scene.bridge.await_log('"bridged_job_attached"')
    scene.redis.kill()
    scene.bridge.await_log('"foreign_queue_unavailable"')
    succeed(scene.store, claimed)
    scene.redis.launch()
    scene.producer.wait_for("completed", job_id)
    assert scene.row().attempt_count == 1
    assert len([line for line in scene.bridge.log if '"foreign_queue_unavailable"' in line]) == 1


@pytest.mark.parametrize("outage", ["killed", "frozen"])
def test_an_outage_that_is_longer_than_the_lease_costs_no_attempt(scene: Scene, outage: str) -> None:
    """The bridge extends its expired leases before it reaps, because a reap would end this job as failed."""
    job_id = scene.producer.publish(DATA, timeout_ms=200, max_attempts=1)
    claimed = claim(scene.store)
    job = scene.producer.wait_for("active", job_id)
    if outage == "killed":
        scene.redis.kill()
    else:
        scene.redis.freeze()
    while time.time() * 1000 < job["lock_until_ms"] + 1_000:
        time.sleep(0.05)
    if outage == "killed":
        scene.redis.launch()
    else:
        scene.redis.thaw()
    succeed(scene.store, claimed)
    assert scene.producer.wait_for("completed", job_id)["attempt"] == 1


def test_the_command_line_knows_a_bridge_that_answers(scene: Scene) -> None:
    assert "omniq 4." in scene.installation.run("bridge", "check").stdout
    with scene.redis.client() as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
    assert "set maxmemory-policy noeviction" in scene.installation.run("bridge", "check", code=1).stdout
    scene.redis.stop()
    assert "did not do its work" in scene.installation.run("bridge", "check", code=1).stdout
    assert scene.bridge.stop() == 0


def test_a_clip_is_transcoded_for_a_producer_of_omniq(scene: Scene) -> None:
    media = scene.installation.media
    make_clip(media / "clip.mp4", seconds=1, size="320x180")
    worker = scene.installation.start("worker", EUTERPE_WORK_DIR=str(scene.installation.folder))
    job_id = scene.producer.publish({"type": "transcode", "source": f"file://{media}/clip.mp4"})
    scene.producer.wait_for("completed", job_id)
    (output,) = scene.row().outputs or ()
    assert (media / "out" / job_id / output["url"].rpartition("/")[2]).stat().st_size == output["size_bytes"]
    assert worker.stop() == 0


def test_the_client_is_in_no_extra_and_in_no_lock_of_the_product() -> None:
    """The client is under the GPL: the user installs it, and ci/setup installs it for the tests."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    assert not [name for names in (project["dependencies"], *extras) for name in names if "omniq" in name]
    for lock in ("requirements", "bridges"):
        assert "\nomniq" not in "\n" + (ROOT / "ci" / f"{lock}.lock").read_text()
