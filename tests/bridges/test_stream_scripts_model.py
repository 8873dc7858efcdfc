"""Run the scripts of the consumers and of the producer on a real Redis, in random orders.

Compare the results with a model.
"""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from redis.asyncio import Redis

from euterpe.bridges.redis_connection import connect
from euterpe.bridges.stream_jobs import StreamJobStatus, StreamQueue, events_key, job_key
from euterpe.bridges.stream_scripts import NewStreamJob, StreamEnd, StreamScripts
from tests.bridges.stream_model import ENDS, TERMINAL, TTL_S, ModelJob
from tests.redis_server import RedisServer

QUEUE, JOB = StreamQueue(), "6c2b5c5e-0000-4000-8000-000000000001"
# Most rules run only while the message is delivered, or while a consumer holds it. At other times, the calls
# of these rules would change nothing.
delivered = precondition(lambda machine: machine.job.is_delivered)
held = precondition(lambda machine: machine.job.holder is not None)
consumers = st.sampled_from(("one", "two"))


class StreamContract(RuleBasedStateMachine):
    """One job, whose scripts run in an order that Hypothesis chooses."""

    url = ""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.redis: Redis = connect(self.url, connections=1)
        self.scripts = {name: StreamScripts(self.redis, QUEUE, name) for name in ("one", "two")}
        self.job = ModelJob()
        self.message = ""
        self.ends: list[str] = []

    def teardown(self) -> None:
        self.call(self.redis.aclose())
        self.loop.close()

    def call(self, answer: Awaitable[Any]) -> Any:
        return self.loop.run_until_complete(answer)

    @initialize()
    def create(self) -> None:
        self.call(self.redis.flushall())
        self.call(self.redis.xgroup_create(QUEUE.stream, QUEUE.group, id="0", mkstream=True))
        self.call(self.scripts["one"].create(NewStreamJob(JOB, "tool", "{}", TTL_S, "key"), 10))
        ((self.message, _),) = self.call(self.redis.xrange(QUEUE.stream))

    @rule()
    def create_again(self) -> None:
        repeated = self.call(self.scripts["one"].create(NewStreamJob("another", "tool", "{}", 60, "key"), 10))
        assert (repeated.job_id, repeated.is_known) == (JOB, True)

    @rule(consumer=consumers)
    def read(self, consumer: str) -> None:
        found = self.call(self.redis.xreadgroup(QUEUE.group, consumer, {QUEUE.stream: ">"}))
        assert bool(found) == self.job.read(consumer)

    @delivered
    @rule(consumer=consumers)
    def reclaim(self, consumer: str) -> None:
        """Reassign the message, as a consumer does if the holder has sent no heartbeat for a whole lease."""
        found = self.call(self.redis.xautoclaim(QUEUE.stream, QUEUE.group, consumer, min_idle_time=0))
        assert bool(found[1]) == self.job.reclaim(consumer)

    @delivered
    @rule(consumer=consumers)
    def running(self, consumer: str) -> None:
        answers = self.call(self.scripts[consumer].running([(self.message, JOB)], 60))
        assert answers == [(self.job.running(consumer), "")]

    @delivered
    @rule(consumer=consumers)
    def heartbeat(self, consumer: str) -> None:
        before = self.deliveries()
        assert self.call(self.scripts[consumer].heartbeat([(self.message, JOB)], 60)) == [
            self.job.heartbeat(consumer)
        ]
        assert self.deliveries() == before

    @held
    @rule(consumer=consumers)
    def progress(self, consumer: str) -> None:
        answer = self.call(self.scripts[consumer].progress(self.message, JOB, "{}", 60))
        assert answer == self.job.progress(consumer)

    @delivered
    @rule(consumer=consumers, status=st.sampled_from(ENDS), result=st.sampled_from(('{"a":1}', '{"a":2}')))
    def finish(self, consumer: str, status: str, result: str) -> None:
        end = StreamEnd(StreamJobStatus(status), result, "", result)
        expected = self.job.finish(consumer, status, result)
        assert self.call(self.scripts[consumer].finish(self.message, JOB, end)) == expected

    @held
    @rule(consumer=consumers)
    def release(self, consumer: str) -> None:
        self.call(self.scripts[consumer].release(self.message, 60))

    @rule(consumer=consumers)
    def retire(self, consumer: str) -> None:
        self.call(self.scripts["one"].retire(consumer, 60))

    @rule()
    def cancel(self) -> None:
        assert self.call(self.scripts["one"].cancel(JOB, "{}", "{}")) == self.job.cancel()

    @held
    @rule()
    def remove(self) -> None:
        self.call(self.redis.delete(job_key(JOB), events_key(JOB)))
        self.job.remove()

    @held
    @rule()
    def trim(self) -> None:
        """Remove the message from the stream, as a producer does that limits the stream's length."""
        self.call(self.redis.xtrim(QUEUE.stream, maxlen=0, approximate=False))
        self.job.is_trimmed = True

    @invariant()
    def redis_is_as_the_model(self) -> None:
        if not self.message:
            return
        fields = self.call(self.redis.hgetall(job_key(JOB)))
        events = [entry["type"] for _, entry in self.call(self.redis.xrange(events_key(JOB)))]
        assert fields.get("status") == self.job.status
        assert fields.get("result", "") == self.job.result
        assert events == self.job.events
        assert len([event for event in events if event in TERMINAL]) == (self.job.status in TERMINAL)
        pending = self.call(self.redis.xpending_range(QUEUE.stream, QUEUE.group, "-", "+", 10))
        assert [row["consumer"] for row in pending] == [self.job.holder] * (self.job.holder is not None)
        # A message is acknowledged only if the job has ended, the hash of the job is missing, or the message
        # was trimmed.
        if self.job.is_acknowledged:
            assert self.job.status in (*TERMINAL, None) or self.job.is_trimmed
        if self.job.status is not None:
            for key in (job_key(JOB), events_key(JOB)):
                assert self.job.ttl_s - 60 < self.call(self.redis.ttl(key)) <= self.job.ttl_s
            assert fields["ttl_s"] == str(self.job.ttl_s)

    def deliveries(self) -> list[int]:
        pending = self.call(self.redis.xpending_range(QUEUE.stream, QUEUE.group, "-", "+", 10))
        return [row["times_delivered"] for row in pending]


def test_every_interleaving_of_the_scripts_is_as_the_model(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StreamContract, "url", redis_server.url)
    run_state_machine_as_test(StreamContract, settings=settings(max_examples=150, stateful_step_count=25))
