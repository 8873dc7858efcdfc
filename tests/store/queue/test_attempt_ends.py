"""Ends of attempts: completed, failed and released.

An attempt ends once, and every repeated report is answered.
"""

import json
from dataclasses import replace
from typing import Any

import pytest

from euterpe.domain.error_codes import ErrorCode, RetryClass
from euterpe.domain.errors import InvalidSpec
from euterpe.domain.retry import JobError
from euterpe.domain.states import IN_PROGRESS, JobStatus
from euterpe.store.engine.group_commit import GroupCommit
from euterpe.store.queue.attempt_answers import (
    MAX_STACK,
    AttemptEnd,
    AttemptKey,
    EndAnswer,
    EndRefused,
    ReportRefusal,
)
from euterpe.store.queue.claims import ClaimedJob
from euterpe.store.store import Store
from tests.clock import SettableClock
from tests.store.attempts import (
    FLAKY,
    NOT_MEDIA,
    OUTPUTS,
    check_path,
    claim_as,
    completion,
    failure,
    key_of,
    release,
)
from tests.store.jobs import advance, enqueue, statuses

SUCCEEDED = EndAnswer("succeeded", JobStatus.SUCCEEDED)
LOST = EndRefused(ReportRefusal.LEASE_LOST, "lease_expired")
HOPELESS = replace(NOT_MEDIA, retry_override=RetryClass.UNRECOVERABLE)
LIMITED = JobError(ErrorCode.SANDBOX_FAILED, "no sandbox", "processing")


def end(store: Store, report: AttemptEnd) -> EndAnswer | EndRefused:
    (answer,) = store.attempt_ends.end([report])
    return answer


def answered(answer: EndAnswer | EndRefused) -> EndAnswer:
    assert isinstance(answer, EndAnswer)
    return answer


def snapshot(store: Store, job_id: str) -> tuple[Any, ...]:
    return store.jobs.get(job_id), store.jobs.events(job_id), store.jobs.attempts(job_id)


def run_out(store: Store, clock: SettableClock, job: ClaimedJob) -> None:
    """Let the lease expire, and sweep the job."""
    clock.advance(job.lease_ms + 1)
    store.inbox.sweep()


def next_attempt(store: Store, clock: SettableClock, job_id: str) -> ClaimedJob:
    clock.advance(3_600_000)
    job = claim_as(store, "w2")
    assert job.job_id == job_id
    return job


# -- the owner


@pytest.mark.parametrize("status", IN_PROGRESS)
def test_a_job_is_completed_from_every_status_with_an_event_for_each_step(
    store: Store, status: JobStatus
) -> None:
    (job_id,) = enqueue(store)
    job = claim_as(store)
    advance(store, job, until=status)
    assert end(store, completion(job)) == SUCCEEDED
    assert check_path(store, job_id) == [*IN_PROGRESS, "succeeded"]
    row = store.jobs.get(job_id)
    assert (row.status, row.progress, row.worker_id, row.lease_expires_at) == ("succeeded", 100.0, None, None)


def test_jobs_of_several_workers_in_several_statuses_complete_in_one_batch(store: Store) -> None:
    job_ids = enqueue(store, 8)
    jobs = [claim_as(store, f"w{number}", lease_ms=1_000 + number) for number in range(8)]
    for number, job in enumerate(jobs):
        advance(store, job, until=IN_PROGRESS[number % 4])
    assert store.attempt_ends.complete([completion(job) for job in jobs]) == [SUCCEEDED] * 8
    for job_id in job_ids:
        assert check_path(store, job_id) == [*IN_PROGRESS, "succeeded"]
        assert [attempt.outcome for attempt in store.jobs.attempts(job_id)] == ["succeeded"]


