"""Heartbeats and statuses that remote workers report.

Each report is fenced, is answered separately, and may be repeated.
"""

from typing import Any

import pytest

from euterpe.domain.errors import InvalidSpec, InvalidTransition
from euterpe.domain.leased_job import ProgressFigures
from euterpe.domain.states import IN_PROGRESS, JobStatus
from euterpe.store.queue.attempt_answers import AttemptKey, ReportRefusal
from euterpe.store.queue.attempt_reports import Advanced, ReportedHeartbeat, ReportedStatus
from euterpe.store.queue.claims import ClaimedJob, ClaimRequest
from euterpe.store.queue.inbox import ExtendedLease
from euterpe.store.queue.job_transitions import END_GRACE_MS
from euterpe.store.store import Store
from tests.clock import SettableClock
from tests.store.attempts import check_path, claim_as, completion, key_of
from tests.store.jobs import SPEC, enqueue, event_types

WITH_PROGRESS = {**SPEC, "webhook_events": ["progress", "succeeded"]}


def beat(job: ClaimedJob, **fields: Any) -> ReportedHeartbeat:
    return ReportedHeartbeat(key=key_of(job), **fields)


def status(job: ClaimedJob, name: str, **fields: Any) -> ReportedStatus:
    return ReportedStatus(key=key_of(job), status=JobStatus(name), **fields)


# -- heartbeats


def test_a_heartbeat_extends_each_lease_by_its_own_time(store: Store, clock: SettableClock) -> None:
    enqueue(store, 2)
    jobs = [claim_as(store, f"w{number}") for number in range(2)]
    clock.advance(1_000)
    beats = [beat(jobs[0], lease_ms=10_000), beat(jobs[1], lease_ms=20_000)]
    answers = store.attempt_reports.heartbeat(beats)
    assert answers == [ExtendedLease(clock.now_ms + ms, 1, False) for ms in (10_000, 20_000)]
    assert store.jobs.get(jobs[0].job_id).lease_expires_at == clock.now_ms + 10_000


def test_a_heartbeat_tells_a_requested_cancel_and_newer_credentials(store: Store) -> None:
    (job_id,) = enqueue(store)
    job = claim_as(store)
    store.credentials.replace(job_id, "r1", b"new")
    store.control.cancel(job_id)
    (lease,) = store.attempt_reports.heartbeat([beat(job)])
    assert isinstance(lease, ExtendedLease)
    assert (lease.credential_version, lease.cancel_requested) == (2, True)


def test_a_heartbeat_revives_a_lease_that_was_not_swept(store: Store, clock: SettableClock) -> None:
    (job_id,) = enqueue(store)
    job = claim_as(store, lease_ms=1_000)
    clock.advance(3_600_000)
    assert store.attempt_reports.heartbeat([beat(job)]) == [ExtendedLease(clock.now_ms + 60_000, 1, False)]
    store.inbox.sweep()
    assert store.jobs.get(job_id).claim_version == job.claim_version


def test_a_heartbeat_does_not_revive_what_was_swept(store: Store, clock: SettableClock) -> None:
    """one-owner"""
    (job_id,) = enqueue(store)
    job = claim_as(store, lease_ms=1_000)
    clock.advance(1_001)
    store.inbox.sweep()
    for has_new_owner in (False, True):
        if has_new_owner:
            clock.advance(3_600_000)
            claim_as(store, "w2")
        before = store.jobs.get(job_id)
        assert store.attempt_reports.heartbeat([beat(job, progress=ProgressFigures(50.0))]) == [
            ReportRefusal.LEASE_LOST
        ]
        assert store.jobs.get(job_id) == before, "fenced-writes"


def test_no_heartbeat_holds_a_job_long_after_its_timeout(store: Store, clock: SettableClock) -> None:
    """Otherwise, a worker that hangs but still sends heartbeats would hold its job for ever."""
    (job_id,) = enqueue(store, spec={**SPEC, "timeout_seconds": 600})
    for attempt in range(1, 3):
        job = claim_as(store)
        clock.advance(600_000 + END_GRACE_MS)
        assert isinstance(store.attempt_reports.heartbeat([beat(job)])[0], ExtendedLease)
        clock.advance(1)
        assert store.attempt_reports.heartbeat([beat(job)]) == [ReportRefusal.LEASE_LOST]
        assert store.inbox.heartbeat([job], revive=True).held == frozenset(), "the same for local workers"
        clock.advance(60_000)
        store.inbox.sweep()
        assert store.jobs.get(job_id).status == JobStatus.QUEUED
        assert store.jobs.get(job_id).attempt_count == attempt
        clock.advance(3_600_000)
        store.inbox.sweep()


