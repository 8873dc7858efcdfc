"""A gateway with API keys: a requester's share of the limits, and revoked keys."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice

from euterpe.bridges.stream_jobs import events_key
from euterpe.gateway.service import GatewayLimits
from tests.bridges.stream_driver import QUEUE, adapter, take_one
from tests.gateway.serving import Frame, GatewayClient, RequesterKeys, detail, serving
from tests.redis_server import RedisServer

MOST_FRAMES = 2_000
Clients = Callable[[str], GatewayClient]


@contextmanager
def keyed(server: RedisServer, limits: GatewayLimits) -> Iterator[tuple[Clients, RequesterKeys]]:
    """Yield a function that returns the client of a requester, and the keys of the gateway."""
    keys = RequesterKeys()
    with serving(server, limits, keys) as gateway, ExitStack() as opened:

        def client_of(requester_id: str) -> GatewayClient:
            client = GatewayClient(server, gateway.url)
            opened.callback(client.http.close)
            client.http.headers["x-api-key"] = requester_id
            return client

        yield client_of, keys


def frames_until_the_end(stream: Iterator[Frame]) -> set[str]:
    """Return the events of the rest of a stream, which must end."""
    found = list(islice(stream, MOST_FRAMES))
    assert len(found) < MOST_FRAMES
    return {frame.event for frame in found}


def test_one_requester_cannot_take_the_whole_backlog(redis_server: RedisServer) -> None:
    with keyed(redis_server, GatewayLimits(max_backlog=6)) as (client_of, _):
        greedy, other = client_of("greedy"), client_of("other")
        ids = [greedy.create() for _ in range(2)]
        assert greedy.post(Idempotency_Key="k").status_code == 200
        answer = greedy.post()
        assert detail(answer, 429, "backpressure") == {"backlog": 3, "max": 3}
        assert answer.headers["retry-after"] == "1"
        assert greedy.post(Idempotency_Key="k").json()["idempotent"]
        for job_id in ids:
            greedy.cancel(job_id)
        detail(greedy.post(), 429, "backpressure")  # the messages of canceled jobs still wait
        other.create()


def test_a_share_is_free_again_when_messages_are_acknowledged(redis_server: RedisServer) -> None:
    async def run(greedy: GatewayClient) -> None:
        async with adapter(redis_server) as taker:
            jobs = [await take_one(taker) for _ in range(2)]
            detail(await asyncio.to_thread(greedy.post), 429, "backpressure")  # pending messages count too
            await taker.succeed(jobs[0], {})
            await asyncio.to_thread(greedy.create)
            detail(await asyncio.to_thread(greedy.post), 429, "backpressure")

    with keyed(redis_server, GatewayLimits(max_backlog=4)) as (client_of, _):
        greedy = client_of("greedy")
        for _ in range(2):
            greedy.create()
        detail(greedy.post(), 429, "backpressure")  # before the first worker connects
        asyncio.run(run(greedy))
        with redis_server.client() as redis:
            redis.delete(QUEUE.stream)
        greedy.create()


def test_many_jobs_of_one_requester_are_counted_right(redis_server: RedisServer) -> None:
    async def run(requester: GatewayClient) -> None:
        async with adapter(redis_server) as taker:
            for _ in range(12):
                await asyncio.to_thread(requester.create)
                await asyncio.to_thread(requester.create)
                for _ in range(2):
                    await taker.succeed(await take_one(taker), {})
        with redis_server.client() as redis:
            (key,) = redis.keys("requester:*")
            assert redis.scard(key) <= 3
            assert redis.ttl(key) > 0

    with keyed(redis_server, GatewayLimits(max_backlog=6)) as (client_of, _):
        asyncio.run(run(client_of("busy")))


def test_without_keys_there_are_no_shares(redis_server: RedisServer) -> None:
    with serving(redis_server, GatewayLimits(max_backlog=4)) as gateway:
        for _ in range(4):
            gateway.create()
        assert detail(gateway.post(), 429, "backpressure")["backlog"] == 4
    with redis_server.client() as redis:
        assert redis.keys("requester:*") == []


def test_one_requester_cannot_take_all_event_streams(redis_server: RedisServer) -> None:
    with keyed(redis_server, GatewayLimits(max_streams=4)) as (client_of, _), ExitStack() as opened:
        greedy, other = client_of("greedy"), client_of("other")
        job_id = greedy.create()
        streams = [opened.enter_context(greedy.events(job_id)) for _ in range(2)]
        with greedy.http.stream("GET", f"/v1/jobs/{job_id}/events") as answer:
            assert answer.status_code == 429
        streams.append(opened.enter_context(other.events(other.create())))
        assert [next(stream).event for stream in streams] == ["hello"] * 3


def test_the_stream_of_a_revoked_key_ends(redis_server: RedisServer) -> None:
    with keyed(redis_server, GatewayLimits(comment_every_s=0.001)) as (client_of, keys):
        job_id = client_of("r1").create()
        with client_of("r1").events(job_id) as stream:
            assert next(stream).event == "hello"
            keys.revoked.add("r1")
            assert frames_until_the_end(stream) <= {"queued", "comment"}


def test_the_stream_of_a_revoked_key_ends_amid_events(redis_server: RedisServer) -> None:
    ended = threading.Event()

    def emit(job_id: str) -> None:
        with redis_server.client() as redis:
            while not ended.wait(0.001):
                redis.xadd(events_key(job_id), {"type": "progress", "ts": "1", "step": "s", "data": "{}"})

    with keyed(redis_server, GatewayLimits(comment_every_s=0.2)) as (client_of, keys):
        job_id = client_of("r1").create()
        emitter = threading.Thread(target=emit, args=(job_id,))
        with client_of("r1").events(job_id) as stream:
            assert next(stream).event == "hello"
            emitter.start()
            try:
                while next(stream).event != "progress":
                    pass
                keys.revoked.add("r1")
                assert frames_until_the_end(stream) <= {"progress", "comment"}
            finally:
                ended.set()
                emitter.join()


def test_a_stream_stays_open_while_keys_cannot_be_checked(redis_server: RedisServer) -> None:
    with keyed(redis_server, GatewayLimits(comment_every_s=0.01)) as (client_of, keys):
        requester = client_of("r1")
        job_id = requester.create()
        with requester.events(job_id) as stream:
            assert next(stream).event == "hello"
            keys.is_down = True
            while next(stream).event != "comment":
                pass
            assert [next(stream).event for _ in range(3)] == ["comment"] * 3
            keys.is_down = False
            requester.cancel(job_id)
            assert list(stream)[-1].event == "canceled"