def test_a_completion_keeps_what_the_worker_reports(store: Store) -> None:
    (job_id,) = enqueue(store)
    job = claim_as(store)
    facts = {"duration_seconds": 60.0}
    warnings = [{"code": "audio_track_dropped", "output": "mp4", "message": "dropped"}]
    given: dict[str, Any] = {"source_info": facts, "warnings": warnings, "timings": {"cpu_seconds": 2.0}}
    end(store, completion(job, result={"artifact": "s3://x"}, **given))
    row, (attempt,) = store.jobs.get(job_id), store.jobs.attempts(job_id)
    assert (row.outputs, row.source_info, row.warnings) == (OUTPUTS, facts, warnings)
    assert (attempt.timings, attempt.result) == ({"cpu_seconds": 2.0}, {"artifact": "s3://x"})
    *_, last = store.jobs.events(job_id)
    assert json.loads(last.payload)["outputs"] == OUTPUTS
    assert "artifact" not in last.payload


def test_a_failed_attempt_is_queued_again_and_the_answer_says_when(
    store: Store, clock: SettableClock
) -> None:
    (job_id,) = enqueue(store)
    answer = answered(end(store, failure(claim_as(store), timings={"cpu_seconds": 1.0})))
    row = store.jobs.get(job_id)
    assert (answer.status, answer.requeued, answer.dlq) == (JobStatus.QUEUED, True, False)
    assert answer.next_attempt_at == row.available_at
    assert clock.now_ms + 500 <= row.available_at <= clock.now_ms + 1_000
    assert store.jobs.attempts(job_id)[0].timings == {"cpu_seconds": 1.0}
    assert check_path(store, job_id) == ["claimed", "queued"]


@pytest.mark.parametrize(
    ("error", "status"), [(NOT_MEDIA, JobStatus.FAILED), (HOPELESS, JobStatus.DEAD_LETTER)]
)
def test_a_failure_that_no_retry_helps_is_answered_with_dlq(
    store: Store, error: JobError, status: JobStatus
) -> None:
    (job_id,) = enqueue(store)
    answer = answered(end(store, failure(claim_as(store), error)))
    assert (answer.status, answer.requeued, answer.dlq) == (status, False, True)
    assert statuses(store, [job_id]) == [status]


def test_a_spent_budget_is_a_dead_letter(store: Store) -> None:
    (job_id,) = enqueue(store, max_attempts=1)
    answer = answered(end(store, failure(claim_as(store))))
    assert (answer.status, answer.dlq) == (JobStatus.DEAD_LETTER, True)
    assert check_path(store, job_id) == ["claimed", "failed", "dead_letter"]


def test_a_job_whose_cancel_was_requested_is_canceled_and_is_no_dead_letter(store: Store) -> None:
    for report in (failure, release):
        (job_id,) = enqueue(store)
        job = claim_as(store)
        store.control.cancel(job_id)
        answer = answered(end(store, report(job)))
        assert answer == EndAnswer("canceled", JobStatus.FAILED)
        assert (answer.requeued, answer.dlq) == (False, False)
        assert end(store, report(job)) == answer


def test_a_stack_is_kept_with_the_attempt_only(store: Store) -> None:
    (job_id,) = enqueue(store)
    end(store, failure(claim_as(store), stack="Traceback: canary\0" + "x" * 50_000))
    (attempt,), row = store.jobs.attempts(job_id), store.jobs.get(job_id)
    assert attempt.error is not None
    assert attempt.error["stack"].startswith("Traceback: canary")
    assert len(attempt.error["stack"]) <= MAX_STACK + 3
    assert (attempt.error_code, row.error_code) == (FLAKY.code, FLAKY.code)
    assert "canary" not in str(row)
    assert not [event for event in store.jobs.events(job_id) if "canary" in event.payload]


def test_an_error_without_a_phase_gets_the_status_of_the_job(store: Store) -> None:
    (job_id,) = enqueue(store)
    job = claim_as(store)
    advance(store, job, until=JobStatus.PROCESSING)
    end(store, failure(job, replace(FLAKY, phase="")))
    error = store.jobs.get(job_id).last_error
    assert error is not None
    assert error["phase"] == "processing"


