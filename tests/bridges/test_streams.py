"""The adapter of the Redis Streams contract, called as a bridge calls it."""

import asyncio
import json
import signal
import subprocess
import sys

import pytest

from euterpe.bridges.adapter import (
    BridgeError,
    ForeignFailure,
    ForeignLease,
    ForeignUnavailable,
    ReportOutcome,
)
from euterpe.bridges.stream_jobs import TASKS, job_key
from euterpe.bridges.streams import StreamsAdapter
from tests.bridges.stream_driver import (
    PAYLOAD,
    QUEUE,
    Producer,
    adapter,
    expire_now,
    raw_message,
    take_one,
)
from tests.redis_server import RedisServer

RESULT = {"job_id": "0190", "outputs": [{"name": "main", "url": "s3://out/a.mp4"}]}


@pytest.fixture
def producer(redis_server: RedisServer) -> Producer:
    return Producer(redis_server)


def test_a_job_runs_and_its_message_stays_pending_until_the_terminal_event(producer: Producer) -> None:
    async def run() -> None:
        async with adapter(producer.server) as taker:
            job_id = await producer.create()
            job = await take_one(taker)
            assert (job.job_id, job.name, job.data) == (job_id, "tool", PAYLOAD)
            assert (job.priority, job.attempts) == (0, None)
            assert job.source_ref == f"stream:jobs%3Astream:{job_id}"
            assert producer.fields(job_id)["status"] == "running"
            await taker.progress(job, 41.666)
            assert await taker.heartbeat([job]) == [ForeignLease.HELD]
            assert producer.types(job_id) == ["queued", "running", "progress"]
            assert producer.pending() == 1
            assert await taker.succeed(job, RESULT) is ReportOutcome.DONE
            assert producer.pending() == 0
            fields = producer.fields(job_id)
            assert (fields["status"], json.loads(fields["result"]), fields["error"]) == ("done", RESULT, "")
            *_, progress, done = producer.events(job_id)
            assert json.loads(progress["data"]) == {"percent": 41.7}
            assert done.keys() == {"type", "ts", "step", "data"}
            assert (done["type"], json.loads(done["data"])) == ("done", RESULT)
            assert (
                await taker.succeed(job, RESULT) is ReportOutcome.DONE
            )  # a repeated call, as after a lost answer
            assert producer.types(job_id).count("done") == 1

    asyncio.run(run())


def test_every_task_of_the_contract_is_taken(producer: Producer) -> None:
    async def run() -> None:
        for task in TASKS:
            await producer.create(task=task)
        async with adapter(producer.server) as taker:
            assert [job.name for job in await taker.take(10, 0)] == list(TASKS)

    asyncio.run(run())


def test_a_failure_is_an_error_with_its_code(producer: Producer) -> None:
    async def run() -> None:
        async with adapter(producer.server) as taker:
            job_id = await producer.create(task="chat")
            failure = ForeignFailure("task_not_supported", "no mapping for the task chat", retry=False)
            assert await taker.fail(await take_one(taker), failure) is ReportOutcome.DONE
            error = {"code": "task_not_supported", "message": "no mapping for the task chat"}
            fields = producer.fields(job_id)
            assert (fields["status"], fields["result"], json.loads(fields["error"])) == ("error", "", error)
            assert json.loads(producer.events(job_id)[-1]["data"]) == error
            canceled = await producer.create()
            await taker.fail(
                await take_one(taker), ForeignFailure("canceled", "by the operator", retry=False)
            )
            assert (producer.fields(canceled)["status"], producer.types(canceled)[-1]) == ("canceled",) * 2

    asyncio.run(run())


def test_a_failed_job_is_kept_for_an_hour_at_most_and_a_result_longer(producer: Producer) -> None:
    async def run() -> None:
        async with adapter(producer.server) as taker:
            failed, done = await producer.create(ttl_s=7200), await producer.create(ttl_s=7200)
            await taker.fail(await take_one(taker), ForeignFailure("decode_failed", "no frame", retry=False))
            await taker.succeed(await take_one(taker), RESULT)
            with producer.server.client() as client:
                for job_id, most in ((failed, 3600), (done, 7200)):
                    for key in (job_key(job_id), job_key(job_id) + ":events"):
                        assert most - 60 < client.ttl(key) <= most

    asyncio.run(run())


