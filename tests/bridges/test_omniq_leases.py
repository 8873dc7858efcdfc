"""The leases of OmniQ's adapter in outages and handovers: several adapters on a real Redis."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.bridges.bridge_process import python_of
from tests.bridges.foreign_sides import DATA, QUEUE
from tests.bridges.line_program import CallFailed, LineProgram
from tests.bridges.omniq_producer import OmniqProducer, producing
from tests.bridges.test_adapters import PROGRAM, Adapter
from tests.redis_proxy import proxied
from tests.redis_server import RedisServer

SHORT_MS = 200  # an adapter extends such a lease to at least 2 s
LONG_MS = 600_000
NEVER_S = 3_600.0
RELEASED = f"{{{QUEUE}}}:euterpe:released"


@dataclass
class Scene:
    """A queue with its producer. `program` runs the adapters."""

    redis: RedisServer
    program: LineProgram
    producer: OmniqProducer
    closing: ExitStack

    def adapter(self, *, reap_rest_s: float = 0.0, url: str = "") -> Adapter:
        config = {"url": url or self.redis.url, "queue": QUEUE, "lease_ms": 1_000}
        number = self.program.call("open", kind="omniq", reap_rest_s=reap_rest_s, **config)
        adapter = Adapter(self.program, number)
        adapter.call("start")
        self.closing.callback(adapter.call, "stop")
        return adapter

    def publish(self, timeout_ms: int = SHORT_MS, **options: Any) -> str:
        return self.producer.publish(DATA, timeout_ms=timeout_ms, backoff_ms=1, max_attempts=3, **options)

    def job(self, job_id: str) -> dict[str, Any]:
        job = self.producer.job(job_id)
        assert job is not None
        return job

    def wait_until_expired(self, *job_ids: str) -> None:
        last_ms = max(self.job(job_id)["lock_until_ms"] for job_id in job_ids)
        while time.time() * 1000 <= last_ms + 10:
            time.sleep(0.02)


@pytest.fixture(scope="module")
def own_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis"), fsync="always") as server:
        yield server


@pytest.fixture(scope="module")
def program() -> Iterator[LineProgram]:
    with LineProgram(python_of("omniq"), PROGRAM, []) as opened:
        yield opened


@pytest.fixture(scope="module")
def producer(own_redis: RedisServer) -> Iterator[OmniqProducer]:
    with producing(own_redis.port, QUEUE) as opened:
        yield opened


@pytest.fixture
def scene(own_redis: RedisServer, program: LineProgram, producer: OmniqProducer) -> Iterator[Scene]:
    with own_redis.client() as client:
        client.flushall()
    with ExitStack() as closing:
        yield Scene(own_redis, program, producer, closing)


def test_an_adapter_that_has_just_started_reaps_no_lease(scene: Scene) -> None:
    """Redis may have been down before this start, so the other bridges must extend their leases first."""
    job_id = scene.publish()
    holder = scene.adapter()
    job = holder.take_one()
    scene.wait_until_expired(job_id)
    other = scene.adapter(reap_rest_s=NEVER_S)
    for _ in range(3):
        assert other.take(wait_s=0.5) == []
    assert holder.heartbeat(job) == ["held"]


def test_during_an_outage_a_heartbeat_fails_even_if_no_lease_needs_it(scene: Scene) -> None:
    """Otherwise the bridge would take the heartbeat for an answer, and log the end of the outage."""
    scene.publish(timeout_ms=LONG_MS)
    adapter = scene.adapter()
    job = adapter.take_one()
    scene.redis.kill()
    try:
        with pytest.raises(CallFailed, match="ForeignUnavailable"):
            adapter.take()
        with pytest.raises(CallFailed, match="ForeignUnavailable"):
            adapter.heartbeat(job)
    finally:
        scene.redis.launch()
    assert adapter.heartbeat(job) == ["held"]


def test_while_redis_is_full_a_heartbeat_fails_even_if_no_lease_needs_it(scene: Scene) -> None:
    """A full Redis still answers reads."""
    scene.publish(timeout_ms=LONG_MS)
    adapter = scene.adapter()
    job = adapter.take_one()
    scene.publish()
    with scene.redis.client() as client:
        client.config_set("maxmemory", "1")
        try:
            with pytest.raises(CallFailed, match="ForeignUnavailable"):
                adapter.take()
            with pytest.raises(CallFailed, match="ForeignUnavailable"):
                adapter.heartbeat(job)
        finally:
            client.config_set("maxmemory", "0")
    assert adapter.heartbeat(job) == ["held"]


def test_the_rest_after_an_outage_counts_from_the_first_answer(scene: Scene) -> None:
    """The outage is longer than `rest_s`. Only `other` makes a call during the outage."""
    rest_s = 2.0
    holder, other = scene.adapter(), scene.adapter(reap_rest_s=rest_s)
    bait = scene.publish()
    holder.take_one()
    assert other.take_one()["job_id"] == bait  # `other` reaps
    scene.publish()
    job = holder.take_one()
    scene.redis.kill()
    try:
        with pytest.raises(CallFailed, match="ForeignUnavailable"):
            other.take()
        time.sleep(rest_s + 0.5)  # meanwhile the lease of 2 s expires
    finally:
        scene.redis.launch()
    assert other.take(wait_s=0.0) == []
    assert holder.heartbeat(job) == ["held"]


def test_a_lease_that_expires_during_its_handover_costs_no_attempt(scene: Scene) -> None:
    job_id = scene.publish()
    first, second = scene.adapter(), scene.adapter()
    first.release(first.take_one())
    scene.wait_until_expired(job_id)
    job = second.take_one()
    assert (job["job_id"], scene.job(job_id)["attempt"]) == (job_id, 1)
    assert second.heartbeat(job) == ["held"]
    assert second.succeed(job) == "done"


def test_expired_leases_for_which_there_is_no_room_yet_cost_no_attempt(scene: Scene) -> None:
    added = [scene.publish() for _ in range(3)]
    first, second = scene.adapter(), scene.adapter()
    for job in first.take(3):
        first.release(job)
    scene.wait_until_expired(*added)
    taken = [second.take_one() for _ in added]  # each take has room for one job
    assert sorted(job["job_id"] for job in taken) == sorted(added)
    assert [scene.job(job_id)["attempt"] for job_id in added] == [1, 1, 1]
    assert [second.succeed(job) for job in taken] == ["done"] * 3


def test_handovers_do_not_extend_a_lease_that_is_long_enough(scene: Scene) -> None:
    """Without this rule, each handover would add `timeout_ms` to the end of the lease."""
    job_id = scene.publish(timeout_ms=LONG_MS)
    adapters = [scene.adapter() for _ in range(6)]
    adapters[0].release(adapters[0].take_one())
    lock_until_ms = scene.job(job_id)["lock_until_ms"]
    for adapter in adapters[1:]:
        adapter.release(adapter.take_one())
    assert scene.job(job_id)["lock_until_ms"] == lock_until_ms


def test_a_released_lease_is_adopted_once(scene: Scene) -> None:
    job_id = scene.publish(timeout_ms=LONG_MS)
    first, *others = [scene.adapter() for _ in range(3)]
    first.release(first.take_one())
    (job,) = [job for adapter in (*others, *others) for job in adapter.take(wait_s=0.6)]
    assert (job["job_id"], scene.job(job_id)["attempt"]) == (job_id, 1)


def test_a_released_lease_that_is_no_longer_valid_is_forgotten(scene: Scene) -> None:
    job_id = scene.publish(timeout_ms=LONG_MS)
    holder, other = scene.adapter(), scene.adapter()
    job = holder.take_one()
    with scene.redis.client() as client:
        client.hset(RELEASED, mapping={job_id: "an older lease", "gone": "its lease"})
        assert other.take(wait_s=0.6) == []
        assert client.hgetall(RELEASED) == {}
    assert holder.heartbeat(job) == ["held"]


def test_a_released_job_whose_id_is_published_again_is_the_new_job(scene: Scene) -> None:
    scene.publish(job_id="video-1", timeout_ms=LONG_MS)
    first, second = scene.adapter(), scene.adapter()
    old = first.take_one()
    first.release(old)
    time.sleep(0.005)  # two jobs with the same id must differ in `created_ms`
    scene.publish(job_id="video-1", timeout_ms=LONG_MS)
    new = second.take_one()
    assert (new["job_id"], second.take(wait_s=0.6)) == ("video-1", [])
    assert new["source_ref"] != old["source_ref"]
    assert second.succeed(new) == "done"


def test_no_lease_is_reaped_while_redis_is_full(scene: Scene) -> None:
    """A full Redis refuses heartbeats, but carries out reaps. `other` has no lease to send heartbeats for."""
    job_id = scene.publish()
    holder, other = scene.adapter(), scene.adapter()
    job = holder.take_one()
    with scene.redis.client() as client:
        client.config_set("maxmemory", "1")
        try:
            scene.wait_until_expired(job_id)
            with pytest.raises(CallFailed, match="ForeignUnavailable"):
                holder.heartbeat(job)
            with suppress(CallFailed):
                other.take(wait_s=0.6)
        finally:
            client.config_set("maxmemory", "0")
    assert holder.heartbeat(job) == ["held"]


def test_a_redis_that_was_silent_for_less_than_the_time_limit_is_an_outage(scene: Scene) -> None:
    """No call fails, but the lease of 2 s expires while its heartbeat waits."""
    rest_s = 4.0
    holder, other = scene.adapter(), scene.adapter(reap_rest_s=rest_s)
    bait = scene.publish()
    holder.take_one()
    assert other.take_one()["job_id"] == bait  # `other` reaps
    job_id = scene.publish()
    job = holder.take_one()
    before = scene.job(job_id)
    taking = threading.Thread(target=other.take, kwargs={"wait_s": 3.5})
    taking.start()
    scene.redis.freeze()
    try:
        while time.time() * 1000 <= before["lock_until_ms"] + 200:
            time.sleep(0.02)
    finally:
        scene.redis.thaw()
    taking.join()
    assert holder.heartbeat(job) == ["held"]


def test_a_lease_whose_job_could_not_be_read_is_handed_over_at_a_stop(scene: Scene) -> None:
    job_id = scene.publish(timeout_ms=LONG_MS)
    with proxied(scene.redis) as proxy:
        first = scene.adapter(url=proxy.url)
        proxy.cut(b"}:job:", after=0)
        with pytest.raises(CallFailed, match="ForeignUnavailable"):
            first.take()
        assert scene.job(job_id)["state"] == "active"
        first.call("stop")
    (job,) = scene.adapter().take(wait_s=1.0)
    assert (job["job_id"], scene.job(job_id)["attempt"]) == (job_id, 1)


def test_a_job_that_cannot_be_read_hinders_no_other_job(scene: Scene) -> None:
    bad, good = (scene.publish(timeout_ms=SHORT_MS) for _ in range(2))
    adapter = scene.adapter()
    adapter.call("break_reading", job_id=bad)
    assert adapter.take_one()["job_id"] == good


def test_an_adoption_whose_answer_was_lost_loses_no_lease(scene: Scene) -> None:
    job_id = scene.publish(timeout_ms=LONG_MS)
    first = scene.adapter()
    first.release(first.take_one())
    with proxied(scene.redis) as proxy, ExitStack() as closing:
        second = replace(scene, closing=closing).adapter(url=proxy.url)
        proxy.lose_answer(b"HDEL")
        with pytest.raises(CallFailed, match="ForeignUnavailable"):
            second.take()
        assert proxy.cuts == 1
        (job,) = second.take(wait_s=1.0)
        assert (job["job_id"], scene.job(job_id)["attempt"]) == (job_id, 1)
        assert second.succeed(job) == "done"
