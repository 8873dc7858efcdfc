import base64
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from structlog.testing import capture_logs

from euterpe.crypto.errors import CannotDecrypt, KeyProviderUnavailable, UnknownFormat, UnknownKek
from euterpe.domain.error_codes import ErrorCode, RetryClass
from euterpe.domain.leased_job import (
    End,
    Heartbeat,
    LeasedJob,
    ProgressFigures,
    RefreshResult,
    StaleClaim,
    Unavailable,
)
from euterpe.domain.retry import JobError
from euterpe.domain.states import JobStatus
from euterpe.worker.control_plane import ControlPlane
from euterpe.worker.http_plane import HttpPlane
from euterpe.worker.remote.server_connection import ServerConnection
from tests.client.scripted_server import Answer, Disconnect, Reply, Server, problem
from tests.worker.remote.answers import (
    ATTEMPT,
    EMPTY,
    JOB,
    OK,
    OTHER,
    Late,
    beats,
    jobs,
    lost,
    sealed,
)
from tests.worker.remote.conftest import Clock, api_key, clock, connection, server

__all__ = ["api_key", "clock", "connection", "server"]  # fixtures that this module imports

ERROR = JobError(ErrorCode.SOURCE_NOT_FOUND, "no such object", "fetching")


@pytest.fixture
def plane(connection: ServerConnection, clock: Clock) -> Iterator[HttpPlane]:
    made = HttpPlane(connection, worker_id="w-1", queues=["eu"], clock=clock)
    yield made
    made.close()


@pytest.fixture
def job(plane: HttpPlane, server: Server) -> LeasedJob:
    """Return a job that was claimed at the time 1000.0 with a lease of 60 s."""
    server.script(jobs(JOB))
    (claimed,) = plane.claim(1, wait_s=0.0)
    server.requests.clear()
    return claimed


def beat(plane: HttpPlane, *held: LeasedJob) -> set[str]:
    return set(plane.heartbeat([Heartbeat(job) for job in held]).held)


def last(server: Server) -> Any:
    return server.requests[-1].json


# -- claims


def test_it_is_a_control_plane(plane: HttpPlane) -> None:
    accepted: ControlPlane = plane
    assert accepted is plane


def test_claimed_jobs_have_what_an_attempt_needs(plane: HttpPlane, server: Server) -> None:
    server.script(jobs(JOB, OTHER))
    first, second = plane.claim(3, wait_s=12.0)
    assert (first.job_id, first.attempt_id, first.worker_id) == (JOB, ATTEMPT, "w-1")
    assert (first.claim_version, first.lease_ms, first.attempt_count, first.max_attempts) == (5, 60_000, 1, 3)
    assert (first.queue, first.spec["timeout_seconds"], second.job_id) == ("eu", 60, OTHER)
    assert "elt1" not in repr(first)
    assert plane.heartbeat_interval_s == 15
    assert (last(server)["max_jobs"], last(server)["max_wait_ms"]) == (3, 12_000)


def test_close_releases_a_claim_whose_answer_was_lost(
    connection: ServerConnection, server: Server, clock: Clock
) -> None:
    plane = HttpPlane(connection, worker_id="w-1", queues=["eu"], clock=clock)
    late = Late(jobs(JOB))
    server.script(late, OK)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(plane.claim, 1, wait_s=30.0)
        assert late.arrived.wait(10)
        plane.wake()
        assert waiting.result(10) == ()
    plane.close()
    late.release()
    claim, release = server.requests
    assert release.path == "/internal/worker/release"
    assert release.json["claim_id"] == claim.json["claim_id"]


def test_the_lease_of_a_repeated_claim_is_renewed_at_once(
    plane: HttpPlane, server: Server, clock: Clock
) -> None:
    """The lease began with the first request of the claim, so it may expire soon."""
    server.script(Disconnect(), Disconnect(), jobs(JOB, OTHER))
    with pytest.raises(Unavailable):
        plane.claim(2, wait_s=0.0)
    clock.now += 50
    rows = [{"job_id": JOB, "ok": True}, {"job_id": OTHER, "ok": False, "code": "lease_lost"}]
    server.script(Answer(200, {"leases": rows}))
    (claimed,) = plane.claim(2, wait_s=0.0)
    assert claimed.job_id == JOB
    assert plane.holds_until(claimed) == 1110.0