def test_messages_from_before_the_group_are_taken(producer: Producer) -> None:
    async def run() -> None:
        job_id = await producer.create()  # no worker has created the group yet
        async with adapter(producer.server) as taker:
            assert (await take_one(taker)).job_id == job_id

    asyncio.run(run())


@pytest.mark.parametrize("payload", ["{broken", "", "[1]", '"text"', "NaN", '{"a":Infinity}', "[" * 100_000])
def test_a_payload_that_is_no_json_object_is_kept_as_raw(producer: Producer, payload: str) -> None:
    async def run() -> None:
        async with adapter(producer.server) as taker:
            await producer.create(payload=payload)
            assert (await take_one(taker)).data == {"_raw": payload}

    asyncio.run(run())


def test_a_payload_of_10_mb_is_cut(producer: Producer) -> None:
    async def run() -> None:
        async with adapter(producer.server) as taker:
            await producer.create(payload='{"a":"' + "x" * 10_000_000 + '"}')
            data = (await take_one(taker)).data
            assert data is not None
            assert len(data["_raw"]) == 200 * 1024

    asyncio.run(run())


def test_a_message_without_a_job_or_with_a_removed_one_is_acknowledged(producer: Producer) -> None:
    async def run() -> None:
        async with adapter(producer.server) as taker:
            raw_message(producer.server, text="hello")
            raw_message(producer.server, job_id="gone", task="tool", payload="{}")
            with producer.server.client() as client:
                client.set(job_key("text"), "not a hash")
            raw_message(producer.server, job_id="text", task="tool", payload="{}")
            job_id = await producer.create()
            jobs = await taker.take(10, 0)
            assert [job.job_id for job in jobs] == [job_id]
            assert producer.pending() == 1
            assert producer.fields("gone") == {}

    asyncio.run(run())


def test_a_canceled_job_stays_canceled(producer: Producer) -> None:
    async def run() -> None:
        async with adapter(producer.server) as taker:
            job_id = await producer.create()
            job = await take_one(taker)
            await taker._scripts.cancel(job_id, "{}", "{}")
            assert await taker.heartbeat([job]) == [ForeignLease.CANCELED]
            assert await taker.succeed(job, RESULT) is ReportOutcome.DONE
            assert (producer.fields(job_id)["status"], producer.fields(job_id)["result"]) == ("canceled", "")
            assert producer.types(job_id) == ["queued", "running", "canceled"]
            assert producer.pending() == 0

    asyncio.run(run())


def test_a_ttl_that_is_shorter_than_the_run_is_renewed_by_each_heartbeat(producer: Producer) -> None:
    async def run() -> None:
        async with adapter(producer.server, lease_s=3.9) as taker:
            job_id = await producer.create(ttl_s=1)
            job = await take_one(taker)
            with producer.server.client() as client:
                for _ in range(2):  # each pause is longer than the TTL of 1 s
                    await asyncio.sleep(taker.heartbeat_interval_s)
                    assert await taker.heartbeat([job]) == [ForeignLease.HELD]
                assert client.pttl(job_key(job_id)) > 0
                assert client.pttl(job_key(job_id) + ":events") > 0
                assert await taker.succeed(job, RESULT) is ReportOutcome.DONE
                assert client.ttl(job_key(job_id)) <= 1
            assert producer.types(job_id) == ["queued", "running", "done"]

    asyncio.run(run())


def test_beats_keep_a_message_from_other_consumers(producer: Producer) -> None:
    async def run() -> None:
        async with (
            adapter(producer.server, lease_s=5, sweep_every_s=0) as holder,
            adapter(producer.server, lease_s=0.05, sweep_every_s=0) as other,
        ):
            await producer.create()
            job = await take_one(holder)
            with producer.server.client() as client:
                for _ in range(20):
                    assert await holder.heartbeat([job]) == [ForeignLease.HELD]
                    (row,) = client.xpending_range(QUEUE.stream, QUEUE.group, "-", "+", 10)
                    assert (row["consumer"], row["times_delivered"]) == (holder.consumer, 1)
            del other

    asyncio.run(run())


