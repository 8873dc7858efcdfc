"""Kill the bridge to BullMQ in each of its crash windows: one row, one attempt, one report, each time."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests import engines
from tests.bridges.bridge_process import BridgedInstallation, installed
from tests.bridges.node_producer import NodeProducer, producing
from tests.bridges.scripted_worker import claim, succeed
from tests.redis_server import running_redis

KILLS = 5
DATA = {"source": "https://media.example/a.mov"}
_LONGEST_S = 0.05  # within a window


@pytest.fixture
def scene(
    servers: Callable[[str], engines.Engine], tmp_path: Path
) -> Iterator[tuple[BridgedInstallation, NodeProducer]]:
    """Yield an installation whose bridge is not started yet, and a producer. A lock lasts one second."""
    with ExitStack() as opened:
        database = opened.enter_context(servers("sqlite").fresh())
        redis = opened.enter_context(running_redis(tmp_path))
        installation = opened.enter_context(installed(database, redis.url, lease_ms=1_000))
        yield installation, opened.enter_context(producing(redis.url))


@pytest.mark.parametrize("window", ["before attach", "after attach", "before finish", "after finish"])
def test_a_killed_bridge_makes_one_row_one_attempt_and_one_report(
    scene: tuple[BridgedInstallation, NodeProducer], window: str
) -> None:
    installation, producer = scene
    draw = random.Random(window)
    with installation.store() as store:
        bridge = installation.start()
        for number in range(1, KILLS + 1):
            skipped = len(bridge.log)
            job_id = producer.add(DATA, attempts=1)
            claimed = None
            if window == "before attach":
                producer.wait_for("active", job_id)
            elif window == "after attach":
                bridge.await_new_log(('"bridged_job_attached"',), skipped)
            else:
                claimed = claim(store)
                if window == "after finish":
                    succeed(store, claimed)
                    producer.wait_for("completed", job_id)
            time.sleep(draw.random() * _LONGEST_S)
            bridge.kill()
            if claimed is not None and window == "before finish":
                succeed(store, claimed)
            bridge = installation.start()
            if claimed is None:
                succeed(store, claim(store))
            producer.wait_for("completed", job_id)
            rows = [store.jobs.get(row.job_id) for row in store.jobs.page()]
            assert [row.attempt_count for row in rows] == [1] * number
            job = producer.job(job_id)
            assert job is not None
            assert (job["state"], int(job["attemptsMade"])) == ("completed", 1)
            assert len(producer.of("completed", job_id)) == 1
            assert producer.of("failed", job_id) == []
