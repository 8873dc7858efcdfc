"""Kill the bridge in each of its crash windows: one row, one attempt, one report, each time."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest

from tests import engines
from tests.bridges import node_producer, omniq_producer
from tests.bridges.bridge_process import BridgedInstallation, installed
from tests.bridges.scripted_worker import claim, succeed
from tests.redis_server import RedisServer, running_redis

KILLS = 5
DATA = {"source": "https://media.example/a.mov"}
WINDOWS = ("before attach", "after attach", "before finish", "after finish")
_LONGEST_S = 0.05  # within a window


class KilledQueue(Protocol):
    """A foreign queue with a real producer."""

    def add(self) -> str: ...

    def wait_until_taken(self, job_id: str) -> None: ...

    def wait_until_completed(self, job_id: str) -> None: ...

    def check(self, job_id: str) -> None:
        """Check that the job was reported once, and never as failed."""
        ...


class BullMq:
    def __init__(self, producer: node_producer.NodeProducer) -> None:
        self._producer = producer

    def add(self) -> str:
        return self._producer.add(DATA, attempts=1)

    def wait_until_taken(self, job_id: str) -> None:
        self._producer.wait_for("active", job_id)

    def wait_until_completed(self, job_id: str) -> None:
        self._producer.wait_for("completed", job_id)

    def check(self, job_id: str) -> None:
        job = self._producer.job(job_id)
        assert job is not None
        assert (job["state"], int(job["attemptsMade"])) == ("completed", 1)
        assert len(self._producer.of("completed", job_id)) == 1
        assert self._producer.of("failed", job_id) == []


class Omniq:
    """A queue of OmniQ, whose jobs have attempts for the leases that run out."""

    def __init__(self, producer: omniq_producer.OmniqProducer, redis: RedisServer) -> None:
        self._producer, self._redis = producer, redis

    def add(self) -> str:
        payload = {**DATA, "type": "transcode"}
        return self._producer.publish(payload, timeout_ms=200, max_attempts=2, backoff_ms=1)

    def wait_until_taken(self, job_id: str) -> None:
        self._producer.wait_for("active", job_id)

    def wait_until_completed(self, job_id: str) -> None:
        self._producer.wait_for("completed", job_id)

    def check(self, job_id: str) -> None:
        job = self._producer.job(job_id)
        assert job is not None
        assert (job["state"], job["last_error"]) == ("completed", "")
        with self._redis.client() as client:
            assert client.lrange("{video-jobs}:completed", 0, -1).count(job_id) == 1
            assert client.lrange("{video-jobs}:failed", 0, -1) == []


@pytest.fixture(params=["bullmq", "omniq"])
def scene(
    request: pytest.FixtureRequest, servers: Callable[[str], engines.Engine], tmp_path: Path
) -> Iterator[tuple[BridgedInstallation, KilledQueue]]:
    """Yield an installation whose bridge is not started yet, and a queue. Leases last 1 or 2 seconds."""
    with ExitStack() as opened:
        database = opened.enter_context(servers("sqlite").fresh())
        redis = opened.enter_context(running_redis(tmp_path))
        installation = opened.enter_context(
            installed(database, redis.url, kind=request.param, lease_ms=1_000)
        )
        if request.param == "bullmq":
            yield installation, BullMq(opened.enter_context(node_producer.producing(redis.url)))
        else:
            yield installation, Omniq(opened.enter_context(omniq_producer.producing(redis.port)), redis)


@pytest.mark.parametrize("window", WINDOWS)
def test_a_killed_bridge_makes_one_row_one_attempt_and_one_report(
    scene: tuple[BridgedInstallation, KilledQueue], window: str
) -> None:
    installation, queue = scene
    draw = random.Random(window)
    with installation.store() as store:
        bridge = installation.start()
        for number in range(1, KILLS + 1):
            skipped = len(bridge.log)
            job_id = queue.add()
            claimed = None
            if window == "before attach":
                queue.wait_until_taken(job_id)
            elif window == "after attach":
                bridge.await_new_log(('"bridged_job_attached"',), skipped)
            else:
                claimed = claim(store)
                if window == "after finish":
                    succeed(store, claimed)
                    queue.wait_until_completed(job_id)
            time.sleep(draw.random() * _LONGEST_S)
            bridge.kill()
            if claimed is not None and window == "before finish":
                succeed(store, claimed)
            bridge = installation.start()
            if claimed is None:
                succeed(store, claim(store))
            queue.wait_until_completed(job_id)
            rows = [store.jobs.get(row.job_id) for row in store.jobs.page()]
            assert [row.attempt_count for row in rows] == [1] * number
            queue.check(job_id)