# -- heartbeats


def test_one_beat_serves_all_jobs_and_takes_progress_and_timings(plane: HttpPlane, server: Server) -> None:
    server.script(jobs(JOB, OTHER), beats)
    first, second = plane.claim(2, wait_s=0.0)
    plane.report(first, ProgressFigures(41.5, 12.0, 3.1))
    answer = plane.heartbeat([Heartbeat(first), Heartbeat(second, {"cpu_seconds": 1.5})])
    assert answer.held == {JOB, OTHER}
    assert last(server)["leases"] == [
        {"job_id": JOB, "lease_token": f"elt1.{JOB}", "progress": 41.5, "eta_seconds": 12.0, "speed": 3.1},
        {"job_id": OTHER, "lease_token": f"elt1.{OTHER}", "timings": {"cpu_seconds": 1.5}},
    ]


def test_a_lost_job_is_not_held_and_the_others_are(plane: HttpPlane, server: Server) -> None:
    server.script(jobs(JOB, OTHER))
    held = plane.claim(2, wait_s=0.0)
    rows = [{"job_id": JOB, "ok": False, "code": "lease_lost"}, {"job_id": OTHER, "ok": True}]
    server.script(Answer(200, {"leases": rows}), beats)
    assert beat(plane, *held) == {OTHER}
    assert not plane.report(held[0], ProgressFigures(50.0))
    assert beat(plane, *held) == {OTHER}
    assert [sent["job_id"] for sent in last(server)["leases"]] == [OTHER]


def test_a_requested_cancel_is_returned(plane: HttpPlane, server: Server, job: LeasedJob) -> None:
    server.script(lambda request: beats(request, cancel_requested=True))
    assert plane.heartbeat([Heartbeat(job)]).cancel_requested == {JOB}


def test_a_beat_proves_ownership_from_when_it_was_sent(
    plane: HttpPlane, server: Server, job: LeasedJob, clock: Clock
) -> None:
    def slowly(request: Any) -> Reply:
        clock.now += 10
        return beats(request)

    assert plane.holds_until(job) == 1060.0
    clock.now = 1020.0
    server.script(slowly)
    beat(plane, job)
    assert plane.holds_until(job) == 1080.0


def test_the_last_beat_proves_ownership_for_many_files(
    plane: HttpPlane, server: Server, job: LeasedJob, clock: Clock
) -> None:
    assert all(plane.prove(job, refers=False) for _ in range(1000))
    assert server.requests == []
    server.script(beats, beats)
    assert plane.prove(job, refers=True)
    clock.now += 50
    assert plane.prove(job, refers=False)
    assert len(server.requests) == 2


def test_a_job_whose_lease_may_be_over_is_not_proven(
    plane: HttpPlane, server: Server, job: LeasedJob, clock: Clock
) -> None:
    clock.now += 50
    server.script(problem(503, "stopping"), lost)
    with pytest.raises(Unavailable):
        plane.prove(job, refers=False)
    assert not plane.prove(job, refers=False)
    assert not plane.prove(job, refers=True)


def test_a_late_200_after_a_409_does_not_revive_a_job(
    plane: HttpPlane, server: Server, job: LeasedJob
) -> None:
    late = Late(beats)
    server.script(late, lost)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(beat, plane, job)
        assert late.arrived.wait(10)
        assert beat(plane, job) == set()
        late.release()
        assert first.result(10) == set()
    assert plane.holds_until(job) == float("-inf")
    assert not plane.report(job, ProgressFigures(50.0))


