"""The conformance suite of the port `ForeignAdapter`: every adapter, with a real producer of its queue."""

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from hashlib import sha1
from pathlib import Path
from typing import Any

import pytest

from tests import engines
from tests.bridges.bridge_process import python_of
from tests.bridges.foreign_sides import DATA, NAME, QUEUE, ForeignSide, opened_side
from tests.bridges.line_program import CallFailed, LineProgram
from tests.redis_proxy import proxied
from tests.redis_server import RedisServer

PROGRAM = Path(__file__).with_name("adapter_program.py")
ON_REDIS = ("bullmq", "omniq", "streams")
KINDS = (*ON_REDIS, "bullmq-postgres")
RESULT = {"job_id": "0190", "outputs": [{"name": "mp4", "url": "s3://out/a.mp4"}]}
FAILURE = {"code": "source_unreachable", "message": "it broke", "retry": True, "mark": "attempt 1"}
FINAL = {"code": "source_not_media", "message": "not media", "retry": False, "mark": "attempt 1"}
# Bytes that identify a command of `take`: one command for each job, or in streams one for all messages.
COMMAND_OF_A_TAKE = {"bullmq": b"lockDuration", "omniq": b"}:job:", "streams": b"\r\njob:"}


def _ack_success_of_omniq() -> bytes:
    """Return the hash by which Redis knows the script `ack_success` of OmniQ's client."""
    (script,) = (Path(sys.prefix) / "omniq").glob("lib/*/site-packages/omniq/core/scripts/ack_success.lua")
    return sha1(script.read_bytes()).hexdigest().encode()  # noqa: S324  Redis uses SHA-1


COMMAND_OF_A_SUCCESS: Mapping[str, Callable[[], bytes]] = {
    "bullmq": lambda: b"returnvalue",
    "omniq": _ack_success_of_omniq,
    "streams": lambda: b"\r\ndone\r\n",
}
Job = dict[str, Any]


class Adapter:
    """An adapter that runs in the program for its kind of queue."""

    def __init__(self, program: LineProgram, number: int) -> None:
        self._program, self._number = program, number

    def call(self, name: str, **fields: Any) -> Any:
        return self._program.call(name, adapter=self._number, **fields)

    def take(self, limit: int = 1, wait_s: float = 0.5) -> list[Job]:
        return list(self.call("take", limit=limit, wait_s=wait_s))

    def take_one(self) -> Job:
        """Repeat `take` until it returns a job, as the loop of a bridge does."""
        while True:
            for job in self.take():
                return job

    def heartbeat(self, *jobs: Job) -> list[str]:
        return list(self.call("heartbeat", jobs=[job["number"] for job in jobs]))

    def succeed(self, job: Job, result: dict[str, Any] | None = None) -> str:
        return str(self.call("succeed", job=job["number"], result=result or RESULT))

    def fail(self, job: Job, failure: dict[str, Any]) -> str:
        return str(self.call("fail", job=job["number"], **failure))

    def release(self, job: Job) -> None:
        self.call("release", job=job["number"])


class Scene:
    """A foreign queue, and adapters that serve it."""

    def __init__(self, side: ForeignSide, program: LineProgram) -> None:
        self.side, self._program = side, program
        self._adapters: list[Adapter] = []

    def adapter(self, **fields: Any) -> Adapter:
        """Open and start an adapter, and return it."""
        opened = self.unstarted(**fields)
        opened.call("start")
        return opened

    def unstarted(self, **fields: Any) -> Adapter:
        number = self._program.call("open", kind=self.side.kind, **{**self.side.fields, **fields})
        self._adapters.append(Adapter(self._program, number))
        return self._adapters[-1]

    def close(self) -> None:
        while self._adapters:
            self._adapters.pop().call("stop")


Open = Callable[[str], Scene]


@pytest.fixture(scope="module")
def own_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis"), fsync="always") as server:
        yield server


@pytest.fixture(scope="module")
def open_scene(own_redis: RedisServer, servers: Callable[[str], engines.Engine]) -> Iterator[Open]:
    """Return a function that opens a scene. All scenes of one kind share a producer and a program."""
    parts: dict[str, tuple[ForeignSide, LineProgram]] = {}
    with ExitStack() as opened:

        def scene(kind: str) -> Scene:
            if kind not in parts:
                program = opened.enter_context(LineProgram(python_of(kind), PROGRAM, []))
                parts[kind] = opened.enter_context(opened_side(kind, own_redis, servers)), program
            side, program = parts[kind]
            side.clear()
            return Scene(side, program)

        yield scene


@pytest.fixture(params=KINDS)
def scene(request: pytest.FixtureRequest, open_scene: Open) -> Iterator[Scene]:
    opened = open_scene(request.param)
    yield opened
    opened.close()


