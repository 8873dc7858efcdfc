"""Kill the bridge in each of its crash windows. Each foreign job gets one row, one attempt and one report."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests import engines
from tests.bridges.bridge_process import BridgedInstallation, installed
from tests.bridges.foreign_sides import ForeignSide, opened_side, wait_for_state
from tests.bridges.scripted_worker import claim, succeed
from tests.redis_server import running_redis

WINDOWS = ("before attach", "after attach", "before finish", "after finish")
_LONGEST_S = 0.05  # the longest time from the beginning of a crash window to the kill


@pytest.fixture(params=["bullmq", "omniq", "streams"])
def scene(
    request: pytest.FixtureRequest, servers: Callable[[str], engines.Engine], tmp_path: Path
) -> Iterator[tuple[BridgedInstallation, ForeignSide]]:
    """Yield an installation whose bridge is not started yet, and a queue. Leases last 1 or 2 seconds."""
    kind = str(request.param)
    with ExitStack() as opened:
        database = opened.enter_context(servers("sqlite").fresh())
        redis = opened.enter_context(running_redis(tmp_path))
        side = opened.enter_context(opened_side(kind, redis, servers))
        fields = {"kind": kind, "queue": side.fields["queue"], "lease_ms": 1_000}
        yield opened.enter_context(installed(database, redis.url, **fields)), side


@pytest.mark.parametrize("kills", [2, pytest.param(5, marks=pytest.mark.soak)])
@pytest.mark.parametrize("window", WINDOWS)
def test_a_killed_bridge_makes_one_row_one_attempt_and_one_report(
    scene: tuple[BridgedInstallation, ForeignSide], window: str, kills: int
) -> None:
    installation, side = scene
    draw = random.Random(window)
    with installation.store() as store:
        bridge = installation.start()
        for number in range(1, kills + 1):
            skipped = len(bridge.log)
            job_id = side.add()
            claimed = None
            if window == "before attach":
                wait_for_state(side, job_id, "active")
            elif window == "after attach":
                bridge.await_new_log(('"bridged_job_attached"',), skipped)
            else:
                claimed = claim(store)
                if window == "after finish":
                    succeed(store, claimed)
                    wait_for_state(side, job_id, "done")
            time.sleep(draw.random() * _LONGEST_S)
            bridge.kill()
            if claimed is not None and window == "before finish":
                succeed(store, claimed)
            bridge = installation.start()
            if claimed is None:
                succeed(store, claim(store))
            wait_for_state(side, job_id, "done")
            rows = [store.jobs.get(row.job_id) for row in store.jobs.page()]
            assert [row.attempt_count for row in rows] == [1] * number
            assert side.reports(job_id) == 1