def test_attempts_outlive_an_outage_that_is_longer_than_a_lease(
    plane: HttpPlane, server: Server, job: LeasedJob, clock: Clock
) -> None:
    """A worker may revive a lease that was not swept.

    Until the revival, the worker's log says that the lease has expired.
    """
    with capture_logs() as logs:
        for _ in range(4):
            clock.now += 20
            server.script(problem(503, "stopping"))
            with pytest.raises(Unavailable):
                beat(plane, job)
    assert [log["event"] for log in logs] == ["lease_ran_out"]
    assert plane.holds_until(job) < clock.now
    server.script(beats)
    assert beat(plane, job) == {JOB}
    assert plane.holds_until(job) == clock.now + 60


@pytest.mark.parametrize("refers", [False, True])
def test_a_beat_that_was_answered_before_a_suspension_proves_nothing_after_it(
    plane: HttpPlane, server: Server, job: LeasedJob, clock: Clock, *, refers: bool
) -> None:
    """`boot_clock` counts the time of a suspension.

    `asyncio.timeout` uses the monotonic clock, which stops during a suspension.
    """

    def suspended_for_an_hour(request: Any) -> Reply:
        clock.now += 3600
        return beats(request)

    clock.now += 50
    server.script(suspended_for_an_hour, beats)
    assert plane.prove(job, refers=refers)
    assert len(server.requests) == 2  # heartbeats
    assert plane.holds_until(job) == clock.now + 60


def test_a_slow_beat_that_leaves_no_margin_proves_nothing(
    plane: HttpPlane, server: Server, job: LeasedJob, clock: Clock
) -> None:
    """A file must not be published in the last ten seconds of a lease.

    If a slow heartbeat is answered in these ten seconds, the next heartbeat must be awaited.
    """

    def slowly(request: Any) -> Reply:
        clock.now += 55
        return beats(request)

    clock.now += 50
    server.script(slowly, beats)
    assert plane.prove(job, refers=False)
    assert plane.holds_until(job) > clock.now + 10


def test_heartbeats_that_are_all_answered_too_late_prove_nothing(
    plane: HttpPlane, server: Server, job: LeasedJob, clock: Clock
) -> None:
    def slowly(request: Any) -> Reply:
        clock.now += 55
        return beats(request)

    server.script(slowly, slowly)
    with pytest.raises(Unavailable, match="too late"):
        plane.prove(job, refers=True)


def test_a_beat_that_is_not_answered_for_each_job_is_an_outage(
    plane: HttpPlane, server: Server, job: LeasedJob
) -> None:
    server.script(Answer(200, {"leases": []}), Answer(200, b"<html>a login page</html>"), beats)
    for _ in range(2):
        with pytest.raises(Unavailable):
            beat(plane, job)
    assert beat(plane, job) == {JOB}


def test_a_refused_key_leaves_the_jobs_held(plane: HttpPlane, server: Server, job: LeasedJob) -> None:
    server.script(problem(401, "unauthorized"), beats)
    with pytest.raises(Unavailable) as error:
        beat(plane, job)
    assert error.value.code == "worker_key_refused"
    assert beat(plane, job) == {JOB}


def test_progress_is_sent_early_without_a_wait(
    plane: HttpPlane, server: Server, job: LeasedJob, clock: Clock
) -> None:
    late = Late(lambda request: beats(request, cancel_requested=True))
    server.script(late)
    assert plane.report(job, ProgressFigures(10.0))  # no heartbeat yet: the last one was less than 5 s ago
    clock.now += 5
    assert plane.report(job, ProgressFigures(20.0))
    assert late.arrived.wait(10)
    clock.now += 5
    assert plane.report(job, ProgressFigures(30.0))  # no heartbeat yet: the early one has no answer
    late.release()
    server.script(beats)
    assert plane.heartbeat([Heartbeat(job)]).held == {JOB}
    assert [request.json["leases"][0]["progress"] for request in server.requests] == [20.0, 30.0]


def test_an_early_beat_that_fails_is_forgotten(
    plane: HttpPlane, server: Server, job: LeasedJob, clock: Clock
) -> None:
    arrived = threading.Event()

    def fail(_: Any) -> Reply:
        arrived.set()
        return problem(503, "stopping")

    server.script(fail)
    clock.now += 5
    assert plane.report(job, ProgressFigures(20.0))
    assert arrived.wait(10)
    server.script(beats)
    assert beat(plane, job) == {JOB}


