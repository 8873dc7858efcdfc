"""POST /v1/jobs, GET /v1/jobs/{id} and POST /v1/jobs/{id}/cancel."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest

from euterpe.bridges.adapter import ForeignFailure, ForeignLease
from euterpe.bridges.stream_jobs import TASKS, events_key, job_key
from euterpe.gateway.service import GatewayLimits
from tests.bridges.stream_driver import QUEUE, adapter, take_one
from tests.gateway.serving import JOB, GatewayClient, detail, serving
from tests.redis_server import RedisServer


def test_a_job_is_a_hash_an_event_and_a_message(gateway: GatewayClient) -> None:
    answer = gateway.post()
    assert (answer.status_code, answer.json().keys()) == (200, {"job_id"})
    job_id = answer.json()["job_id"]
    assert str(UUID(job_id)) == job_id
    fields = gateway.redis.fields(job_id)
    assert fields.keys() == {
        *("job_id", "task", "payload", "status", "created_ts", "updated_ts", "ttl_s", "result", "error")
    }
    assert (fields["job_id"], fields["task"], fields["status"]) == (job_id, "tool", "queued")
    assert json.loads(fields["payload"]) == JOB["payload"]
    assert (fields["ttl_s"], fields["result"], fields["error"]) == ("3600", "", "")
    (event,) = gateway.redis.events(job_id)
    assert (event["type"], event["step"], event["data"]) == ("queued", "gateway.enqueue", "{}")
    assert abs(int(event["ts"]) - int(fields["created_ts"])) < 1000
    with gateway.server.client() as redis:
        ((_, message),) = redis.xrange(QUEUE.stream)
        assert message == {"job_id": job_id, "task": "tool", "payload": fields["payload"]}
        assert 3590 < redis.ttl(job_key(job_id)) <= 3600
        assert 3590 < redis.ttl(job_key(job_id) + ":events") <= 3600


@pytest.mark.parametrize("task", TASKS)
def test_every_task_of_the_contract_is_valid(gateway: GatewayClient, task: str) -> None:
    assert gateway.get(gateway.create(task=task))["task"] == task


def test_a_job_is_read_with_numbers_and_objects(gateway: GatewayClient) -> None:
    job_id = gateway.create(ttl_s=60)
    job = gateway.get(job_id)
    assert (job["payload"], job["result"], job["error"], job["ttl_s"]) == (JOB["payload"], None, None, 60)
    assert isinstance(job["created_ts"], int)

    async def run() -> None:
        async with adapter(gateway.server) as taker:
            await taker.succeed(await take_one(taker), {"outputs": [1]})

    asyncio.run(run())
    job = gateway.get(job_id)
    assert (job["status"], job["result"], job["error"]) == ("done", {"outputs": [1]}, None)


def test_json_of_others_that_is_broken_is_shown_raw(gateway: GatewayClient) -> None:
    job_id = gateway.create()
    with gateway.server.client() as redis:
        redis.hset(job_key(job_id), mapping={"payload": "{broken", "ttl_s": "soon"})
    assert (gateway.get(job_id)["payload"], gateway.get(job_id)["ttl_s"]) == ({"_raw": "{broken"}, "soon")


@pytest.mark.parametrize("ttl_s", [None, 0, -5])
def test_without_a_ttl_the_default_holds(gateway: GatewayClient, ttl_s: int | None) -> None:
    assert gateway.get(gateway.create(ttl_s=ttl_s))["ttl_s"] == 3600


@pytest.mark.parametrize(
    ("document", "where"),
    [
        ({"task": "video", "payload": {}}, [["task"]]),
        ({"payload": []}, [["task"], ["payload"]]),
        ({"task": "tool", "payload": {}, "ttl_s": 10**9}, [["ttl_s"]]),
        ({"task": "tool", "payload": {"a": "\ud800"}}, [["payload"]]),
        ([], [[]]),
    ],
)
def test_an_invalid_request_is_refused_with_all_errors(
    gateway: GatewayClient, document: Any, where: list[list[str]]
) -> None:
    answer = gateway.http.post(
        "/v1/jobs", content=json.dumps(document), headers={"content-type": "application/json"}
    )
    assert [error["loc"] for error in detail(answer, 422, "invalid_request")] == where
    assert "video" not in answer.text


@pytest.mark.parametrize("body", [b"{", b"\xff", b'{"a":NaN}', b"[" * 200_000])
def test_a_body_that_is_no_json_is_refused(gateway: GatewayClient, body: bytes) -> None:
    answer = gateway.http.post("/v1/jobs", content=body, headers={"content-type": "application/json"})
    detail(answer, 422, "invalid_request")


@pytest.mark.parametrize("value", [b"1e999", b"-1e999", b'"\\ud800"', b"[" * 99 + b"]" * 99])
def test_values_that_cannot_be_read_again_are_refused(gateway: GatewayClient, value: bytes) -> None:
    """JSON has no infinities, UTF-8 has no surrogates, and parsers limit the depth."""
    job_id, headers = gateway.create(), {"content-type": "application/json"}
    for path, body in (
        ("/v1/jobs", b'{"task":"tool","payload":{"x":%b}}' % value),
        (f"/v1/jobs/{job_id}/cancel", b'{"reason":{"x":%b}}' % value),
    ):
        detail(gateway.http.post(path, content=body, headers=headers), 422, "invalid_request")
    assert gateway.get(job_id)["status"] == "queued"


def test_a_payload_and_a_reason_are_read_at_the_greatest_depth(gateway: GatewayClient) -> None:
    nested: Any = 1
    for _ in range(98):  # with the document and the payload, 100 levels
        nested = [nested]
    job_id = gateway.create(payload={"x": nested})
    assert gateway.cancel(job_id, {"reason": {"x": nested}}).json()["updated"]
    job = gateway.get(job_id)
    assert (job["payload"], job["error"]["reason"]) == ({"x": nested}, {"x": nested})
    with gateway.events(job_id) as stream:
        *_, last = stream
    assert last.json["data"]["reason"] == {"x": nested}


@pytest.mark.parametrize("depth", [101, 950, 970, 990])
def test_a_result_of_others_that_cannot_be_json_again_is_shown_raw(
    gateway: GatewayClient, depth: int
) -> None:
    job_id = gateway.create()
    deep = "[" * depth + "]" * depth
    with gateway.server.client() as redis:
        redis.hset(job_key(job_id), mapping={"payload": '{"x":1e999}', "result": deep, "error": '"\\ud800"'})
    job = gateway.get(job_id)
    assert (job["payload"], job["result"]) == ({"_raw": '{"x":1e999}'}, {"_raw": deep})
    assert job["error"] == "\ud800"


def test_a_payload_of_200_kib_is_accepted_and_a_larger_one_is_not(gateway: GatewayClient) -> None:
    room = 200 * 1024 - len('{"a":""}')
    gateway.create(payload={"a": "x" * room})
    detail(gateway.post({"task": "tool", "payload": {"a": "x" * (room + 1)}}), 413, "payload_too_large")
    detail(gateway.post({"task": "tool", "payload": {"a": "x" * 10_000_000}}), 413, "payload_too_large")
    detail(gateway.http.post("/v1/jobs", data={"task": "tool"}), 415, "unsupported_media_type")


def test_twenty_requests_with_one_key_make_one_job(gateway: GatewayClient) -> None:
    with ThreadPoolExecutor(20) as threads:
        answers = list(threads.map(lambda _: gateway.post(Idempotency_Key="order-7"), range(20)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["job_id"] for answer in answers}) == 1
    assert [answer.json().get("idempotent") for answer in answers].count(True) == 19
    with gateway.server.client() as redis:
        assert redis.xlen(QUEUE.stream) == 1
        assert 3590 < redis.ttl("idempotency:order-7") <= 3600
        assert len(redis.keys("job:*")) == 2  # the hash and the events of the job
    detail(gateway.post(Idempotency_Key="x" * 256), 422, "invalid_request")


def test_a_full_queue_is_refused_until_a_job_ends(redis_server: RedisServer) -> None:
    async def run(gateway: GatewayClient) -> None:
        async with adapter(redis_server) as taker:
            job = await take_one(taker)  # a pending job counts like a waiting job
            answer = await asyncio.to_thread(gateway.post)
            found = detail(answer, 429, "backpressure")
            assert found == {"backlog": 3, "pending": 1, "lag": 2, "max": 3}
            assert answer.headers["retry-after"] == "1"
            assert (await asyncio.to_thread(gateway.post, None, Idempotency_Key="k")).status_code == 200
            await taker.succeed(job, {})
            await asyncio.to_thread(gateway.create)

    with serving(redis_server, GatewayLimits(max_backlog=3)) as gateway:
        gateway.post(Idempotency_Key="k")
        gateway.create()
        gateway.create()
        detail(gateway.post(), 429, "backpressure")  # the limit also holds before the first worker connects
        asyncio.run(run(gateway))


def test_parallel_requests_do_not_overshoot_the_backlog(redis_server: RedisServer) -> None:
    with serving(redis_server, GatewayLimits(max_backlog=5)) as gateway, ThreadPoolExecutor(20) as threads:
        statuses = [answer.status_code for answer in threads.map(lambda _: gateway.post(), range(40))]
    assert (statuses.count(200), statuses.count(429)) == (5, 35)


def test_a_job_is_canceled_once_and_stays_so(gateway: GatewayClient) -> None:
    job_id = gateway.create()
    first, second = gateway.cancel(job_id, {"reason": {"by": "user"}}), gateway.cancel(job_id)
    assert (first.status_code, first.json()) == (
        200,
        {"job_id": job_id, "status": "canceled", "updated": True},
    )
    assert second.json() == {"job_id": job_id, "status": "canceled", "updated": False}
    assert gateway.redis.types(job_id) == ["queued", "canceled"]
    assert gateway.get(job_id)["error"]["reason"] == {"by": "user"}

    async def run() -> None:
        async with adapter(gateway.server) as taker:
            (job,) = await taker.take(1, 0)
            assert job.is_canceled
            assert await taker.heartbeat([job]) == [ForeignLease.CANCELED]
            assert gateway.redis.pending() == 1  # until the bridge knows that no row runs
            await taker.fail(job, ForeignFailure("canceled", "by the producer", retry=False))

    asyncio.run(run())
    assert gateway.redis.pending() == 0
    assert gateway.redis.types(job_id) == ["queued", "canceled"]


def test_a_canceled_job_is_kept_for_an_hour_at_most(gateway: GatewayClient) -> None:
    long, short = gateway.create(ttl_s=30 * 86_400), gateway.create(ttl_s=60)
    for job_id in (long, short):
        gateway.cancel(job_id)
    with gateway.server.client() as redis:
        for job_id, most in ((long, 3600), (short, 60)):
            for key in (job_key(job_id), events_key(job_id)):
                assert most - 10 < redis.ttl(key) <= most
            assert gateway.get(job_id)["ttl_s"] == most


@pytest.mark.parametrize("job_id", ["6c2b5c5e-0000-4000-8000-000000000001", "x:events", "%00", "a" * 65])
def test_an_unknown_job_is_not_found(gateway: GatewayClient, job_id: str) -> None:
    for path in (f"/v1/jobs/{job_id}", f"/v1/jobs/{job_id}/events"):
        detail(gateway.http.get(path), 404, "not_found")
    detail(gateway.http.post(f"/v1/jobs/{job_id}/cancel"), 404, "not_found")


def test_unknown_addresses_and_methods_have_the_same_form(gateway: GatewayClient) -> None:
    detail(gateway.http.get("/v2/jobs"), 404, "not_found")
    detail(gateway.http.get("/v1/jobs"), 405, "method_not_allowed")
    assert gateway.http.get("/health").json() == {"ok": True}


def test_another_host_name_is_refused_where_no_keys_are_asked_for(gateway: GatewayClient) -> None:
    for host in (
        *("evil.example", "evil.example:8100", "", "localhost.evil", "localhost:80.evil", "localhost:80:80"),
        *("[::1].evil", "[::1]evil:80", "[::1", "[::1]:80.evil", "127.0.0.1@evil", "localhost:\u00b2"),
    ):
        headers = {b"host": host.encode("latin-1")}
        detail(gateway.http.get("/health", headers=headers), 421, "wrong_host")
    for host in ("localhost:1", "LOCALHOST", "127.0.0.1", "127.0.0.1:80", "[::1]:8100", "[::1]"):
        assert gateway.http.get("/health", headers={"host": host}).status_code == 200


def test_metrics_count_requests_and_streams_and_tell_whether_redis_answers(gateway: GatewayClient) -> None:
    job_id = gateway.create()
    gateway.post({"task": "none"})
    with gateway.events(job_id) as frames:
        assert next(frames).event == "hello"
        text = gateway.http.get("/metrics").text
    for line in (
        'euterpe_gateway_requests_total{route="StreamJobsEndpoint.post",status="200"} 1.0',
        'euterpe_gateway_requests_total{route="StreamJobsEndpoint.post",status="422"} 1.0',
        "euterpe_gateway_event_streams 1.0",
        "euterpe_gateway_redis_up 1.0",
    ):
        assert line in text.splitlines()