only_on_redis = pytest.mark.parametrize("scene", ON_REDIS, indirect=True)
only_with_stalled_checks = pytest.mark.parametrize("scene", ["bullmq", "bullmq-postgres"], indirect=True)
only_with_retries = pytest.mark.parametrize("scene", ["bullmq", "bullmq-postgres", "omniq"], indirect=True)


def test_the_versions_of_both_sides_are_named(scene: Scene) -> None:
    assert [char for char in scene.unstarted().call("examine") if char.isdigit()]


@only_on_redis
def test_a_redis_that_evicts_jobs_is_named_by_the_check(scene: Scene, own_redis: RedisServer) -> None:
    with own_redis.client() as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        try:
            with pytest.raises(CallFailed, match="set maxmemory-policy noeviction, not allkeys-lru"):
                scene.unstarted().call("examine")
        finally:
            client.config_set("maxmemory-policy", "noeviction")


def test_a_taken_job_has_what_its_producer_has_added(scene: Scene) -> None:
    job_id = scene.side.add(attempts=2 if scene.side.retries else 1)
    job = scene.adapter().take_one()
    assert (job["job_id"], job["name"], job["data"]) == (job_id, NAME, DATA)
    assert job["source_ref"].split(":")[0] in ("bullmq", "omniq", "stream")
    assert job["attempts"] is None or job["attempts"] >= 2
    assert not job["past_failures"]
    assert scene.side.state(job_id) == "active"


def test_a_take_returns_at_most_its_limit_and_each_job_once(scene: Scene) -> None:
    added = [scene.side.add() for _ in range(3)]
    first, second = scene.adapter(), scene.adapter()
    taken = [*first.take(2), *second.take(5)]
    assert sorted(job["job_id"] for job in taken) == sorted(added)
    assert len({job["source_ref"] for job in taken}) == 3
    assert first.take(wait_s=0.01) == []


def test_a_take_waits_for_a_job(scene: Scene) -> None:
    adapter = scene.adapter()
    taken: list[Job] = []
    waiting = threading.Thread(target=lambda: taken.extend(adapter.take(wait_s=60.0)))
    waiting.start()
    job_id = scene.side.add()
    while waiting.is_alive() and not taken:  # in streams, a long take returns early
        waiting.join(timeout=60)
    found = taken or [adapter.take_one()]
    assert found[0]["job_id"] == job_id


def test_a_success_is_recorded_once_although_its_answer_was_lost(scene: Scene) -> None:
    job_id = scene.side.add()
    adapter = scene.adapter()
    job = adapter.take_one()
    assert adapter.succeed(job) == "done"
    assert scene.side.state(job_id) == "done"
    assert adapter.succeed(job) == "done"
    assert scene.adapter().take() == []


def test_a_final_failure_is_recorded_with_its_reason_although_its_answer_was_lost(scene: Scene) -> None:
    job_id = scene.side.add()
    adapter = scene.adapter()
    job = adapter.take_one()
    assert adapter.fail(job, FINAL) == "done"
    assert adapter.fail(job, FINAL) == "done"
    assert scene.side.error(job_id).startswith("source_not_media: not media")
    assert scene.side.state(job_id) != "active"


def test_a_reason_of_any_length_and_in_any_language_is_recorded(scene: Scene) -> None:
    adapter = scene.adapter()
    job_id = scene.side.add()
    assert adapter.fail(adapter.take_one(), {**FINAL, "message": "нет видео " * 2_000}) == "done"
    assert scene.side.error(job_id).startswith("source_not_media: нет видео нет")


@only_with_retries
def test_a_failure_is_repeated_by_the_foreign_queue_with_its_mark(scene: Scene) -> None:
    scene.side.add(attempts=2)
    adapter = scene.adapter()
    first = adapter.take_one()
    assert adapter.fail(first, {**FAILURE, "message": "x" * 10_000}) == "done"
    again = adapter.take_one()
    assert again["source_ref"] == first["source_ref"]
    assert any("attempt 1" in text for text in again["past_failures"])
    assert adapter.succeed(again) == "done"


def test_a_released_job_is_taken_by_another_adapter_without_an_attempt(scene: Scene) -> None:
    job_id = scene.side.add()
    first, second = scene.adapter(), scene.adapter()
    job = first.take_one()
    first.release(job)
    again = second.take_one()
    assert (again["job_id"], again["source_ref"]) == (job_id, job["source_ref"])
    assert not again["past_failures"]
    assert second.heartbeat(again) == ["held"]
    assert second.succeed(again) == "done"
    assert scene.side.state(job_id) == "done"