def test_a_release_costs_no_attempt(store: Store, clock: SettableClock) -> None:
    (job_id,) = enqueue(store)
    answer = answered(end(store, release(claim_as(store), delay_ms=5_000)))
    assert answer == EndAnswer("released", JobStatus.QUEUED, clock.now_ms + 5_000)
    row = store.jobs.get(job_id)
    assert (row.attempt_count, row.available_at) == (0, clock.now_ms + 5_000)


def test_a_release_without_a_reason_is_ready_at_once(store: Store, clock: SettableClock) -> None:
    (job_id,) = enqueue(store)
    assert answered(end(store, release(claim_as(store)))).next_attempt_at == clock.now_ms
    assert claim_as(store).job_id == job_id


def test_the_pause_after_a_release_with_a_reason_grows(store: Store, clock: SettableClock) -> None:
    enqueue(store)
    pauses = []
    for _ in range(3):
        answer = answered(end(store, release(claim_as(store), reason=LIMITED)))
        pauses.append((answer.next_attempt_at or 0) - clock.now_ms)
        clock.advance(pauses[-1])
    assert all(2_500 * 2**n <= pause <= 5_000 * 2**n for n, pause in enumerate(pauses)), pauses


def test_a_release_is_charged_when_the_free_releases_are_spent(store: Store, clock: SettableClock) -> None:
    (job_id,) = enqueue(store)
    for _ in range(5):
        assert answered(end(store, release(claim_as(store), reason=LIMITED))).outcome == "released"
        clock.advance(3_600_000)
    job = claim_as(store)
    answer = answered(end(store, release(job, reason=LIMITED)))
    assert (answer.outcome, answer.requeued) == ("requeued", True)
    assert store.jobs.get(job_id).attempt_count == 1
    assert end(store, release(job, reason=LIMITED)) == answer


@pytest.mark.parametrize("code", [ErrorCode.INTERNAL_ERROR, ErrorCode.SOURCE_NOT_FOUND])
def test_a_release_for_a_fault_of_the_job_is_charged(store: Store, code: ErrorCode) -> None:
    (job_id,) = enqueue(store)
    answer = answered(end(store, release(claim_as(store), reason=JobError(code, "no", "fetching"))))
    assert answer.outcome != "released"
    assert store.jobs.get(job_id).attempt_count == 1


@pytest.mark.parametrize("reason", [None, JobError(ErrorCode.DISK_FULL, "no room", "fetching")])
def test_no_worker_can_give_a_job_back_for_ever(
    store: Store, clock: SettableClock, reason: JobError | None
) -> None:
    (job_id,) = enqueue(store)
    for _ in range(20):
        assert answered(end(store, release(claim_as(store), reason=reason, delay_ms=0))).outcome == "released"
        clock.advance(12 * 3_600_000)
    answer = answered(end(store, release(claim_as(store), reason=reason, delay_ms=0)))
    assert answer.outcome == "requeued"
    assert store.jobs.get(job_id).attempt_count == 1


def test_a_worker_that_gives_a_job_back_again_and_again_does_not_get_it_at_once(
    store: Store, clock: SettableClock
) -> None:
    enqueue(store)
    pauses = []
    for _ in range(5):
        answer = answered(end(store, release(claim_as(store), delay_ms=0)))
        pauses.append((answer.next_attempt_at or 0) - clock.now_ms)
        clock.advance(pauses[-1])
    assert pauses[:3] == [0, 0, 0]
    assert 2_500 <= pauses[3] <= 5_000 <= pauses[4]


def test_one_worker_that_lacks_a_folder_does_not_fail_a_job_that_another_could_run(
    store: Store, clock: SettableClock
) -> None:
    """Another worker has the folder, but is busy for two hours."""
    (job_id,) = enqueue(store)
    lacking = JobError(ErrorCode.STORAGE_ROOT_MISSING, "no such folder", "claimed")
    for _ in range(24):
        assert answered(end(store, release(claim_as(store), reason=lacking))).outcome == "released"
        clock.advance(300_000)
    assert statuses(store, [job_id]) == [JobStatus.QUEUED]