# -- the steps of an attempt


def test_steps_are_written(plane: HttpPlane, server: Server, job: LeasedJob, clock: Clock) -> None:
    clock.now += 30
    server.script(OK, OK)
    values = {"source_info": {"duration_seconds": 1.0}, "warnings": []}
    assert plane.advance(job, JobStatus.FETCHING, JobStatus.PROCESSING, values)
    assert last(server)["status"] == "processing"
    assert last(server)["source_info"] == {"duration_seconds": 1.0}
    assert plane.holds_until(job) == 1090.0
    assert plane.succeed(job, [{"name": "mp4"}], {"total": 1.5})
    assert last(server)["result"] == {"outputs": [{"name": "mp4"}], "timings": {"total": 1.5}}
    assert (last(server)["stream"], last(server)["message_id"]) == ("eu", f"4-{JOB}")


def test_a_step_whose_answer_was_lost_is_repeated(plane: HttpPlane, server: Server, job: LeasedJob) -> None:
    server.script(Disconnect(), OK)
    assert plane.succeed(job, [], {})
    assert server.requests[0].body == server.requests[1].body


@pytest.mark.parametrize(
    "answer",
    [
        problem(409, "lease_lost"),
        problem(409, "attempt_ended", outcome="failed"),
        problem(403, "invalid_lease_token"),
        problem(404, "not_found"),
        problem(410, "pruned"),
    ],
    ids=lambda answer: str(answer.document["code"]),
)
def test_a_stale_claim_writes_nothing(
    plane: HttpPlane, server: Server, job: LeasedJob, answer: Answer
) -> None:
    server.script(*[answer] * 5)
    assert not plane.advance(job, JobStatus.CLAIMED, JobStatus.FETCHING, {})
    assert not plane.succeed(job, [], {})
    assert beat(plane, job) == set()
    with pytest.raises(StaleClaim):
        plane.secrets(job)
    with pytest.raises(StaleClaim):
        plane.refresh(job, 1, "forbidden")
    with pytest.raises(StaleClaim):
        plane.is_rival(job, OTHER)


def test_an_end_is_sent_although_a_beat_found_the_job_lost(
    plane: HttpPlane, server: Server, job: LeasedJob
) -> None:
    """After a lost answer to `complete`, a heartbeat finds no lease, but a repeated `complete` succeeds."""
    server.script(lost, OK)
    assert beat(plane, job) == set()
    assert plane.succeed(job, [], {})


@pytest.mark.parametrize(
    ("document", "end"),
    [
        ({"requeued": True, "dlq": False, "status": "queued"}, End.REQUEUED),
        ({"requeued": False, "dlq": True, "status": "failed"}, End.FAILED),
        ({"requeued": False, "dlq": False, "status": "failed"}, End.FAILED),
    ],
    ids=["requeued", "failed", "canceled"],
)
def test_a_failure_has_its_end(
    plane: HttpPlane, server: Server, job: LeasedJob, document: dict[str, object], end: End
) -> None:
    server.script(Answer(200, {"ok": True, "ack": True, **document}))
    assert plane.fail(job, ERROR, {"fetch": 0.5}) is end
    assert last(server)["error"] == {
        "code": "source_not_found",
        "message": "no such object",
        "retryable": False,
    }
    assert (last(server)["phase"], last(server)["retry_class"]) == ("fetching", "permanent")


