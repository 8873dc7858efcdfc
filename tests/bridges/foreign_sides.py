"""The other side of each adapter: a real producer of each foreign queue, behind one interface."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol
from uuid import uuid4

import redis
from redis.exceptions import RedisError

from euterpe.bridges.stream_jobs import TERMINAL, StreamQueue, events_key, job_key
from tests import engines
from tests.bridges import node_producer, omniq_producer
from tests.bridges.line_program import CallFailed
from tests.bridges.node_producer import NodeProducer
from tests.bridges.omniq_producer import OmniqProducer
from tests.bridges.stream_driver import create_job

TIMEOUT_S = 90.0
PAUSE_S = 0.005
QUEUE = "video-jobs"
NAME = "transcode"
DATA = {"type": NAME, "source": "https://media.example/a.mov"}
State = str | None  # waiting, active, delayed, done or failed; None if the job is gone


class RedisAddress(Protocol):
    """A Redis, or a proxy in front of one."""

    @property
    def url(self) -> str: ...

    @property
    def port(self) -> int: ...

    def client(self) -> "redis.Redis": ...


class ForeignSide(Protocol):
    @property
    def kind(self) -> str: ...

    @property
    def retries(self) -> bool:
        """Return whether the foreign queue makes another attempt after a failure."""
        ...

    @property
    def fields(self) -> Mapping[str, Any]:
        """Return the configuration fields of an adapter for this queue."""
        ...

    @property
    def redis(self) -> RedisAddress | None: ...

    def clear(self) -> None:
        """Remove all jobs, including jobs that a bridge holds."""
        ...

    def add(self, data: object = None, *, attempts: int = 1) -> str: ...

    def state(self, job_id: str) -> State: ...

    def error(self, job_id: str) -> str:
        """Return the text of the last failure that was reported."""
        ...

    def reports(self, job_id: str) -> int:
        """Return how many ends of this job were recorded."""
        ...

    def results(self, job_id: str) -> set[str]:
        """Return the Euterpe ids in all recorded results of this job. OmniQ records no results."""
        ...


def wait_for_state(side: ForeignSide, job_id: str, *states: State) -> None:
    """Poll until the job has one of these states, because not every foreign queue has events."""
    deadline = time.monotonic() + TIMEOUT_S
    state: State = None
    while time.monotonic() < deadline:
        try:
            state = side.state(job_id)
        except (CallFailed, RedisError):
            pass  # Redis is restarted
        else:
            if state in states:
                return
        time.sleep(PAUSE_S)
    raise AssertionError(f"the job is {state}, and not {states}")


@contextmanager
def opened_side(
    kind: str, redis: RedisAddress, servers: Callable[[str], engines.Engine]
) -> Iterator[ForeignSide]:
    """Yield the producer's side of a foreign queue, on this Redis or on Postgres."""
    if kind == "streams":
        yield StreamsSide(redis)
    elif kind == "omniq":
        with omniq_producer.producing(redis.port) as producer:
            yield OmniqSide(producer, redis)
    elif kind == "bullmq":
        with node_producer.producing(redis.url) as node:
            yield BullMqSide(kind, node, redis.url, redis)
    else:
        server = servers("postgres")
        assert isinstance(server, engines.Postgres)
        with server.blank() as blank:
            url = blank.replace("postgresql+psycopg://", "postgresql://")
            with node_producer.producing(url) as node:
                yield BullMqSide(kind, node, url, None)


