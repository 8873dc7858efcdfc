"""Bridges while Redis is full, silent or slow, or is replaced by a replica that lacks the last writes."""

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import pytest

from euterpe.domain.rows import JobRow
from euterpe.store.store import Store
from tests import engines
from tests.bridges.bridge_process import installed
from tests.bridges.foreign_sides import ForeignSide, opened_side, wait_for_state
from tests.bridges.scripted_worker import claim, succeed
from tests.free_port import free_port
from tests.redis_proxy import RedisProxy, proxied
from tests.redis_server import RedisServer
from tests.service.installation import Program

KINDS = ("bullmq", "omniq", "streams")
_LEASE_S = 1.0  # but a lease of OmniQ lasts 2 s


@dataclass
class Scene:
    """A foreign queue behind a proxy, and a bridge that runs as a process and serves its metrics."""

    side: ForeignSide
    redis: RedisServer
    proxy: RedisProxy
    bridge: Program
    store: Store
    metrics_port: int

    def row(self) -> JobRow:
        (row,) = self.store.jobs.page()
        return self.store.jobs.get(row.job_id)

    def metric(self, name: str) -> float:
        with urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        found = re.search(rf'^euterpe_bridge_{name}{{bridge="videos"}} (\S+)$', text, re.MULTILINE)
        assert found is not None, text
        return float(found[1])

    def count_in_log(self, event: str) -> int:
        return sum(f'"{event}"' in line for line in self.bridge.log)

    def check_one_transcode(self, job_id: str) -> None:
        """Check that the job was transcoded once, and that all its reports have the same result."""
        row = self.row()
        assert row.attempt_count == 1
        assert self.side.results(job_id) <= {row.job_id}


@pytest.fixture(params=KINDS)
def scene(
    request: pytest.FixtureRequest, servers: Callable[[str], engines.Engine], tmp_path: Path
) -> Iterator[Scene]:
    kind = str(request.param)
    with ExitStack() as opened:
        database = opened.enter_context(servers("sqlite").fresh())
        redis = opened.enter_context(RedisServer(tmp_path, fsync="always"))
        proxy = opened.enter_context(proxied(redis))
        side = opened.enter_context(opened_side(kind, proxy, servers))
        fields = {"kind": kind, "queue": side.fields["queue"], "lease_ms": round(_LEASE_S * 1000)}
        installation = opened.enter_context(installed(database, proxy.url, **fields))
        port = free_port()
        bridge = installation.start("bridge", "run", "--metrics-port", str(port))
        yield Scene(side, redis, proxy, bridge, opened.enter_context(installation.store()), port)


def test_a_full_redis_delays_the_report_and_doubles_nothing(scene: Scene) -> None:
    """For longer than the lease, Redis refuses all writes that need memory (policy noeviction)."""
    job_id = scene.side.add()
    claimed = claim(scene.store)
    with scene.redis.client() as client:
        client.config_set("maxmemory", "1")
    if scene.side.kind == "streams":
        succeed(scene.store, claimed)  # heartbeats of streams need no memory, so they do not fail
    scene.bridge.await_log('"foreign_queue_unavailable"')
    assert scene.metric("reachable") == 0
    time.sleep(3 * _LEASE_S)
    if scene.side.kind != "streams":
        succeed(scene.store, claimed)
    with scene.redis.client() as client:
        client.config_set("maxmemory", "0")
    wait_for_state(scene.side, job_id, "done")
    scene.bridge.await_log('"foreign_queue_back"')
    scene.check_one_transcode(job_id)
    assert scene.side.reports(job_id) == 1
    assert scene.metric("outages_total") >= 1
    assert scene.count_in_log("foreign_queue_unavailable") == scene.metric("outages_total")
    assert "OutOfMemoryError" in "".join(scene.bridge.log)


def test_a_redis_that_is_silent_while_a_job_ends_gets_one_report(scene: Scene) -> None:
    """When Redis continues, it carries out the calls that got no answer, and also their repetitions."""
    job_id = scene.side.add()
    claimed = claim(scene.store)
    wait_for_state(scene.side, job_id, "active")
    scene.redis.freeze()
    try:
        succeed(scene.store, claimed)
        scene.bridge.await_log('"foreign_queue_unavailable"')
    finally:
        scene.redis.thaw()
    wait_for_state(scene.side, job_id, "done")
    scene.bridge.await_log('"foreign_queue_back"')
    scene.check_one_transcode(job_id)
    assert scene.side.reports(job_id) == 1


def test_a_slow_redis_costs_no_attempt_and_no_second_report(scene: Scene) -> None:
    """Each answer comes 0.3 s late. A lease lasts 1 s, or 2 s in OmniQ."""
    job_id = scene.side.add()
    claimed = claim(scene.store)
    scene.proxy.delay_s = 0.3
    time.sleep(3 * _LEASE_S)
    succeed(scene.store, claimed)
    wait_for_state(scene.side, job_id, "done")
    scene.proxy.delay_s = 0.0
    scene.check_one_transcode(job_id)
    assert scene.side.reports(job_id) == 1
    assert scene.metric("outages_total") == 0


@pytest.mark.parametrize(
    ("forgotten", "ends"),
    [("the take", "before"), ("the report", "before"), ("the heartbeats", "after")],
)
def test_a_stale_replica_that_is_promoted_costs_no_second_transcode(
    scene: Scene, tmp_path: Path, forgotten: str, ends: str
) -> None:
    """A replica that lacks the last writes takes over. The job is delivered again and attached to its row."""
    (tmp_path / "replica").mkdir()
    with RedisServer(tmp_path / "replica") as replica:
        replica.follow(scene.redis)
        if forgotten == "the take":
            os.kill(scene.bridge.pid, signal.SIGSTOP)
        job_id = scene.side.add()
        claimed = None
        if forgotten != "the take":
            claimed = claim(scene.store)
            wait_for_state(scene.side, job_id, "active")
        replica.lag_from_now(scene.redis)
        os.kill(scene.bridge.pid, signal.SIGCONT)
        claimed = claimed or claim(scene.store)
        if ends == "before":
            succeed(scene.store, claimed)
            wait_for_state(scene.side, job_id, "done")
        scene.redis.kill()
        scene.bridge.await_log('"foreign_queue_unavailable"')
        scene.proxy.switch(replica)
        if ends == "after":
            succeed(scene.store, claimed)
        wait_for_state(scene.side, job_id, "done")
        scene.check_one_transcode(job_id)
        assert scene.metric("outages_total") >= 1
        assert scene.count_in_log("bridged_job_retried") == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_bridge_on_a_redis_that_evicts_jobs_logs_a_warning(
    kind: str, servers: Callable[[str], engines.Engine], own_redis: RedisServer
) -> None:
    with own_redis.client() as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
    with servers("sqlite").fresh() as database, installed(database, own_redis.url, kind=kind) as installation:
        bridge = installation.start()
        warnings = [line for line in bridge.log if "set maxmemory-policy noeviction, not allkeys-lru" in line]
        assert ['"level": "warning"' in line for line in warnings] == [True]
        with own_redis.client() as client:
            client.config_set("maxmemory-policy", "noeviction")
        assert bridge.stop() == 0
        assert "noeviction" not in "".join(installation.start().log)
