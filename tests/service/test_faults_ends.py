"""Attempts that end otherwise than by success: canceled, out of time, handed back, broken."""

import os
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from euterpe.crypto.errors import UnknownKek
from euterpe.domain.states import JobStatus
from euterpe.media.child import Child
from euterpe.net.errors import EgressUnreachable
from euterpe.worker import attempt
from tests.net.servers import Server
from tests.service.workshop import LONG_S, Front, Gate, Workshop, working
from tests.storage.servers import Call, Reply

pytest_plugins = ("tests.service.shop",)


@pytest.fixture
def ffmpeg(shop: Workshop) -> Gate:
    """Is reached by the next ffmpeg, which is stopped, and so would never end by itself."""
    return frozen_ffmpeg(shop)


def frozen_ffmpeg(shop: Workshop) -> Gate:
    gate = Gate()

    def hold(child: Child) -> None:
        os.kill(child.pid, signal.SIGSTOP)
        gate.pass_through()

    shop.sandbox.on_ffmpeg = hold
    return gate


def kill(child: Child) -> None:
    os.kill(child.pid, signal.SIGKILL)


def canceled_at(gate: Gate, shop: Workshop, job_id: str) -> dict[str, Any]:
    with gate.held():
        shop.store.control.cancel(job_id)
        shop.worker.lease_keeper.beat()
    job = shop.end_of(job_id)
    assert (job["status"], job["last_error"]["code"]) == ("failed", "canceled")
    return job


def test_a_cancel_stops_a_fetch(shop: Workshop, front: Front) -> None:
    gate = front.gate("GET")
    job = canceled_at(gate, shop, shop.submit(credentials=shop.keys))
    assert job["last_error"]["phase"] == "fetching"


def test_a_cancel_kills_ffmpeg(shop: Workshop, ffmpeg: Gate) -> None:
    job = canceled_at(ffmpeg, shop, shop.submit(credentials=shop.keys))
    assert job["last_error"]["phase"] == "processing"


def test_a_cancel_aborts_an_upload_in_parts(shop: Workshop, front: Front) -> None:
    gate = front.gate("PUT", "partNumber=2")
    prefix = f"s3://{shop.bucket.name}/canceled/"
    job = canceled_at(gate, shop, shop.submit(credentials=shop.keys, output={"url": prefix}))
    assert job["last_error"]["phase"] == "uploading"
    assert front.count("POST", "uploads") == front.count("DELETE", "uploadId") == 1
    assert list((shop.bucket / "canceled").rglob("*")) == []


def test_a_canceled_job_succeeds_when_it_is_retried(shop: Workshop, front: Front) -> None:
    gate = front.gate("GET")
    job_id = shop.submit(credentials=shop.keys)
    canceled_at(gate, shop, job_id)
    shop.store.control.retry(job_id)
    shop.reaches(job_id, JobStatus.SUCCEEDED)
    assert shop.codes(job_id) == ["canceled", None]


def test_an_encode_beyond_the_jobs_time_is_ended(shop: Workshop, ffmpeg: Gate) -> None:
    job_id = shop.submit(credentials=shop.keys, timeout_seconds=1)
    with ffmpeg.held():
        pass
    job = shop.end_of(job_id)
    assert (job["status"], job["last_error"]["code"]) == ("failed", "attempt_timeout")
    assert job["last_error"]["retryable"] is False


