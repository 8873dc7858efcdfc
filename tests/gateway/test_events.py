"""GET /v1/jobs/{id}/events: server-sent events of a job."""

import asyncio
import json

from euterpe.bridges.adapter import ForeignFailure
from euterpe.bridges.stream_jobs import events_key
from euterpe.gateway.service import GatewayLimits
from tests.bridges.stream_driver import adapter, expire_now, take_one
from tests.gateway.serving import GatewayClient, detail, serving
from tests.redis_server import RedisServer


def finish(gateway: GatewayClient, *percents: float, fails: bool = False) -> None:
    """Take the next job, report its progress, and end the job, as a bridge does."""

    async def run() -> None:
        async with adapter(gateway.server) as taker:
            job = await take_one(taker)
            for percent in percents:
                await taker.progress(job, percent)
            if fails:
                await taker.fail(job, ForeignFailure("decode_failed", "no frame", retry=False))
            else:
                await taker.succeed(job, {"outputs": []})

    asyncio.run(run())


def test_a_stream_has_hello_and_every_event_and_ends_after_the_last(gateway: GatewayClient) -> None:
    job_id = gateway.create()
    with gateway.events(job_id) as stream:
        hello, queued = next(stream), next(stream)
        assert (hello.event, hello.json["job_id"], hello.id) == ("hello", job_id, None)
        assert (queued.event, queued.json["step"], queued.json["data"]) == ("queued", "gateway.enqueue", {})
        finish(gateway, 10, 50)
        rest = list(stream)
    assert [frame.event for frame in rest] == ["running", "progress", "progress", "done"]
    assert rest[1].json["data"] == {"percent": 10}
    assert rest[-1].json.keys() == {"id", "type", "ts", "step", "data"}
    assert (rest[-1].json["type"], rest[-1].json["data"]) == ("done", {"outputs": []})
    assert [frame.id for frame in rest] == [frame.json["id"] for frame in rest]


def test_a_stream_ends_with_error_and_with_canceled(gateway: GatewayClient) -> None:
    failed = gateway.create()
    finish(gateway, fails=True)
    canceled = gateway.create()
    gateway.cancel(canceled)
    for job_id, last in ((failed, "error"), (canceled, "canceled")):
        with gateway.events(job_id) as stream:
            *_, frame = stream
        assert frame.event == last


def test_a_client_goes_on_after_the_last_event_that_it_has(gateway: GatewayClient) -> None:
    job_id = gateway.create()
    with gateway.events(job_id) as stream:
        next(stream)
        queued = next(stream)
    finish(gateway, 10)
    with gateway.events(job_id, after=queued.id) as stream:
        events = list(stream)
    assert [frame.event for frame in events] == ["hello", "running", "progress", "done"]
    headers = {"last-event-id": str(events[-1].id)}
    assert gateway.http.get(f"/v1/jobs/{job_id}/events", headers=headers).status_code == 204
    with gateway.events(job_id, after="nonsense") as stream:
        assert len(list(stream)) == 5


def test_a_late_client_of_a_watched_job_gets_all_events(gateway: GatewayClient) -> None:
    job_id = gateway.create()
    with gateway.events(job_id) as first:
        assert [next(first).event for _ in range(2)] == ["hello", "queued"]
        with gateway.events(job_id) as second:
            assert [next(second).event for _ in range(2)] == ["hello", "queued"]
            finish(gateway, 10)
            expected = ["running", "progress", "done"]
            assert [frame.event for frame in first] == expected
            assert [frame.event for frame in second] == expected


def test_a_quiet_stream_has_comments(redis_server: RedisServer) -> None:
    with serving(redis_server, GatewayLimits(comment_every_s=0.01)) as gateway:
        job_id = gateway.create()
        with gateway.events(job_id) as stream:
            seen = [next(stream).event for _ in range(5)]
        assert seen.count("comment") >= 3
        assert [event for event in seen if event != "comment"] in (["hello"], ["hello", "queued"])


def test_an_expired_stream_ends_with_an_error(redis_server: RedisServer) -> None:
    with serving(redis_server, GatewayLimits(check_every_s=0, comment_every_s=0.01)) as gateway:
        job_id, kept = gateway.create(), gateway.create()
        with gateway.events(job_id) as stream:
            assert next(stream).event == "hello"
            expire_now(redis_server, job_id)
            finish(gateway, 1)  # an event of another job ends the blocking read
            with gateway.events(kept):
                *_, last = stream
        assert (last.event, last.json["data"]["code"], last.id) == ("error", "expired", None)


def test_a_job_without_events_ends_with_an_error(gateway: GatewayClient) -> None:
    job_id = gateway.create()
    with gateway.server.client() as redis:
        redis.delete(events_key(job_id))
    with gateway.events(job_id) as stream:
        assert [frame.event for frame in stream] == ["hello", "error"]


def test_a_stream_above_the_limit_is_refused_before_its_response(redis_server: RedisServer) -> None:
    with serving(redis_server, GatewayLimits(max_streams=2)) as gateway:
        job_id = gateway.create()
        path = f"/v1/jobs/{job_id}/events"
        with gateway.events(job_id) as first, gateway.events(job_id) as second:
            assert [next(stream).event for stream in (first, second)] == ["hello", "hello"]
            for _ in range(3):  # a refused stream takes no place
                answer = gateway.http.get(path)
                detail(answer, 429, "too_many_streams")
                assert answer.headers["retry-after"] == "5"
            gateway.cancel(job_id)
            assert [list(stream)[-1].event for stream in (first, second)] == ["canceled", "canceled"]
        for _ in range(1_000):  # the gateway may count a stream for a moment after its last frame
            if "euterpe_gateway_event_streams 0.0" in gateway.http.get("/metrics").text:
                break
        assert gateway.http.get(path).status_code == 200


def test_events_of_other_writers_cannot_break_the_frames(gateway: GatewayClient) -> None:
    job_id = gateway.create()
    with gateway.server.client() as redis:
        redis.xadd(events_key(job_id), {"type": "odd\ndata: x", "ts": "soon", "data": "{broken"})
        redis.xadd(events_key(job_id), {"other": "field"})
        redis.xadd(events_key(job_id), {"type": "done", "data": json.dumps("a\u2028b\nc")})
    with gateway.events(job_id) as stream:
        _, _, odd, message, done = stream
    assert (odd.event, odd.json["data"], odd.json["ts"]) == ("odd", {"_raw": "{broken"}, 0)
    assert (message.event, message.json["data"]) == ("message", None)
    assert done.json["data"] == "a\u2028b\nc"