def test_beats_keep_a_job_from_other_adapters(scene: Scene) -> None:
    """The lease lasts 1 s, or 2 s in OmniQ. Beats keep it for 4 s, while another adapter looks for jobs."""
    scene.side.add()
    holder, other = scene.adapter(), scene.adapter()
    job = holder.take_one()
    for _ in range(20):
        assert holder.heartbeat(job) == ["held"]
        assert other.take(wait_s=0.2) == []
    assert holder.succeed(job) == "done"


def test_the_next_holder_of_a_lost_lease_reports_and_the_first_does_not(scene: Scene) -> None:
    job_id = scene.side.add()
    first, second = scene.adapter(), scene.adapter()
    lost = first.take_one()
    job = second.take_one()  # the lease has expired, because `first` sends no heartbeats
    assert job["source_ref"] == lost["source_ref"]
    assert not job["past_failures"]
    first.call("progress", job=lost["number"], percent=50)
    assert first.succeed(lost, {"of": "first"}) == "lost"
    assert first.fail(lost, FINAL) == "lost"
    first.release(lost)
    assert scene.side.state(job_id) == "active"
    assert second.heartbeat(job) == ["held"]
    assert second.succeed(job, {"of": "second"}) == "done"
    assert scene.side.state(job_id) == "done"


def test_a_lease_that_another_adapter_has_is_lost(scene: Scene) -> None:
    scene.side.add()
    first, second = scene.adapter(), scene.adapter()
    lost = first.take_one()
    job = second.take_one()
    while first.heartbeat(lost) != ["lost"]:
        assert second.heartbeat(job) == ["held"]


def test_the_beats_of_many_jobs_are_answered_in_order(scene: Scene) -> None:
    for _ in range(3):
        scene.side.add()
    first, second = scene.adapter(), scene.adapter()
    jobs = first.take(3)
    first.release(jobs[1])
    taken = second.take_one()
    assert taken["job_id"] == jobs[1]["job_id"]
    assert second.succeed(taken) == "done"
    assert first.heartbeat(jobs[0], jobs[2]) == ["held", "held"]
    assert [first.succeed(job) for job in (jobs[2], jobs[0])] == ["done", "done"]


def test_a_job_that_is_gone_is_reported_as_gone(scene: Scene) -> None:
    job_id = scene.side.add()
    adapter = scene.adapter()
    job = adapter.take_one()
    scene.side.clear()
    adapter.call("progress", job=job["number"], percent=10)
    assert adapter.succeed(job) == "gone"
    assert scene.side.state(job_id) is None
    later = scene.side.add()
    assert adapter.take_one()["job_id"] == later


@pytest.mark.parametrize("data", [[1], "text", 7])
def test_a_payload_that_is_no_object_is_taken_and_never_raises(scene: Scene, data: object) -> None:
    if scene.side.kind == "omniq" and not isinstance(data, list):
        data = [data]  # OmniQ's client publishes no bare text or number
    job_id = scene.side.add(data)
    job = scene.adapter().take_one()
    assert job["job_id"] == job_id
    assert job["data"] is None or job["data"].keys() == {"_raw"}


@only_on_redis
def test_no_call_is_answered_in_an_outage_and_all_are_answered_after_it(
    scene: Scene, own_redis: RedisServer
) -> None:
    job_id = scene.side.add()
    adapter = scene.adapter()
    job = adapter.take_one()
    own_redis.kill()
    try:
        for call in (adapter.take, lambda: adapter.succeed(job), lambda: adapter.release(job)):
            with pytest.raises(CallFailed, match="ForeignUnavailable") as error:
                call()
            assert "redis://" not in str(error.value)
    finally:
        own_redis.launch()
    assert _answered(lambda: adapter.succeed(job)) == "done"
    assert scene.side.state(job_id) == "done"


@only_on_redis
def test_a_take_that_is_interrupted_loses_no_job_that_it_has_taken(
    scene: Scene, own_redis: RedisServer
) -> None:
    """The lease lasts a minute: a job that is taken and forgotten is not delivered again in this test."""
    with proxied(own_redis) as proxy:
        adapter = scene.adapter(url=proxy.url, lease_ms=60_000)
        assert adapter.take(wait_s=0.01) == []  # this take loads the scripts into Redis
        added = [scene.side.add() for _ in range(3)]
        proxy.cut(COMMAND_OF_A_TAKE[scene.side.kind], after=0 if scene.side.kind == "streams" else 1)
        taken: list[Job] = []
        for _ in range(20):
            with contextlib.suppress(CallFailed):
                taken += adapter.take(3, wait_s=0.05)
        assert proxy.cuts == 1
        assert sorted(job["job_id"] for job in taken) == sorted(added)
        assert [adapter.succeed(job) for job in taken] == ["done"] * 3
        scene.close()