def test_a_group_goes_on_after_a_batch_of_all_kinds_of_ends(store: Store) -> None:
    waiting = enqueue(store, 4, group_id="album", group_limit=3)
    jobs = [claim_as(store, f"w{number}") for number in range(3)]
    reports: list[AttemptEnd] = [
        completion(jobs[0]),
        failure(jobs[1], HOPELESS),
        release(jobs[2], delay_ms=60_000),
    ]
    answers = [answered(answer) for answer in store.attempt_ends.end(reports)]
    assert [answer.status for answer in answers] == ["succeeded", "dead_letter", "queued"]
    assert claim_as(store).job_id == waiting[3]


# -- the same report again


@pytest.mark.parametrize("report", [completion, failure, release])
def test_a_repeated_report_gets_the_first_answer_and_changes_nothing(
    store: Store, clock: SettableClock, report: Any
) -> None:
    (job_id,) = enqueue(store)
    job = claim_as(store)
    first = end(store, report(job))
    before = snapshot(store, job_id)
    clock.advance(60_000)
    assert [end(store, report(job)) for _ in range(3)] == [first] * 3
    assert snapshot(store, job_id) == before


def test_a_repeated_report_with_another_body_gets_the_first_answer(store: Store) -> None:
    (job_id,) = enqueue(store)
    job = claim_as(store)
    end(store, completion(job))
    assert end(store, completion(job, outputs=[], timings={"cpu_seconds": 9.0})) == SUCCEEDED
    assert store.jobs.get(job_id).outputs == OUTPUTS
    (other_id,) = enqueue(store)
    other = claim_as(store)
    first = end(store, failure(other))
    assert end(store, failure(other, HOPELESS)) == first
    assert statuses(store, [other_id]) == [JobStatus.QUEUED]


def test_a_failure_reported_again_while_a_later_attempt_runs_gets_its_first_answer(
    store: Store, clock: SettableClock
) -> None:
    (job_id,) = enqueue(store)
    job = claim_as(store)
    first = end(store, failure(job))
    later = next_attempt(store, clock, job_id)
    before = snapshot(store, job_id)
    assert end(store, failure(job)) == first
    assert snapshot(store, job_id) == before, "fenced-writes"
    end(store, completion(later))
    assert end(store, failure(job)) == first


def test_a_failure_reported_again_after_the_dead_letter_gets_its_first_answer(
    store: Store, clock: SettableClock
) -> None:
    (job_id,) = enqueue(store, max_attempts=2)
    first_job = claim_as(store)
    first = end(store, failure(first_job))
    last_job = next_attempt(store, clock, job_id)
    last = end(store, failure(last_job))
    assert statuses(store, [job_id]) == [JobStatus.DEAD_LETTER]
    assert [end(store, failure(job)) for job in (first_job, last_job)] == [first, last]
    assert answered(first).requeued
    assert answered(last).dlq


def test_a_failure_reported_again_after_a_retry_by_a_person_gets_its_first_answer(
    store: Store, clock: SettableClock
) -> None:
    (job_id,) = enqueue(store)
    job = claim_as(store)
    first = end(store, failure(job, NOT_MEDIA))
    store.control.retry(job_id)
    next_attempt(store, clock, job_id)
    assert end(store, failure(job, NOT_MEDIA)) == first == EndAnswer("failed", JobStatus.FAILED)


def test_two_completions_of_an_attempt_in_one_batch_are_one(store: Store) -> None:
    (job_id,) = enqueue(store)
    job = claim_as(store)
    assert store.attempt_ends.complete([completion(job), completion(job, outputs=[])]) == [SUCCEEDED] * 2
    assert store.jobs.get(job_id).outputs == OUTPUTS
    assert check_path(store, job_id).count("succeeded") == 1


def test_of_two_different_ends_in_one_batch_the_first_counts(store: Store) -> None:
    enqueue(store)
    job = claim_as(store)
    answers = store.attempt_ends.end([completion(job), failure(job)])
    assert answers == [SUCCEEDED, EndRefused(ReportRefusal.ATTEMPT_ENDED, "succeeded")]


