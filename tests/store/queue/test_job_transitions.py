"""Tests of two invariants: `valid-transitions` in store and database, and `event-per-transition`."""

import json

import pytest
import sqlalchemy as sa

from euterpe.domain.error_codes import ErrorCode, RetryClass
from euterpe.domain.errors import InvalidTransition
from euterpe.domain.retry import Backoff, JobError
from euterpe.domain.states import (
    FINISHED,
    IN_PROGRESS,
    JOB_TRANSITIONS,
    OUTBOX_TRANSITIONS,
    JobStatus,
    Lane,
    OutboxStatus,
)
from euterpe.store.errors import Conflict, NotFound, StoreError
from euterpe.store.queue.attempt_answers import EndAnswer
from euterpe.store.queue.event_rows import EventContext
from euterpe.store.queue.fairness.fair_shares import FairShares
from euterpe.store.queue.job_transitions import JobTransitions
from euterpe.store.queue.transition import Fence, Transition
from euterpe.store.store import Store
from euterpe.store.tables import inbox_jobs, job_outbox_events
from tests.clock import SettableClock
from tests.store.attempts import fail_job, release_job
from tests.store.jobs import SPEC, advance, claim_one, enqueue, event_types, statuses

FLAKY = JobError(ErrorCode.SOURCE_UNREACHABLE, "it broke", "fetching", RetryClass.TRANSIENT)
HOPELESS = JobError(
    ErrorCode.OUTPUT_UNSUPPORTED, "there is no such codec", "processing", RetryClass.UNRECOVERABLE
)
REFUSED = JobError(ErrorCode.SOURCE_NOT_MEDIA, "not a media file", "fetching")


def lane_of(status: JobStatus) -> Lane:
    if status in IN_PROGRESS:
        return Lane.LEASED
    return Lane.REST if status in FINISHED else Lane.READY


def put(store: Store, status: JobStatus) -> str:
    """Insert a job in this status by SQL, because no UPDATE can reach every status. Return its id."""
    (job_id,) = enqueue(store)
    owned = lane_of(status) is Lane.LEASED
    with store.database.transaction() as connection:
        row = connection.execute(sa.select(inbox_jobs).where(inbox_jobs.c.job_id == job_id)).mappings().one()
        connection.execute(sa.delete(inbox_jobs).where(inbox_jobs.c.job_id == job_id))
        there: dict[str, object] = {
            "status": status,
            "lane": lane_of(status),
            "worker_id": "w1" if owned else None,
        }
        there |= {"lease_expires_at": 1 if owned else None, "heartbeat_at": 1 if owned else None}
        connection.execute(sa.insert(inbox_jobs).values({**row, **there}))
    return job_id


def apply(store: Store, job_id: str, version: int, source: JobStatus, target: JobStatus) -> set[str]:
    context = EventContext("r1", "default", None, "null", "{}", None, None)
    with store.database.transaction() as connection:
        one = Transition.finish(Fence(job_id, version, source), target, lane_of(target), context=context)
        if lane_of(target) is Lane.LEASED:
            one = one._replace(worker_id="w1", lease_ms=1_000)
        return set(JobTransitions(store.database, FairShares(store.database)).apply(connection, [one]))


@pytest.mark.parametrize("source", JobStatus)
def test_valid_transitions_hold_for_whoever_writes_sql_by_hand(store: Store, source: JobStatus) -> None:
    for target in JobStatus:
        job_id = put(store, source)
        owned = lane_of(target) is Lane.LEASED
        by_hand = sa.update(inbox_jobs).where(inbox_jobs.c.job_id == job_id)
        by_hand = by_hand.values(
            status=target,
            lane=lane_of(target),
            worker_id="w1" if owned else None,
            lease_expires_at=1 if owned else None,
            heartbeat_at=1 if owned else None,
        )
        if target is source or target in JOB_TRANSITIONS[source]:
            with store.database.transaction() as connection:
                assert connection.execute(by_hand).rowcount == 1
        else:
            with pytest.raises(InvalidTransition), store.database.transaction() as connection:
                connection.execute(by_hand)
            assert statuses(store, [job_id]) == [source]


@pytest.mark.parametrize("source", OutboxStatus)
def test_the_outbox_has_its_own_transitions_also_for_sql_by_hand(store: Store, source: OutboxStatus) -> None:
    lanes = {OutboxStatus.PENDING: Lane.READY, OutboxStatus.CLAIMED: Lane.LEASED}
    for number, target in enumerate(OutboxStatus):

        def columns(status: OutboxStatus) -> dict[str, object]:
            owned = status is OutboxStatus.CLAIMED
            lease = dict.fromkeys(("lease_expires_at", "heartbeat_at"), 1 if owned else None)
            return {
                "status": status,
                "lane": lanes.get(status, Lane.REST),
                "worker_id": "w" if owned else None,
                **lease,
            }

        event_id = f"{source}-{target}"
        made = {"job_id": "j", "requester_id": "r", "sequence": number + 1, "type": "t", "payload": "{}"}
        made |= {"available_at": 1, "claim_version": 0, "attempt_count": 0, "created_at": 1}
        with store.database.transaction() as connection:
            row = {"event_id": event_id, **made, **columns(source)}
            connection.execute(sa.insert(job_outbox_events).values(row))
        by_hand = sa.update(job_outbox_events).where(job_outbox_events.c.event_id == event_id)
        by_hand = by_hand.values(columns(target))
        if target is source or target in OUTBOX_TRANSITIONS[source]:
            with store.database.transaction() as connection:
                connection.execute(by_hand)
        else:
            with pytest.raises(InvalidTransition), store.database.transaction() as connection:
                connection.execute(by_hand)