@only_on_redis
def test_a_report_whose_answer_was_lost_is_found_and_not_repeated(
    scene: Scene, own_redis: RedisServer
) -> None:
    with proxied(own_redis) as proxy:
        adapter = scene.adapter(url=proxy.url, lease_ms=60_000)
        for loses_answer in (False, True):  # the first job loads the scripts into Redis
            job_id = scene.side.add()
            job = adapter.take_one()
            if loses_answer:
                proxy.lose_answer(COMMAND_OF_A_SUCCESS[scene.side.kind]())
                with pytest.raises(CallFailed, match="ForeignUnavailable"):
                    adapter.succeed(job)
                assert proxy.cuts == 1
                assert scene.side.state(job_id) == "done"
            assert adapter.succeed(job) == "done"
            assert scene.side.reports(job_id) == 1
        assert adapter.take(wait_s=0.01) == []
        scene.close()


@only_on_redis
def test_an_adapter_is_stopped_during_an_outage(scene: Scene, own_redis: RedisServer) -> None:
    scene.side.add()
    scene.adapter().take_one()
    own_redis.kill()
    try:
        scene.close()
    finally:
        own_redis.launch()


@pytest.mark.parametrize("scene", ["omniq", "streams"], indirect=True)
def test_an_adapter_keeps_its_own_lease_that_has_expired(scene: Scene) -> None:
    """After an outage, an adapter that looks for expired leases finds its own first."""
    job_id = scene.side.add()
    adapter = scene.adapter()
    job = adapter.take_one()
    for _ in range(15):
        assert adapter.take(wait_s=0.2) == []  # 3 s without a heartbeat
    assert adapter.heartbeat(job) == ["held"]
    assert adapter.succeed(job) == "done"
    assert scene.side.state(job_id) == "done"


@only_with_stalled_checks
def test_a_bridge_that_takes_its_own_stalled_job_again_keeps_the_new_lock(scene: Scene) -> None:
    scene.side.add()
    adapter = scene.adapter()
    old = adapter.take_one()
    new = adapter.take_one()  # without heartbeats, the job has stalled
    assert new["source_ref"] == old["source_ref"]
    assert adapter.heartbeat(old, new) == ["lost", "held"]
    assert adapter.heartbeat(new, old) == ["held", "lost"]
    assert adapter.heartbeat(new) == ["held"]
    assert adapter.succeed(new) == "done"


@pytest.mark.parametrize("scene", ["bullmq"], indirect=True)
def test_a_job_that_the_package_cannot_read_hinders_no_other_job(
    scene: Scene, own_redis: RedisServer
) -> None:
    bad, good = scene.side.add(), scene.side.add()
    with own_redis.client() as client:
        client.hset(f"bull:{QUEUE}:{bad}", "timestamp", "yesterday")
    adapter = scene.adapter()
    assert [job["job_id"] for job in adapter.take(2)] == [good]


@only_with_stalled_checks
def test_an_unexpected_error_does_not_end_the_check_for_stalled_jobs(scene: Scene) -> None:
    job_id = scene.side.add()
    adapter = scene.adapter()
    adapter.take_one()
    adapter.call("break_stalled_check")
    again = [job for _ in range(12) for job in adapter.take(wait_s=1.0)]
    assert again
    assert again[0]["job_id"] == job_id


@only_on_redis
def test_a_server_that_refuses_the_login_is_named_without_the_password(scene: Scene) -> None:
    url = scene.side.fields["url"].replace("redis://", "redis://nobody:s3cret@")
    with pytest.raises(CallFailed) as error:
        scene.unstarted(url=url).call("start")
    assert "s3cret" not in str(error.value)
    place = url.rpartition("@")[2].partition("/")[0]
    assert f"Redis at {place} refuses the login or a command" in str(error.value)


@only_on_redis
def test_a_database_that_does_not_exist_is_named(scene: Scene) -> None:
    url = scene.side.fields["url"].rpartition("/")[0] + "/99"
    with pytest.raises(CallFailed, match=r"Redis at 127\.0\.0\.1:\d+ .*ResponseError DB"):
        scene.unstarted(url=url).call("start")


@pytest.mark.parametrize("scene", ["omniq"], indirect=True)
def test_a_queue_name_that_the_client_refuses_is_an_error_of_the_set_up(scene: Scene) -> None:
    with pytest.raises(CallFailed, match="BridgeError: bridge videos: queue name"):
        scene.unstarted(queue="a b")


def _answered(call: Callable[[], Any]) -> Any:
    while True:
        try:
            return call()
        except CallFailed as error:
            assert "ForeignUnavailable" in str(error)  # noqa: PT017