class BullMqSide:
    retries = True

    def __init__(self, kind: str, producer: NodeProducer, url: str, redis: RedisAddress | None) -> None:
        self.kind, self._producer, self.redis = kind, producer, redis
        self.fields = {"url": url, "queue": QUEUE, "lease_ms": 1_000}

    def clear(self) -> None:
        self._producer.call("obliterate")

    def add(self, data: object = None, *, attempts: int = 1) -> str:
        data = DATA if data is None else data
        return self._producer.add(data, NAME, attempts=attempts, backoff={"type": "fixed", "delay": 1})

    def state(self, job_id: str) -> State:
        job = self._producer.job(job_id)
        return None if job is None else {"completed": "done"}.get(job["state"], job["state"])

    def error(self, job_id: str) -> str:
        job = self._producer.job(job_id)
        assert job is not None
        return str(json.loads(job["failedReason"]))

    def reports(self, job_id: str) -> int:
        return sum(event["event"] in ("completed", "failed") for event in self._events(job_id))

    def results(self, job_id: str) -> set[str]:
        ends = (event for event in self._events(job_id) if event["event"] == "completed")
        return {json.loads(event["returnvalue"])["job_id"] for event in ends}

    def _events(self, job_id: str) -> list[dict[str, str]]:
        """Return the events of a job from BullMQ's stream, because the producer sees them a little later."""
        assert self.redis is not None, "only on Redis"
        with self.redis.client() as client:
            events = [event for _, event in client.xrange(f"bull:{QUEUE}:events")]
        return [event for event in events if event.get("jobId") == job_id]


class OmniqSide:
    kind = "omniq"
    retries = True

    def __init__(self, producer: OmniqProducer, redis: RedisAddress) -> None:
        self._producer, self.redis = producer, redis
        self.fields = {"url": redis.url, "queue": QUEUE, "lease_ms": 1_000, "reap_rest_s": 0.0}

    def clear(self) -> None:
        with self.redis.client() as client:
            client.flushall()

    def add(self, data: object = None, *, attempts: int = 1) -> str:
        data = DATA if data is None else data
        # In OmniQ, a lease that expires costs an attempt, so allow one more attempt.
        return self._producer.publish(data, max_attempts=attempts + 1, backoff_ms=1, timeout_ms=200)

    def state(self, job_id: str) -> State:
        state = self._producer.state(job_id)
        return {"completed": "done", "wait": "waiting"}.get(state or "", state)

    def error(self, job_id: str) -> str:
        job = self._producer.job(job_id)
        assert job is not None
        return str(job["last_error"])

    def reports(self, job_id: str) -> int:
        with self.redis.client() as client:
            lists = [client.lrange(f"{{{QUEUE}}}:{end}", 0, -1) for end in ("completed", "failed")]
        return sum(ids.count(job_id) for ids in lists)

    def results(self, job_id: str) -> set[str]:
        del job_id
        return set()


class StreamsSide:
    kind = "streams"
    retries = False

    def __init__(self, redis: RedisAddress) -> None:
        self.redis = redis
        self.fields = {"url": redis.url, "queue": StreamQueue.stream, "lease_ms": 1_000}

    def clear(self) -> None:
        with self.redis.client() as client:
            client.flushall()

    def add(self, data: object = None, *, attempts: int = 1) -> str:
        assert attempts == 1
        payload = json.dumps(DATA if data is None else data)
        return create_job(self.redis.url, str(uuid4()), task=NAME, payload=payload)

    def state(self, job_id: str) -> State:
        words = {"queued": "waiting", "running": "active", "error": "failed"}
        status = self._fields(job_id).get("status")
        return None if status is None else words.get(status, status)

    def error(self, job_id: str) -> str:
        error = json.loads(self._fields(job_id)["error"])
        return f"{error['code']}: {error['message']}"

    def reports(self, job_id: str) -> int:
        with self.redis.client() as client:
            types = [event["type"] for _, event in client.xrange(events_key(job_id))]
        return sum(kind in TERMINAL for kind in types)

    def results(self, job_id: str) -> set[str]:
        result = self._fields(job_id).get("result")
        return {json.loads(result)["job_id"]} if result else set()

    def _fields(self, job_id: str) -> dict[str, str]:
        with self.redis.client() as client:
            return dict(client.hgetall(job_key(job_id)))