@pytest.mark.parametrize("source", JobStatus)
def test_the_one_writing_function_knows_no_other_edges(store: Store, source: JobStatus) -> None:
    for target in JobStatus:
        job_id = put(store, source)
        if target in JOB_TRANSITIONS[source]:
            assert apply(store, job_id, 0, source, target) == {job_id}
            assert event_types(store, job_id) == [target]
        else:
            with pytest.raises(InvalidTransition):
                apply(store, job_id, 0, source, target)
            assert event_types(store, job_id) == []


def test_the_whole_life_of_a_job_is_five_events_and_one_attempt(store: Store) -> None:
    (job_id,) = enqueue(store)
    assert advance(store, claim_one(store), until=JobStatus.SUCCEEDED)
    assert event_types(store, job_id) == ["claimed", "fetching", "processing", "uploading", "succeeded"]
    row = store.jobs.get(job_id)
    assert (row.event_sequence, row.progress, row.finished_at) == (5, 100.0, row.updated_at)
    (attempt,) = store.jobs.attempts(job_id)
    assert (attempt.outcome, attempt.ended_at) == ("succeeded", row.updated_at)


def test_an_event_carries_the_whole_truth_of_its_moment(store: Store) -> None:
    (job_id,) = enqueue(store, external_id="asset-42")
    fail_job(store, claim_one(store), REFUSED)
    claimed, failed = (json.loads(event.payload) for event in store.jobs.events(job_id))
    assert claimed["error"] is None
    assert failed == {
        "event_id": store.jobs.events(job_id)[1].event_id,
        "sequence": 2,
        "type": "job.failed",
        "job_id": job_id,
        "status": "failed",
        "occurred_at": "2027-01-15T08:00:00.000Z",
        "attempt_count": 1,
        "external_id": "asset-42",
        "metadata": SPEC["metadata"],
        "outputs": [],
        "error": REFUSED.document(),
    }


def test_events_that_nobody_asked_for_are_skipped_and_still_numbered(store: Store) -> None:
    quiet = {**SPEC, "status_webhook_url": None}
    picky = {**SPEC, "webhook_events": ["succeeded", "failed"]}
    for spec, expected in ((quiet, {"skipped"}), (picky, {"skipped", "pending"})):
        (job_id,) = enqueue(store, spec=spec)
        advance(store, claim_one(store), until=JobStatus.SUCCEEDED)
        assert len(event_types(store, job_id)) == 5
        events = store.jobs.events(job_id)
        assert {event.status for event in events} == expected
    assert [event.type for event in events if event.status == "pending"] == ["job.succeeded"]


def test_a_transition_and_its_event_are_one_transaction(store: Store) -> None:
    (job_id,) = enqueue(store)
    job = claim_one(store)
    event = sa.update(job_outbox_events).where(job_outbox_events.c.job_id == job_id)
    with store.database.transaction() as connection:
        connection.execute(event.values(sequence=2))  # the next event would have this sequence
    with pytest.raises(StoreError):
        apply(store, job_id, job.claim_version, JobStatus.CLAIMED, JobStatus.FETCHING)
    assert statuses(store, [job_id]) == [JobStatus.CLAIMED], "event-per-transition"
    assert [event.sequence for event in store.jobs.events(job_id)] == [2]


def status_after(answer: EndAnswer | None) -> JobStatus | None:
    return None if answer is None else answer.status


def test_a_retryable_failure_waits_its_backoff_and_comes_back(store: Store, clock: SettableClock) -> None:
    (job_id,) = enqueue(store)
    answer = fail_job(store, claim_one(store), FLAKY, timings={"fetch_ms": 12})
    assert answer is not None
    row = store.jobs.get(job_id)
    assert (row.status, row.available_at) == (answer.status, answer.next_attempt_at)
    assert row.status == JobStatus.QUEUED
    assert clock.now_ms < row.available_at <= clock.now_ms + Backoff().cap_ms
    assert row.last_error == FLAKY.document()
    (attempt,) = store.jobs.attempts(job_id)
    assert (attempt.outcome, attempt.timings) == ("requeued", {"fetch_ms": 12})
    assert store.inbox.claim("w1", 1) == []
    clock.advance(row.available_at - clock.now_ms)
    assert claim_one(store).attempt_count == 2
    assert event_types(store, job_id) == ["claimed", "queued", "claimed"]