@pytest.mark.parametrize("timeout", [1e300, 2**62, -1, "1h", None, True])
def test_the_timeout_of_another_release_does_not_stop_claims(store: Store, timeout: object) -> None:
    (job_id,) = enqueue(store, spec={**SPEC, "timeout_seconds": timeout})
    job = claim_as(store)
    assert isinstance(store.attempt_reports.heartbeat([beat(job)])[0], ExtendedLease)
    store.attempt_ends.complete([completion(job)])
    assert store.jobs.get(job_id).hold_until is None


def test_no_heartbeat_holds_a_job_long_after_a_cancel(store: Store, clock: SettableClock) -> None:
    (job_id,) = enqueue(store)
    job = claim_as(store)
    store.control.cancel(job_id)
    for _ in range(2):
        clock.advance(END_GRACE_MS // 2)
        assert isinstance(store.attempt_reports.heartbeat([beat(job)])[0], ExtendedLease)
        store.control.cancel(job_id)  # a second request does not give the worker more time
    clock.advance(1)
    assert store.attempt_reports.heartbeat([beat(job)]) == [ReportRefusal.LEASE_LOST]
    clock.advance(60_000)
    store.inbox.sweep()
    assert check_path(store, job_id)[-1] == JobStatus.FAILED


def test_a_repeated_claim_does_not_hold_a_job_longer(store: Store, clock: SettableClock) -> None:
    enqueue(store, spec={**SPEC, "timeout_seconds": 600})
    claim_as(store, claim_id="c1", lease_ms=3_600_000)
    clock.advance(600_001 + END_GRACE_MS)
    (repeated,) = store.inbox.claim_for([ClaimRequest("w1", 1, claim_id="c1")])
    assert repeated.jobs == []


def test_a_heartbeat_after_the_end_holds_nothing(store: Store) -> None:
    """no-lease-at-rest"""
    (job_id,) = enqueue(store)
    job = claim_as(store)
    store.attempt_ends.complete([completion(job)])
    assert store.attempt_reports.heartbeat([beat(job)]) == [ReportRefusal.LEASE_LOST]
    assert store.jobs.get(job_id).lease_expires_at is None


def test_heartbeats_of_unknown_and_pruned_jobs_say_so(store: Store, clock: SettableClock) -> None:
    enqueue(store, 2, spec={"metadata": {}})
    held, gone = claim_as(store), claim_as(store)
    store.attempt_ends.complete([completion(gone)])
    clock.advance(10_000)
    list(store.prune.run(1_000))
    unknown = ReportedHeartbeat(key=AttemptKey("no such job", "a", 1))
    answers = store.attempt_reports.heartbeat([unknown, beat(held), beat(gone)])
    assert [answers[0], answers[2]] == [ReportRefusal.UNKNOWN_JOB, ReportRefusal.PRUNED]
    assert isinstance(answers[1], ExtendedLease)


def test_progress_rides_on_heartbeats_and_is_an_event_for_those_who_subscribed(store: Store) -> None:
    enqueue(store, spec=WITH_PROGRESS)
    enqueue(store)
    jobs = [claim_as(store), claim_as(store)]
    store.attempt_reports.heartbeat([beat(job, progress=ProgressFigures(41.5, 12.0, 3.1)) for job in jobs])
    for job, types in zip(jobs, (["claimed", "progress"], ["claimed"]), strict=True):
        row = store.jobs.get(job.job_id)
        assert (row.progress, row.eta_seconds, row.speed) == (41.5, 12.0, 3.1)
        assert event_types(store, job.job_id) == types
    store.attempt_reports.heartbeat([beat(jobs[0])])
    assert store.jobs.get(jobs[0].job_id).progress == 41.5, "a heartbeat without progress changes none"


def test_a_heartbeat_keeps_what_the_attempt_has_used(store: Store, clock: SettableClock) -> None:
    (job_id,) = enqueue(store)
    job = claim_as(store)
    store.attempt_reports.heartbeat([beat(job, timings={"cpu_seconds": 3.0})])
    clock.advance(60_001)
    store.inbox.sweep()
    (attempt,) = store.jobs.attempts(job_id)
    assert (attempt.outcome, attempt.timings) == ("lease_expired", {"cpu_seconds": 3.0})


def test_two_heartbeats_of_an_attempt_in_one_batch_are_both_answered(store: Store) -> None:
    (job_id,) = enqueue(store)
    job = claim_as(store)
    first, second = store.attempt_reports.heartbeat(
        [beat(job, progress=ProgressFigures(p)) for p in (10.0, 20.0)]
    )
    assert first == second
    assert store.jobs.get(job_id).progress == 20.0


@pytest.mark.parametrize(
    "progress", [ProgressFigures(101.0), ProgressFigures(1.0, speed=-1.0), ProgressFigures(float("nan"))]
)
def test_a_bad_heartbeat_is_refused_before_it_joins_a_batch(progress: ProgressFigures) -> None:
    with pytest.raises(InvalidSpec):
        ReportedHeartbeat(key=AttemptKey("j", "a", 1), progress=progress)


# -- statuses


def test_a_reported_status_is_written_and_renews_the_lease(store: Store, clock: SettableClock) -> None:
    (job_id,) = enqueue(store)
    job = claim_as(store)
    clock.advance(1_000)
    facts = {"duration_seconds": 60.0}
    for number, name in enumerate(IN_PROGRESS[1:]):
        report = status(job, name, lease_ms=5_000, values={"source_info": facts} if number == 1 else {})
        assert store.attempt_reports.advance([report]) == [Advanced(name, clock.now_ms + 5_000)]
    row = store.jobs.get(job_id)
    assert (row.status, row.worker_id, row.source_info) == (JobStatus.UPLOADING, "w1", facts)
    assert check_path(store, job_id) == [*IN_PROGRESS]


def test_a_status_reported_again_is_answered_and_changes_nothing(store: Store, clock: SettableClock) -> None:
    (job_id,) = enqueue(store)
    job = claim_as(store)
    first = store.attempt_reports.advance([status(job, "processing")])
    before = store.jobs.get(job_id), store.jobs.events(job_id)
    clock.advance(1_000)
    assert store.attempt_reports.advance([status(job, "processing")]) == first
    assert store.attempt_reports.advance([status(job, "fetching")] * 2) == first * 2, "it was late"
    assert (store.jobs.get(job_id), store.jobs.events(job_id)) == before


def test_a_status_that_was_not_reported_is_written_on_the_way(store: Store) -> None:
    (job_id,) = enqueue(store)
    store.attempt_reports.advance([status(claim_as(store), "uploading")])
    assert check_path(store, job_id) == [*IN_PROGRESS]


def test_statuses_of_many_jobs_are_written_together(store: Store) -> None:
    enqueue(store, 4)
    jobs = [claim_as(store, f"w{number}") for number in range(4)]
    names = ("fetching", "processing", "uploading", "fetching")
    answers = store.attempt_reports.advance(
        [status(job, name) for job, name in zip(jobs, names, strict=True)]
        + [
            status(jobs[3], "processing"),
            ReportedStatus(key=AttemptKey("no", "a", 1), status=JobStatus.FETCHING),
        ]
    )
    assert [answer.status if isinstance(answer, Advanced) else answer for answer in answers] == [
        *names[:3],
        "processing",
        "processing",
        ReportRefusal.UNKNOWN_JOB,
    ]
    for number, job in enumerate(jobs):
        row = store.jobs.get(job.job_id)
        assert (row.worker_id, row.event_sequence) == (f"w{number}", len(check_path(store, job.job_id)))


def test_a_stale_worker_cannot_report_a_status(store: Store, clock: SettableClock) -> None:
    """fenced-writes"""
    (job_id,) = enqueue(store)
    job = claim_as(store, lease_ms=1_000)
    clock.advance(1_001)
    store.inbox.sweep()
    for has_new_owner in (False, True):
        if has_new_owner:
            clock.advance(3_600_000)
            claim_as(store, "w2")
        before = store.jobs.get(job_id), store.jobs.events(job_id)
        assert store.attempt_reports.advance([status(job, "fetching")]) == [ReportRefusal.LEASE_LOST]
        assert (store.jobs.get(job_id), store.jobs.events(job_id)) == before


@pytest.mark.parametrize("name", ["queued", "claimed", "succeeded", "failed"])
def test_only_a_status_in_progress_is_reported(name: str) -> None:
    with pytest.raises(InvalidTransition):
        ReportedStatus(key=AttemptKey("j", "a", 1), status=JobStatus(name))