@pytest.mark.parametrize(
    ("document", "end"),
    [
        ({"requeued": True}, End.RELEASED),
        ({"requeued": True, "charged": True}, End.REQUEUED),
        ({"requeued": False, "charged": True}, End.FAILED),
    ],
    ids=["released", "charged", "spent"],
)
def test_a_release_has_its_end(
    plane: HttpPlane, server: Server, job: LeasedJob, document: dict[str, object], end: End
) -> None:
    reason = JobError(ErrorCode.DISK_FULL, "the disk is full", "fetching", RetryClass.TRANSIENT)
    server.script(Answer(200, {"ok": True, "ack": True, **document}))
    assert plane.release(job, reason=reason, timings={}) is end
    assert last(server)["reason"] == {
        "code": "disk_full",
        "message": "the disk is full",
        "retryable": True,
        "phase": "fetching",
        "retry_class": "transient",
    }


@pytest.mark.parametrize(
    ("outcome", "end"),
    [
        ("requeued", End.REQUEUED),
        ("released", End.RELEASED),
        ("failed", End.FAILED),
        ("canceled", End.CANCELED),
        ("succeeded", End.SUCCEEDED),
        ("lease_expired", End.STALE),
        ("a_newer_outcome", End.STALE),
    ],
)
def test_an_attempt_that_ended_otherwise_says_how(
    plane: HttpPlane, server: Server, job: LeasedJob, outcome: str, end: End
) -> None:
    server.script(*[problem(409, "attempt_ended", outcome=outcome)] * 3)
    assert plane.fail(job, ERROR, {}) is end
    assert plane.release(job, reason=None, timings={}) is end
    assert plane.succeed(job, [], {}) is (outcome == "succeeded")


@pytest.mark.parametrize(
    "call",
    [
        lambda plane, job: plane.advance(job, JobStatus.CLAIMED, JobStatus.FETCHING, {}),
        lambda plane, job: plane.succeed(job, [], {}),
        lambda plane, job: plane.fail(job, ERROR, {}),
        lambda plane, job: plane.release(job, reason=None, timings={}),
        lambda plane, job: plane.secrets(job),
        lambda plane, job: plane.refresh(job, 1, "forbidden"),
        lambda plane, job: plane.is_rival(job, OTHER),
        lambda plane, job: plane.heartbeat([Heartbeat(job)]),
    ],
    ids=["advance", "succeed", "fail", "release", "secrets", "refresh", "is_rival", "heartbeat"],
)
def test_every_call_may_be_unavailable(
    plane: HttpPlane, server: Server, job: LeasedJob, call: Callable[[HttpPlane, LeasedJob], object]
) -> None:
    for answer in (problem(503, "database_unavailable"), Answer(502, b"bad gateway"), Answer(200, b"{}")):
        server.script(answer)
        with pytest.raises(Unavailable):
            call(plane, job)


# -- secrets


def test_sealed_secrets_are_opened(plane: HttpPlane, server: Server, job: LeasedJob) -> None:
    content = {"storage": base64.b64encode(b"secret part").decode(), "hls_keys": {"hls": "00" * 16}}
    server.script(lambda request: sealed(request, content))
    secrets = plane.secrets(job)
    assert (secrets.credential_version, secrets.storage) == (3, b"secret part")
    assert secrets.hls_keys == {"hls": bytes(16)}


def test_the_clock_of_the_server_is_compared_with_that_of_the_worker(
    connection: ServerConnection, server: Server, job: LeasedJob
) -> None:
    fast = HttpPlane(connection, worker_id="w-1", wall_clock=lambda: time.time() + 3600)
    server.script(lambda request: sealed(request, {"storage": None, "hls_keys": {}}))
    assert 3590 < fast.secrets(job).clock_ahead_s < 3610


def test_a_job_without_secrets_has_none(plane: HttpPlane, server: Server, job: LeasedJob) -> None:
    server.script(lambda request: sealed(request, {"storage": None, "hls_keys": {}}))
    assert plane.secrets(job).storage is None


def test_each_process_has_a_key_pair_of_its_own(
    plane: HttpPlane, connection: ServerConnection, server: Server, job: LeasedJob
) -> None:
    content: dict[str, object] = {"storage": None, "hls_keys": {}}
    server.script(*[lambda request: sealed(request, content)] * 2)
    plane.secrets(job)
    HttpPlane(connection, worker_id="w-2").secrets(job)
    first, second = (request.json["public_key"] for request in server.requests)
    assert first != second


