"""Jobs with invalid options and fields. A real producer adds the jobs, and the test changes their fields."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from tests import engines
from tests.bridges.bridge_process import python_of
from tests.bridges.foreign_sides import QUEUE, BullMqSide, opened_side
from tests.bridges.line_program import LineProgram
from tests.bridges.test_adapters import FAILURE, FINAL, PROGRAM, RESULT, Adapter, Job
from tests.redis_server import RedisServer

KINDS = ("bullmq", "bullmq-postgres")
HUGE = 10**30
# Options that the package cannot use when a job fails, and that it can still retry.
OPTIONS_OF_A_RETRY: list[dict[str, Any]] = [
    {"backoff": {"type": "fixed", "delay": {"a": 1}}},
    {"backoff": {"type": "fixed", "delay": "x"}},
    {"backoff": {"type": "exponential", "delay": None}},
    {"backoff": {"type": "fixed", "delay": HUGE}},
    {"backoff": {"type": [], "delay": 1}},
    {"backoff": {"type": "custom", "delay": HUGE}},
    {"backoff": {"delay": 1}},
    {"backoff": "exponential"},
    {"backoff": [1]},
    {"backoff": HUGE},
    {"backoff": -1},
    {"lifo": {"a": 1}},
    {"stackTraceLimit": "x"},
    {"stackTraceLimit": HUGE},
    {"parent": "x"},
]
NO_COUNTS: tuple[object, ...] = ("x", {}, HUGE, -HUGE)
# Options that the package cannot use when a job ends.
OPTIONS_OF_AN_END: list[dict[str, Any]] = [
    {"attempts": HUGE},
    {"attempts": "x"},
    *({"removeOnFail": keep, "removeOnComplete": keep} for keep in (HUGE, -HUGE, "x", [1])),
    *(
        {"removeOnFail": {name: value}, "removeOnComplete": {name: value}}
        for name in ("age", "count", "limit")
        for value in NO_COUNTS
    ),
    {"failParentOnFailure": HUGE},
    {"fpof": HUGE, "idof": "x"},
    {"failParentOnFailure": True, "removeDependencyOnFailure": True},
]


@dataclass
class Queue:
    """A queue of BullMQ, with its real producer and with an adapter."""

    side: BullMqSide
    adapter: Adapter

    def add(self, **options: Any) -> str:
        """Add a job, and store these options beside those of the producer."""
        job_id = self.side.add(attempts=2)
        if self.side.redis is None:
            with psycopg.connect(str(self.side.fields["url"])) as connection:
                connection.execute(
                    "UPDATE bullmq.job SET opts = opts || %s::jsonb WHERE id = %s",
                    (json.dumps(options), job_id),
                )
        else:
            with self.side.redis.client() as client:
                stored = json.loads(str(client.hget(f"bull:{QUEUE}:{job_id}", "opts")))
            self.set(job_id, "opts", json.dumps({**stored, **options}))
        return job_id

    def set(self, job_id: str, name: str, value: str) -> None:
        assert self.side.redis is not None
        with self.side.redis.client() as client:
            client.hset(f"bull:{QUEUE}:{job_id}", name, value)

    def take(self) -> Job:
        (job,) = self.adapter.take(wait_s=5.0)
        return job

    def has_ended(self, job_id: str, state: str) -> bool:
        """Return whether the job has this state, or is gone."""
        return self.side.state(job_id) in (state, None)


@pytest.fixture(scope="module")
def queues(
    tmp_path_factory: pytest.TempPathFactory, servers: Callable[[str], engines.Engine]
) -> Iterator[Callable[[str], Queue]]:
    """Return a function that returns the empty queue of one kind."""
    opened: dict[str, Queue] = {}
    with ExitStack() as stack:
        redis = stack.enter_context(RedisServer(tmp_path_factory.mktemp("redis")))

        def queue(kind: str) -> Queue:
            if kind not in opened:
                side = stack.enter_context(opened_side(kind, redis, servers))
                assert isinstance(side, BullMqSide)
                program = stack.enter_context(LineProgram(python_of(kind), PROGRAM, []))
                number = program.call("open", kind=kind, **{**side.fields, "lease_ms": 60_000})
                opened[kind] = Queue(side, Adapter(program, number))
                opened[kind].adapter.call("start")
            opened[kind].side.clear()
            return opened[kind]

        yield queue


@pytest.fixture(params=KINDS)
def queue(request: pytest.FixtureRequest, queues: Callable[[str], Queue]) -> Queue:
    return queues(request.param)


@pytest.fixture
def on_redis(queues: Callable[[str], Queue]) -> Queue:
    return queues("bullmq")


@pytest.mark.parametrize("options", OPTIONS_OF_A_RETRY, ids=json.dumps)
def test_options_that_the_package_cannot_use_do_not_prevent_a_retry(
    queue: Queue, options: dict[str, Any]
) -> None:
    job_id = queue.add(**options)
    assert queue.adapter.fail(queue.take(), FAILURE) == "done"
    assert queue.side.state(job_id) in ("delayed", "waiting")


@pytest.mark.parametrize("options", OPTIONS_OF_AN_END, ids=json.dumps)
def test_options_that_the_package_cannot_use_do_not_prevent_an_end(
    queue: Queue, options: dict[str, Any]
) -> None:
    failed = queue.add(**options)
    assert queue.adapter.fail(queue.take(), FINAL) == "done"
    assert queue.has_ended(failed, "failed")
    done = queue.add(**options)
    assert queue.adapter.succeed(queue.take()) == "done"
    assert queue.has_ended(done, "done")


@pytest.mark.parametrize("stacktrace", ["{}", "7", "[", '[1, {"a": NaN}]'])
def test_a_stacktrace_that_is_no_list_of_texts_is_replaced(on_redis: Queue, stacktrace: str) -> None:
    job_id = on_redis.add()
    on_redis.set(job_id, "stacktrace", stacktrace)
    assert on_redis.adapter.fail(on_redis.take(), FINAL) == "done"
    assert on_redis.side.state(job_id) == "failed"


@pytest.mark.parametrize("name", ["timestamp", "priority", "atm"])
def test_a_job_with_an_unreadable_number_fails_with_a_reason(on_redis: Queue, name: str) -> None:
    bad, good = on_redis.add(), on_redis.add()
    on_redis.set(bad, name, str(10**18) if name == "atm" else "yesterday")
    assert [job["job_id"] for job in on_redis.adapter.take(2)] == [good]
    assert on_redis.side.state(bad) == "failed"
    assert on_redis.side.error(bad).startswith(f"unreadable_job: {name}: must be a whole number")


def test_a_value_that_cannot_be_stored_ends_its_job(queue: Queue) -> None:
    """Postgres stores no NUL. Neither backend stores half of a surrogate pair as text."""
    bad, worse, good = (queue.side.add() for _ in range(3))
    jobs = {job["job_id"]: job for job in queue.adapter.take(3)}
    assert queue.adapter.fail(jobs[bad], {**FINAL, "message": "\ud800 \0"}) == "done"
    assert queue.adapter.succeed(jobs[worse], {"job_id": "\0 \ud800"}) == "done"
    assert queue.adapter.succeed(jobs[good], RESULT) == "done"
    assert queue.side.state(bad) == "failed"
    assert queue.side.state(worse) in ("done", "failed")


def test_a_script_that_redis_cannot_finish_is_not_an_outage(on_redis: Queue) -> None:
    """The script that ends a job reads the field `parent`, and fails if the field is not JSON."""
    job_id = on_redis.side.add()
    on_redis.set(job_id, "parent", "{not json")
    assert on_redis.adapter.fail(on_redis.take(), FINAL) == "lost"