def test_a_fetch_beyond_the_jobs_time_is_ended(
    shop: Workshop, front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = front.gate("GET")
    job_id = shop.submit(credentials=shop.keys, timeout_seconds=3600)
    with gate.held():
        (control,) = shop.worker.lease_keeper.held()
        monkeypatch.setattr(control, "_now", lambda: float("inf"))
    assert shop.end_of(job_id)["last_error"]["code"] == "attempt_timeout"


@pytest.mark.parametrize("method", ["HEAD", "GET", "PUT"])
def test_a_store_that_says_nothing_holds_no_slot_beyond_the_jobs_time(
    shop: Workshop, front: Front, method: str
) -> None:
    """Five tries of half a minute each held it before."""
    silence = Gate()

    def hold(call: Call) -> Reply:
        if call.method == method:
            silence.pass_through()
        return front.honest(call)

    front.answer = hold
    job_id = shop.submit(credentials=shop.keys, timeout_seconds=2)
    with silence.held():
        job = shop.end_of(job_id)
    assert (job["status"], job["last_error"]["code"]) == ("failed", "attempt_timeout")


def test_a_host_that_says_nothing_holds_no_slot_beyond_the_jobs_time(shop: Workshop) -> None:
    def silent(server: Server, sock: socket.socket) -> None:
        server.read_request(sock)
        server.stopping.wait(LONG_S)

    with Server(silent, shop.authority.server_context(["localhost"])) as server:
        source = {"url": f"https://localhost:{server.port}/clip.mp4"}
        job = shop.end_of(shop.submit(source, timeout_seconds=1))
    assert (job["status"], job["last_error"]["code"]) == ("failed", "attempt_timeout")


def test_an_ffmpeg_that_gets_nowhere_is_ended_and_the_job_tried_again(
    tmp_path: Path, front_server: Server, bucket: Path
) -> None:
    with working(tmp_path, front_server, bucket, stall_timeout_ms=500) as shop:
        gate = frozen_ffmpeg(shop)
        job_id = shop.submit(credentials=shop.keys)
        with gate.held():
            pass
        shop.end_of(job_id)
        assert shop.codes(job_id) == ["encode_stalled", None]


def test_a_killed_ffmpeg_is_tried_again(shop: Workshop) -> None:
    shop.sandbox.on_ffmpeg = kill
    job_id = shop.submit(credentials=shop.keys)
    shop.end_of(job_id)
    assert shop.codes(job_id) == ["encode_killed", None]
    assert shop.store.jobs.get(job_id)["attempt_count"] == 1, "the first attempt was given back"


def test_a_stopping_worker_hands_back_what_it_cannot_finish(
    tmp_path: Path, front_server: Server, bucket: Path, front: Front
) -> None:
    with working(tmp_path, front_server, bucket) as shop:
        gate = front.gate("GET")
        job_id = shop.submit(credentials=shop.keys)
        with gate.held():
            shop.worker.lease_keeper.stop_attempts()  # what `stop` does once the time to drain is over
        shop.reaches(job_id, JobStatus.SUCCEEDED)
        attempts = shop.store.jobs.attempts(job_id)
    assert [attempt["outcome"] for attempt in attempts] == ["released", "succeeded"]
    assert [attempt["attempt_no"] for attempt in attempts] == [1, 1], "the attempt is given back"


def test_a_stopping_worker_finishes_what_it_can(
    tmp_path: Path, front_server: Server, bucket: Path, front: Front
) -> None:
    gate = front.gate("GET")
    with working(tmp_path, front_server, bucket) as shop:
        job_id = shop.submit(credentials=shop.keys)
        with gate.held():
            stopping = shop.stop_soon()
        stopping.join()
        assert shop.store.jobs.get(job_id)["status"] == "succeeded"
    assert not any((tmp_path / "work").iterdir()), "nothing-left: files"


def test_a_bug_is_an_internal_error_and_the_slot_lives_on(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken: list[str] = []

    def plan(*_: object, **__: object) -> None:
        broken.append("once")
        monkeypatch.undo()
        raise ZeroDivisionError("canary")

    monkeypatch.setattr(attempt, "plan", plan)
    job_id = shop.submit(credentials=shop.keys, max_attempts=2)
    shop.end_of(job_id)
    assert shop.codes(job_id) == ["internal_error", None]
    told = shop.store.jobs.attempts(job_id)[0]["error"]
    assert told["retryable"]
    assert "ZeroDivisionError" in told["message"]
    assert "canary" not in told["message"]


def test_a_bug_in_a_claim_does_not_end_the_claims(shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    met = Gate()
    real = shop.store.inbox.claim

    def claim(*_: object, **__: object) -> None:
        monkeypatch.setattr(shop.store.inbox, "claim", real)
        met.pass_through()
        raise EgressUnreachable("here", "is no place for it")

    monkeypatch.setattr(shop.store.inbox, "claim", claim)
    with met.held():
        pass
    job_id = shop.submit(credentials=shop.keys)
    assert shop.end_of(job_id)["status"] == "succeeded"


def test_a_job_is_handed_on_by_a_worker_that_lacks_its_key(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a key is being rolled out: no attempt is spent, and the others have their chance."""
    real = shop.store.credentials.open

    def lacking(_: object) -> None:
        monkeypatch.setattr(shop.store.credentials, "open", real)
        raise UnknownKek("k9")

    monkeypatch.setattr(shop.store.credentials, "open", lacking)
    job_id = shop.submit(credentials=shop.keys, max_attempts=1)
    job = shop.end_of(job_id)
    assert (job["status"], job["attempt_count"], job["claim_version"]) == ("succeeded", 1, 2)


def test_a_job_for_which_no_thread_is_to_be_had_is_handed_back(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = shop.worker._pool.submit

    def refuse(*_: object) -> None:
        monkeypatch.setattr(shop.worker._pool, "submit", submit)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(shop.worker._pool, "submit", refuse)
    job = shop.end_of(shop.submit(credentials=shop.keys, max_attempts=1))
    assert (job["status"], job["attempt_count"], job["claim_version"]) == ("succeeded", 1, 2)


def test_nothing_is_published_once_the_lease_is_lost(shop: Workshop, ffmpeg: Gate) -> None:
    prefix = f"s3://{shop.bucket.name}/lost/"
    job_id = shop.submit(credentials=shop.keys, output={"url": prefix})
    with ffmpeg.held():
        (control,) = shop.worker.lease_keeper.held()
        shop.store.inbox.release(control.job)  # as another worker's sweep would
        ffmpeg_of_the_second = frozen_ffmpeg(shop)
        shop.worker.lease_keeper.beat()
    canceled_at(ffmpeg_of_the_second, shop, job_id)
    assert list((shop.bucket / "lost").rglob("*")) == []