@pytest.mark.parametrize(
    "answer",
    [
        lambda request: sealed(request, {"storage": None, "hls_keys": {}}, credential_version=4),
        lambda request: sealed(request, ["not the layout"]),
    ],
    ids=["another version", "another layout"],
)
def test_secrets_that_cannot_be_opened_are_not_the_fault_of_the_job(
    plane: HttpPlane, server: Server, job: LeasedJob, answer: Any
) -> None:
    server.script(answer)
    with pytest.raises(KeyProviderUnavailable), capture_logs() as logs:
        plane.secrets(job)
    assert [log["event"] for log in logs] == ["handover_failed"]


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (problem(503, "key_provider_unavailable", headers={"retry-after": "2"}), KeyProviderUnavailable),
        (problem(503, "unknown_kek"), UnknownKek),
        (problem(503, "unknown_encryption_version"), UnknownFormat),
        (problem(422, "cannot_decrypt"), CannotDecrypt),
    ],
    ids=["provider", "kek", "version", "decrypt"],
)
def test_errors_of_the_keys_are_those_of_a_local_worker(
    plane: HttpPlane, server: Server, job: LeasedJob, answer: Answer, kind: type[Exception]
) -> None:
    server.script(answer, answer)
    with pytest.raises(kind):
        plane.secrets(job)
    with pytest.raises(kind):
        plane.refresh(job, 1, "forbidden")


@pytest.mark.parametrize(
    ("document", "result"),
    [
        ({"credential_version": 4, "advanced": True}, RefreshResult.ADVANCED),
        ({"credential_version": 4, "advanced": False}, RefreshResult.ADVANCED),
        ({"credential_version": 3, "advanced": False, "promised": True}, RefreshResult.PROMISED),
        ({"credential_version": 3, "advanced": False, "calls_left": 2}, RefreshResult.FAILED),
        ({"credential_version": 3, "advanced": False, "calls_left": 0}, RefreshResult.REFUSED),
        ({"credential_version": 3, "advanced": False}, RefreshResult.FAILED),
    ],
)
def test_a_refresh_has_its_result(
    plane: HttpPlane, server: Server, job: LeasedJob, document: dict[str, object], result: RefreshResult
) -> None:
    server.script(Answer(200, document))
    assert plane.refresh(job, 3, "expiring") is result
    assert (last(server)["credential_version"], last(server)["reason"]) == (3, "expiring")


@pytest.mark.parametrize("other", ["", "x" * 10_000, OTHER.upper(), "../" + OTHER])
def test_no_job_has_an_id_of_another_form(plane: HttpPlane, job: LeasedJob, other: str) -> None:
    assert plane.is_rival(job, other) is None


@pytest.mark.parametrize("rival", [True, False, None])
def test_rivals_are_asked_for(plane: HttpPlane, server: Server, job: LeasedJob, rival: bool | None) -> None:
    server.script(Answer(200, {"rival": rival}))
    assert plane.is_rival(job, OTHER) is rival
    assert last(server)["other_job_id"] == OTHER


# -- what is not said


def test_no_log_line_has_a_secret(
    plane: HttpPlane, server: Server, job: LeasedJob, caplog: pytest.LogCaptureFixture, api_key: str
) -> None:
    caplog.set_level("DEBUG")
    server.script(
        lambda request: sealed(request, {"storage": base64.b64encode(b"canary").decode(), "hls_keys": {}}),
        lost,
        EMPTY,
    )
    with capture_logs() as logs:
        plane.secrets(job)
        beat(plane, job)
        plane.claim(1, wait_s=0.0)
    said = caplog.text + str(logs)
    assert "canary" not in said
    assert "elt1." not in said
    assert api_key not in said


def test_a_job_of_another_control_plane_is_a_bug(plane: HttpPlane, job: LeasedJob) -> None:
    foreign = LeasedJob(**{**job.__dict__, "handle": object()})
    with pytest.raises(TypeError):
        plane.heartbeat([Heartbeat(foreign)])