def test_a_spent_budget_is_two_transitions_and_two_events(store: Store, clock: SettableClock) -> None:
    (job_id,) = enqueue(store, max_attempts=2)
    fail_job(store, claim_one(store), FLAKY)
    clock.advance(Backoff().cap_ms)
    assert status_after(fail_job(store, claim_one(store), FLAKY)) is JobStatus.DEAD_LETTER
    assert event_types(store, job_id) == ["claimed", "queued", "claimed", "failed", "dead_letter"]
    row = store.jobs.get(job_id)
    assert (row.status, row.attempt_count) == (JobStatus.DEAD_LETTER, 2), "budget"


def test_an_unrecoverable_failure_is_a_dead_letter_at_once(store: Store) -> None:
    (job_id,) = enqueue(store)
    assert status_after(fail_job(store, claim_one(store), HOPELESS)) is JobStatus.DEAD_LETTER
    assert event_types(store, job_id) == ["claimed", "failed", "dead_letter"]


def test_a_permanent_failure_rests_and_may_be_retried_by_a_person(store: Store) -> None:
    (job_id,) = enqueue(store)
    assert status_after(fail_job(store, claim_one(store), REFUSED)) is JobStatus.FAILED
    store.control.retry(job_id)
    row = store.jobs.get(job_id)
    assert (row.status, row.finished_at) == (JobStatus.QUEUED, None)
    advance(store, claim_one(store), until=JobStatus.SUCCEEDED)
    assert store.jobs.get(job_id).last_error is None


def test_no_retry_without_budget_and_none_of_what_has_not_failed(store: Store) -> None:
    (job_id,) = enqueue(store, max_attempts=1)
    with pytest.raises(Conflict, match="queued"):
        store.control.retry(job_id)
    job = claim_one(store)
    store.control.cancel(job_id)
    fail_job(store, job, FLAKY)
    with pytest.raises(InvalidTransition, match="all 1 attempts are spent"):
        store.control.retry(job_id)
    with pytest.raises(NotFound):
        store.control.retry("no-such-job")


def test_a_lease_that_runs_out_requeues_and_at_the_end_buries(store: Store, clock: SettableClock) -> None:
    (job_id,) = enqueue(store, max_attempts=2)
    for _ in range(2):
        claim_one(store, lease_ms=1_000)
        clock.advance(1_001)
        assert store.inbox.sweep() == 1
        clock.advance(Backoff().cap_ms)
    assert event_types(store, job_id) == ["claimed", "queued", "claimed", "failed", "dead_letter"]
    assert [a.outcome for a in store.jobs.attempts(job_id)] == ["lease_expired", "lease_expired"]
    assert store.jobs.get(job_id).error_code == "lease_expired"


def test_a_queued_job_is_canceled_by_a_claim_that_is_no_attempt(store: Store) -> None:
    (job_id,) = enqueue(store)
    assert store.control.cancel(job_id) is JobStatus.FAILED
    row = store.jobs.get(job_id)
    assert (row.status, row.attempt_count, row.started_at) == (JobStatus.FAILED, 0, None)
    assert row.error_code == "canceled"
    assert event_types(store, job_id) == ["claimed", "failed"]
    assert store.jobs.attempts(job_id) == []
    with pytest.raises(Conflict):
        store.control.cancel(job_id)


def test_a_heartbeat_reports_the_cancel_of_a_running_job(store: Store) -> None:
    (job_id,) = enqueue(store)
    job = claim_one(store)
    assert not store.inbox.heartbeat([job]).cancel_requested
    assert store.control.cancel(job_id) is JobStatus.CLAIMED
    assert store.inbox.heartbeat([job]).cancel_requested == {job_id}
    assert status_after(fail_job(store, job, FLAKY)) is JobStatus.FAILED, "a canceled job is not requeued"
    assert store.jobs.get(job_id).error_code == "canceled"
    store.control.retry(job_id)
    assert not store.inbox.heartbeat([claim_one(store)]).cancel_requested, "a retry forgets the cancel"


def test_a_canceled_job_of_a_dead_worker_is_failed_by_the_sweep(store: Store, clock: SettableClock) -> None:
    (job_id,) = enqueue(store)
    claim_one(store, lease_ms=1_000)
    store.control.cancel(job_id)
    clock.advance(1_001)
    store.inbox.sweep()
    assert statuses(store, [job_id]) == [JobStatus.FAILED]
    assert event_types(store, job_id) == ["claimed", "failed"]


def test_a_released_job_that_was_canceled_is_not_queued_again(store: Store) -> None:
    (job_id,) = enqueue(store)
    job = claim_one(store)
    store.control.cancel(job_id)
    assert release_job(store, job)
    assert statuses(store, [job_id]) == [JobStatus.FAILED]


def test_another_requesters_job_does_not_exist(store: Store) -> None:
    (job_id,) = enqueue(store, requester_id="r1")
    for action in (store.control.cancel, store.control.retry, store.jobs.get):
        with pytest.raises(NotFound):
            action(job_id, requester_id="r2")
    assert store.jobs.get(job_id, requester_id="r1").job_id == job_id