# -- after another end


def test_an_attempt_that_ended_in_another_way_is_refused_with_its_outcome(store: Store) -> None:
    for first, second, outcome in (
        (completion, failure, "succeeded"),
        (completion, release, "succeeded"),
        (failure, completion, "requeued"),
        (release, completion, "released"),
        (release, failure, "released"),
    ):
        (job_id,) = enqueue(store, queue=f"{first.__name__}-{second.__name__}")
        job = claim_as(store, queues=(f"{first.__name__}-{second.__name__}",))
        end(store, first(job))
        before = snapshot(store, job_id)
        assert end(store, second(job)) == EndRefused(ReportRefusal.ATTEMPT_ENDED, outcome)
        assert snapshot(store, job_id) == before, "terminal-forever"


@pytest.mark.parametrize("report", [completion, failure, release])
def test_a_lease_that_ran_out_and_was_not_swept_is_still_the_owners(
    store: Store, clock: SettableClock, report: Any
) -> None:
    enqueue(store)
    job = claim_as(store, lease_ms=1_000)
    clock.advance(3_600_000)
    answered(end(store, report(job)))


@pytest.mark.parametrize("report", [completion, failure, release])
def test_a_swept_attempt_is_refused_and_changes_nothing(
    store: Store, clock: SettableClock, report: Any
) -> None:
    """one-owner"""
    (job_id,) = enqueue(store)
    job = claim_as(store)
    run_out(store, clock, job)
    before = snapshot(store, job_id)
    assert end(store, report(job)) == LOST
    assert snapshot(store, job_id) == before, "fenced-writes"
    next_attempt(store, clock, job_id)
    before = snapshot(store, job_id)
    assert end(store, report(job)) == LOST
    assert snapshot(store, job_id) == before, "fenced-writes"


def test_an_attempt_that_never_was_is_refused(store: Store) -> None:
    (job_id,) = enqueue(store)
    (other_id,) = enqueue(store)
    job, other = claim_as(store), claim_as(store)
    forged = [
        AttemptKey(job_id, other.attempt_id, job.claim_version),
        AttemptKey(job_id, job.attempt_id, job.claim_version + 1),
        AttemptKey(other_id, job.attempt_id, job.claim_version),
        AttemptKey(job_id, "no such attempt", job.claim_version),
    ]
    before = [snapshot(store, found) for found in (job_id, other_id)]
    for key in forged:
        assert end(store, replace(completion(job), key=key)) == EndRefused(ReportRefusal.LEASE_LOST)
    assert [snapshot(store, found) for found in (job_id, other_id)] == before
    end(store, completion(other))
    assert end(store, replace(completion(job), key=forged[0])) == EndRefused(ReportRefusal.LEASE_LOST)


def test_an_unknown_job_is_refused(store: Store) -> None:
    enqueue(store)
    job = claim_as(store)
    report = replace(completion(job), key=AttemptKey("no such job", "no such attempt", 1))
    assert store.attempt_ends.end([report, completion(job)]) == [
        EndRefused(ReportRefusal.UNKNOWN_JOB),
        SUCCEEDED,
    ]


def test_a_pruned_job_is_refused_as_pruned(store: Store, clock: SettableClock) -> None:
    enqueue(store, spec={"metadata": {}})
    job = claim_as(store)
    end(store, completion(job))
    clock.advance(10_000)
    list(store.prune.run(1_000))
    assert end(store, completion(job)) == EndRefused(ReportRefusal.PRUNED)
    assert end(store, failure(job)) == EndRefused(ReportRefusal.PRUNED)


# -- in a group commit


