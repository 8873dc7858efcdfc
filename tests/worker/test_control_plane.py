"""The conformance tests of `ControlPlane`. All tests run with the store, and over HTTP with a server."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from typing import Any

import pytest

from euterpe.api.worker.service import WorkerSettings
from euterpe.domain.leased_job import End, Heartbeat, LeasedJob, ProgressFigures, RefreshResult, StaleClaim
from euterpe.domain.scopes import Scope
from euterpe.domain.spec import parse_spec
from euterpe.domain.states import IN_PROGRESS, JobStatus
from euterpe.store.store import Store
from euterpe.worker.control_plane import ControlPlane
from euterpe.worker.http_plane import HttpPlane
from euterpe.worker.remote.server_connection import ServerConnection
from euterpe.worker.remote.server_settings import ServerSettings
from tests import engines
from tests.api.serving import CANARY, CREDENTIALS, serving
from tests.clock import SettableClock
from tests.domain.documents import MINIMAL
from tests.store.attempts import FLAKY, NOT_MEDIA, OUTPUTS, check_path
from tests.store.jobs import claim_one, enqueue
from tests.worker.planes import store_plane

LEASE_MS = 60_000
REQUEST = {name: value for name, value in MINIMAL.items() if name != "profile"}
KEY = "0123456789abcdef0123456789abcdef"
PLANES = ("store", "http")


@pytest.fixture(params=engines.ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=PLANES)
def plane(request: pytest.FixtureRequest, store: Store) -> Iterator[ControlPlane]:
    with ExitStack() as opened:
        if request.param == "store":
            yield opened.enter_context(store_plane(store, queues=("first", "default"), lease_ms=LEASE_MS))
            return
        served = opened.enter_context(serving(store, workers=WorkerSettings(lease_ms=LEASE_MS)))
        key = served.requester("worker-1", Scope.WORKER).key
        connection = ServerConnection(ServerSettings(served.url, key), connections=4)
        plane = HttpPlane(connection, worker_id="w1", queues=("first", "default"), clock=time.monotonic)
        opened.callback(plane.close)
        yield plane


def claim(plane: ControlPlane, limit: int = 1) -> list[LeasedJob]:
    """Repeat the claim until it returns jobs, because a claim can miss ready jobs."""
    until = time.monotonic() + 30
    while not (jobs := plane.claim(limit, wait_s=1.0)):
        assert time.monotonic() < until
    return list(jobs)


def claimed(plane: ControlPlane, store: Store, **fields: Any) -> LeasedJob:
    enqueue(store, **fields)
    (job,) = claim(plane)
    return job


def advance(plane: ControlPlane, job: LeasedJob) -> None:
    for source, target in pairwise(IN_PROGRESS):
        assert plane.advance(job, source, target, {})


def requeue(store: Store, clock: SettableClock) -> None:
    """Let the lease expire, sweep the job, and wait until the job is due."""
    clock.advance(LEASE_MS + 1)
    store.inbox.sweep()
    clock.advance(3_600_000)


def test_a_job_is_claimed_as_it_is_stored(plane: ControlPlane, store: Store) -> None:
    job = claimed(plane, store)
    row, (attempt,) = store.jobs.get(job.job_id), store.jobs.attempts(job.job_id)
    assert (job.attempt_id, job.claim_version) == (attempt.attempt_id, row.claim_version)
    assert (job.worker_id, job.queue, job.lease_ms) == ("w1", "default", LEASE_MS)
    assert (job.attempt_count, job.max_attempts) == (1, 3)
    assert dict(job.spec) == dict(row.spec)
    assert row.status == JobStatus.CLAIMED


def test_several_jobs_are_claimed_at_once_from_the_first_queue_first(
    plane: ControlPlane, store: Store
) -> None:
    (last,), first = enqueue(store, 1, queue="default"), enqueue(store, 2, queue="first")
    assert [job.job_id for job in claim(plane, 3)] == [*first, last]


def test_a_claim_without_jobs_ends(plane: ControlPlane) -> None:
    assert list(plane.claim(1, wait_s=0.0)) == []
    assert list(plane.claim(1, wait_s=0.02)) == []


def test_a_wake_ends_the_wait(plane: ControlPlane) -> None:
    plane.wake()
    assert list(plane.claim(1, wait_s=25.0)) == []


def test_a_whole_attempt_has_an_event_for_each_status(plane: ControlPlane, store: Store) -> None:
    job = claimed(plane, store)
    advance(plane, job)
    assert plane.succeed(job, OUTPUTS, {"total_ms": 5})
    row = store.jobs.get(job.job_id)
    assert (row.status, row.outputs) == (JobStatus.SUCCEEDED, OUTPUTS)
    assert store.jobs.attempts(job.job_id)[0].timings == {"total_ms": 5}
    assert check_path(store, job.job_id) == ["claimed", "fetching", "processing", "uploading", "succeeded"]


def test_facts_of_the_source_are_stored(plane: ControlPlane, store: Store) -> None:
    job = claimed(plane, store)
    values = {"source_info": {"seconds": 3}, "warnings": [{"code": "no_audio", "message": "none"}]}
    assert plane.advance(job, JobStatus.CLAIMED, JobStatus.FETCHING, {})
    assert plane.advance(job, JobStatus.FETCHING, JobStatus.PROCESSING, values)
    row = store.jobs.get(job.job_id)
    assert (row.source_info, row.warnings) == (values["source_info"], values["warnings"])


def test_repeated_steps_have_the_first_answer_and_change_nothing(plane: ControlPlane, store: Store) -> None:
    job = claimed(plane, store)
    for _ in range(2):
        assert plane.advance(job, JobStatus.CLAIMED, JobStatus.FETCHING, {})
    advance(plane, job)
    assert plane.succeed(job, OUTPUTS, {})
    assert plane.succeed(job, [], {"other": 1})
    assert store.jobs.get(job.job_id).outputs == OUTPUTS
    assert len(check_path(store, job.job_id)) == 5


def test_a_failed_attempt_is_charged(plane: ControlPlane, store: Store, clock: SettableClock) -> None:
    job = claimed(plane, store)
    assert plane.fail(job, FLAKY, {}) is End.REQUEUED
    clock.advance(3_600_000)
    (later,) = claim(plane)
    assert later.attempt_count == 2
    assert plane.fail(job, NOT_MEDIA, {}) is End.REQUEUED, "the first answer counts"
    assert plane.fail(later, NOT_MEDIA, {}) is End.FAILED
    row = store.jobs.get(job.job_id)
    assert row.status == JobStatus.FAILED
    assert row.last_error is not None
    assert row.last_error["code"] == NOT_MEDIA.code
    assert row.last_error["phase"] == NOT_MEDIA.phase


def test_a_released_attempt_is_not_charged(plane: ControlPlane, store: Store) -> None:
    job = claimed(plane, store)
    assert plane.release(job, reason=None, timings={}) is End.RELEASED
    assert plane.release(job, reason=None, timings={}) is End.RELEASED
    (again,) = claim(plane)
    assert (again.attempt_count, again.job_id) == (1, job.job_id)


def test_the_second_end_of_an_attempt_is_refused_with_the_first(plane: ControlPlane, store: Store) -> None:
    job = claimed(plane, store)
    advance(plane, job)
    assert plane.succeed(job, OUTPUTS, {})
    assert plane.fail(job, FLAKY, {}) is End.SUCCEEDED
    other = claimed(plane, store)
    assert plane.fail(other, NOT_MEDIA, {}) is End.FAILED
    assert not plane.succeed(other, OUTPUTS, {})


def test_a_cancel_is_told_and_ends_the_job(plane: ControlPlane, store: Store) -> None:
    job = claimed(plane, store)
    assert plane.heartbeat([Heartbeat(job)]).cancel_requested == frozenset()
    store.control.cancel(job.job_id)
    assert plane.heartbeat([Heartbeat(job)]).cancel_requested == {job.job_id}
    assert plane.fail(job, FLAKY, {}) is End.CANCELED


def test_a_heartbeat_renews_the_lease_and_keeps_the_accounts(
    plane: ControlPlane, store: Store, clock: SettableClock
) -> None:
    job = claimed(plane, store)
    clock.advance(LEASE_MS - 1)
    assert plane.heartbeat([Heartbeat(job, {"cpu_ms": 7})]).held == {job.job_id}
    assert store.jobs.get(job.job_id).lease_expires_at == clock.now_ms + LEASE_MS
    assert (store.jobs.attempts(job.job_id)[0].timings or {})["cpu_ms"] == 7
    assert plane.prove(job, refers=True)


def test_progress_is_written_with_the_next_heartbeat_at_the_latest(plane: ControlPlane, store: Store) -> None:
    job = claimed(plane, store)
    advance(plane, job)
    assert plane.report(job, ProgressFigures(42.0, 3.0, 1.5))
    assert plane.heartbeat([Heartbeat(job)]).held
    assert store.jobs.get(job.job_id).progress == 42.0


def test_a_lease_that_ran_out_belongs_to_its_worker_until_the_sweep(
    plane: ControlPlane, store: Store, clock: SettableClock
) -> None:
    job = claimed(plane, store)
    clock.advance(LEASE_MS * 10)
    assert plane.succeed(job, OUTPUTS, {})


def test_a_stale_worker_writes_nothing(plane: ControlPlane, store: Store, clock: SettableClock) -> None:
    job = claimed(plane, store)
    requeue(store, clock)
    owner = claim_one(store, "other")
    assert plane.heartbeat([Heartbeat(job)]).held == frozenset()
    assert not plane.advance(job, JobStatus.CLAIMED, JobStatus.FETCHING, {})
    assert not plane.succeed(job, OUTPUTS, {})
    assert plane.fail(job, FLAKY, {}) is End.STALE
    assert plane.release(job, reason=None, timings={}) is End.STALE
    row = store.jobs.get(job.job_id)
    assert (row.status, row.claim_version) == (JobStatus.CLAIMED, owner.claim_version)
    with pytest.raises(StaleClaim):
        plane.secrets(job)
    with pytest.raises(StaleClaim):
        plane.refresh(job, 1, "forbidden")


def test_the_owner_gets_the_secrets_of_its_job(plane: ControlPlane, store: Store) -> None:
    hls = {
        "name": "hls",
        "type": "hls",
        "video": {"codec": "h264", "ladder": [720]},
        "encryption": {"method": "aes-128", "key": KEY, "key_url": "https://k.example/1"},
    }
    store.submit(parse_spec({**REQUEST, "credentials": CREDENTIALS, "outputs": [hls]}), "r1").result()
    (job,) = claim(plane)
    assert CANARY not in repr(job.spec)
    secrets = plane.secrets(job)
    assert secrets.credential_version == 1
    assert secrets.storage is not None
    assert CANARY.encode() in secrets.storage
    assert secrets.hls_keys == {"hls": bytes.fromhex(KEY)}


def test_a_job_without_secrets_has_none(plane: ControlPlane, store: Store) -> None:
    secrets = plane.secrets(claimed(plane, store))
    assert (secrets.storage, dict(secrets.hls_keys)) == (None, {})


def test_a_job_without_a_refresh_url_is_not_refreshed(plane: ControlPlane, store: Store) -> None:
    store.submit(parse_spec(MINIMAL), "r1").result()
    (job,) = claim(plane)
    assert plane.refresh(job, 1, "forbidden") is RefreshResult.REFUSED


def test_newer_credentials_are_found_without_a_call(plane: ControlPlane, store: Store) -> None:
    job = claimed(plane, store)
    store.credentials.replace(job.job_id, "r1", b"{}")
    assert plane.refresh(job, 1, "forbidden") is RefreshResult.ADVANCED
    assert plane.secrets(job).credential_version == 2


def test_rivals_are_told(plane: ControlPlane, store: Store) -> None:
    job = claimed(plane, store)
    (other,) = enqueue(store)
    assert plane.is_rival(job, other) is True
    assert plane.is_rival(job, "0199a7c4-5b1e-7000-8000-000000000001") is None
    assert plane.is_rival(job, "no id") is None