HOLDER = """
import asyncio, sys
from euterpe.bridges.streams import StreamsAdapter

async def main():
    taker = StreamsAdapter(sys.argv[1], lease_s=1)
    await taker.start()
    print((await taker.take(1, 5))[0].job_id, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def test_the_job_of_a_killed_process_is_taken_over(producer: Producer) -> None:
    async def run() -> None:
        job_id = await producer.create()
        command = [sys.executable, "-c", HOLDER, producer.server.url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline().strip() == job_id
            holder.send_signal(signal.SIGKILL)
        async with adapter(producer.server, lease_s=1, sweep_every_s=0) as taker:
            job = await take_one(taker)
            assert producer.pending() == 1
            assert await taker.succeed(job, RESULT) is ReportOutcome.DONE
        assert producer.types(job_id) == ["queued", "running", "done"]
        assert producer.pending() == 0

    asyncio.run(run())


def test_a_removed_job_is_not_created_again(producer: Producer) -> None:
    async def run() -> None:
        async with adapter(producer.server) as taker:
            job_id = await producer.create()
            job = await take_one(taker)
            expire_now(producer.server, job_id)
            assert await taker.heartbeat([job]) == [ForeignLease.HELD]
            await taker.progress(job, 10)
            assert await taker.succeed(job, RESULT) is ReportOutcome.GONE
            assert producer.pending() == 0
            assert (producer.fields(job_id), producer.events(job_id)) == ({}, [])

    asyncio.run(run())


def test_after_flushall_nothing_of_the_old_jobs_comes_back_and_new_jobs_are_taken(producer: Producer) -> None:
    async def run() -> None:
        async with adapter(producer.server, sweep_every_s=0) as taker:
            job_id = await producer.create()
            job = await take_one(taker)
            with producer.server.client() as client:
                client.flushall()
            assert await taker.heartbeat([job]) == [ForeignLease.HELD]
            assert await taker.succeed(job, RESULT) is ReportOutcome.GONE
            assert await taker.take(1, 0) == []
            assert (producer.fields(job_id), producer.events(job_id)) == ({}, [])
            later = await producer.create()
            assert (await take_one(taker)).job_id == later

    asyncio.run(run())


def test_acknowledged_messages_leave_the_stream_and_others_stay(producer: Producer) -> None:
    async def run() -> None:
        async with adapter(producer.server, sweep_every_s=0) as taker:
            for _ in range(300):
                await producer.create()
            jobs = await taker.take(250, 0)
            for job in jobs[:240]:
                await taker.succeed(job, RESULT)
            await taker.take(1, 0)
            with producer.server.client() as client:
                assert 60 <= client.xlen(QUEUE.stream) < 300  # Redis removes only whole nodes of the stream
                (group,) = client.xinfo_groups(QUEUE.stream)
                assert (group["pending"], group["lag"]) == (11, 49)
            assert len(await taker.take(100, 0)) == 49

    asyncio.run(run())


def test_a_consumer_that_stops_leaves_the_group(producer: Producer) -> None:
    async def run() -> None:
        async with adapter(producer.server) as idle:
            await idle.take(1, 0)
        async with adapter(producer.server) as busy:
            await producer.create()
            await take_one(busy)
        with producer.server.client() as client:
            (left,) = client.xinfo_consumers(QUEUE.stream, QUEUE.group)
        assert (left["name"], left["pending"]) == (busy.consumer, 1)

    asyncio.run(run())


def test_a_wrong_address_and_wrong_credentials_are_named_without_the_password() -> None:
    with pytest.raises(BridgeError, match="must begin with redis://"):
        StreamsAdapter("http://localhost")
    refused = StreamsAdapter("redis://:s3cret@127.0.0.1:1/0")
    with pytest.raises(ForeignUnavailable, match=r"127\.0\.0\.1:1 did not") as error:
        asyncio.run(refused.start())
    assert "s3cret" not in str(error.value)


def test_a_refused_login_is_a_wrong_set_up(redis_server: RedisServer) -> None:
    url = redis_server.url.replace("redis://", "redis://nobody:s3cret@")
    with pytest.raises(BridgeError, match="refuses the login") as error:
        asyncio.run(StreamsAdapter(url).start())
    assert "s3cret" not in str(error.value)