def test_reports_of_many_callers_share_a_commit_and_each_gets_its_own_answer(store: Store) -> None:
    enqueue(store, 5)
    jobs = [claim_as(store, f"w{number}") for number in range(5)]
    ends: GroupCommit[AttemptEnd, EndAnswer | EndRefused] = GroupCommit(
        store.attempt_ends.end, name="ends", max_batch=store.attempt_ends.max_batch
    )
    stranger = replace(completion(jobs[0]), key=key_of(jobs[0])._replace(job_id="none", attempt_id="none"))
    waiting = [ends.submit(report) for report in [*map(completion, jobs), stranger]]
    ends.start()
    answers = [future.result(timeout=60) for future in waiting]
    ends.stop()
    assert answers == [*[SUCCEEDED] * 5, EndRefused(ReportRefusal.UNKNOWN_JOB)]


@pytest.mark.parametrize(
    "fields",
    [
        {"outputs": [{"x": float("nan")}]},
        {"timings": {"x": "a\0b"}},
        {"result": {"x": "y" * 300_000}},
        {"warnings": [{"x": "\ud800"}]},
    ],
)
def test_a_bad_report_is_refused_before_it_joins_a_batch(store: Store, fields: dict[str, Any]) -> None:
    enqueue(store)
    job = claim_as(store)
    with pytest.raises(InvalidSpec):
        completion(job, **fields)


LACKING = JobError(ErrorCode.STORAGE_ROOT_MISSING, "this worker has no such folder", "claimed")
HOUR_MS = 3_600_000


def release_often(store: Store, clock: SettableClock, times: int, reason: JobError = LACKING) -> None:
    """Let two workers in turn claim and release the only job, each time when the job is due."""
    for number in range(times):
        answer = answered(end(store, release(claim_as(store, f"w{number % 2}"), reason=reason)))
        assert answer.outcome == "released"
        clock.now_ms = answer.next_attempt_at or 0


def test_a_job_that_no_worker_can_run_fails_for_good(store: Store, clock: SettableClock) -> None:
    (job_id,) = enqueue(store)
    began = clock.now_ms
    release_often(store, clock, 20)
    row = store.jobs.get(job_id)
    assert (row.status, row.attempt_count, row.error_code) == ("queued", 0, "storage_root_missing")
    clock.now_ms = max(clock.now_ms, began + HOUR_MS + 5_000)
    job = claim_as(store)
    answer = answered(end(store, release(job, reason=LACKING)))
    assert (answer.outcome, answer.status, answer.dlq) == ("failed", JobStatus.FAILED, True)
    row = store.jobs.get(job_id)
    assert (row.error_code, row.attempt_count) == ("file_outside_roots", 1)
    assert end(store, release(job, reason=LACKING)) == answer


def test_a_job_that_waited_long_in_the_queue_still_has_its_releases(
    store: Store, clock: SettableClock
) -> None:
    enqueue(store)
    for _ in range(20):
        release_often(store, clock, 1)
        clock.advance(HOUR_MS)


def test_a_worker_cannot_use_up_the_releases_of_a_job_within_an_hour(
    store: Store, clock: SettableClock
) -> None:
    enqueue(store)
    began = clock.now_ms
    for _ in range(20):
        answer = answered(end(store, release(claim_as(store), reason=LACKING, delay_ms=0)))
        clock.now_ms = answer.next_attempt_at or 0
    assert clock.now_ms - began > HOUR_MS // 2


def test_each_code_has_its_own_releases(store: Store, clock: SettableClock) -> None:
    (job_id,) = enqueue(store)
    release_often(store, clock, 19)
    clock.advance(HOUR_MS)
    release_often(store, clock, 19, replace(LACKING, code=ErrorCode.FFMPEG_INCOMPLETE))
    clock.advance(HOUR_MS)
    assert store.jobs.get(job_id).status == "queued"


def test_a_person_can_retry_a_job_that_no_worker_could_run(store: Store, clock: SettableClock) -> None:
    (job_id,) = enqueue(store)
    release_often(store, clock, 20)
    clock.advance(HOUR_MS)
    assert answered(end(store, release(claim_as(store), reason=LACKING))).outcome == "failed"
    store.control.retry(job_id)
    release_often(store, clock, 20)
