"""Synthetic jobs follow the rules of real jobs: transitions, attempts, retries, fields."""

from itertools import pairwise

import pytest

from euterpe.domain.retry import Backoff, DeadLetter, Fail, Requeue, decide_job
from euterpe.domain.states import FINISHED, IN_PROGRESS, JOB_TRANSITIONS, JobStatus
from euterpe.synthesize.outcomes import job_error
from tests.synthesize.made_history import PLAN, Rows, by, history

JOBS = {row["job_id"]: row for row in history(PLAN, "jobs")}
EVENTS = by("job_id", history(PLAN, "events"))
ATTEMPTS = by("job_id", history(PLAN, "attempts"))
DECIDED = {"requeued": Requeue, "failed": Fail, "dead_letter": DeadLetter}


def statuses_of(job_id: str) -> list[str]:
    """Return the statuses of a job in order, from its events except progress events."""
    types = [event["type"].removeprefix("job.") for event in EVENTS[job_id]]
    return [name for name in types if name != "progress"]


def statuses_by_attempt(job_id: str) -> list[list[str]]:
    """Return one list of statuses for each attempt. Each list begins with the claim."""
    found: list[list[str]] = []
    for status in statuses_of(job_id):
        if status == "claimed":
            found.append([])
        found[-1].append(status)
    return found


def test_sequences_have_no_gap_and_time_does_not_go_back() -> None:
    for job_id, job in JOBS.items():
        events = EVENTS[job_id]
        assert [event["sequence"] for event in events] == list(range(1, job["event_sequence"] + 1))
        instants = [job["created_at"], *(event["created_at"] for event in events)]
        assert instants == sorted(instants)


def test_events_are_valid_transitions() -> None:
    for job_id in JOBS:
        for source, target in pairwise(["queued", *statuses_of(job_id)]):
            assert JobStatus(target) in JOB_TRANSITIONS[JobStatus(source)], (job_id, statuses_of(job_id))


def test_a_job_is_what_its_last_event_says() -> None:
    for job_id, job in JOBS.items():
        assert job["status"] == ["queued", *statuses_of(job_id)][-1]
        last = EVENTS[job_id][-1]["created_at"] if EVENTS[job_id] else job["created_at"]
        assert job["updated_at"] == last
        assert job["finished_at"] == (last if job["status"] in FINISHED else None)


def test_attempts_are_numbered_and_their_versions_rise() -> None:
    for job_id, job in JOBS.items():
        attempts = ATTEMPTS[job_id]
        expected, number = [], 0
        for attempt in attempts:
            number += 1
            expected.append(number)
            number -= attempt["outcome"] == "released"
        assert [attempt["attempt_no"] for attempt in attempts] == expected
        assert job["attempt_count"] == number <= job["max_attempts"]
        for before, after in pairwise(attempts):
            assert after["claim_version"] == before["claim_version"] + (
                2 if before["outcome"] == "lease_expired" else 1
            )
            assert after["started_at"] >= before["ended_at"]
        assert job["started_at"] == (attempts[0]["started_at"] if attempts else None)


def test_the_statuses_of_each_attempt_end_as_it_did() -> None:
    ends = {"succeeded": "succeeded", "requeued": "queued", "released": "queued"}
    for job_id in JOBS:
        own = statuses_by_attempt(job_id) if ATTEMPTS[job_id] else []
        assert len(own) == len(ATTEMPTS[job_id])
        for names, attempt in zip(own, ATTEMPTS[job_id], strict=True):
            if attempt["ended_at"] is None:
                assert names[-1] in IN_PROGRESS
            elif attempt["outcome"] in ends:
                assert names[-1] == ends[attempt["outcome"]]
            else:
                assert {"failed", "queued"} & set(names)
            assert names[0] == "claimed"


def test_what_follows_a_failure_is_what_the_rules_decide() -> None:
    seen = set()
    for job_id, job in JOBS.items():
        for attempt, names in zip(ATTEMPTS[job_id], statuses_by_attempt(job_id), strict=False):
            if attempt["error_code"] is None:
                continue
            error = job_error(attempt["error_code"], attempt["error_phase"])
            decision = decide_job(
                error,
                attempt_count=attempt["attempt_no"],
                max_attempts=job["max_attempts"],
                cancel_requested=False,
                backoff=Backoff(),
                draw=0.5,
            )
            assert attempt["error_retryable"] == error.document()["retryable"]
            end = "dead_letter" if "dead_letter" in names else "failed" if "failed" in names else "requeued"
            assert isinstance(decision, DECIDED[end]), (job_id, attempt, names)
            seen.add(type(decision))
    assert seen == set(DECIDED.values())


def test_at_the_end_there_are_jobs_in_every_state() -> None:
    assert {job["status"] for job in JOBS.values()} >= {"queued", "processing", *FINISHED}
    assert any(attempt["ended_at"] is None for attempt in history(PLAN, "attempts"))


def test_a_job_canceled_while_queued_has_no_attempt() -> None:
    waiting = [job for job in JOBS.values() if job["error_phase"] == "queued"]
    assert waiting
    for job in waiting:
        assert (job["status"], job["error_code"], statuses_of(job["job_id"])) == (
            "failed",
            "canceled",
            ["claimed", "failed"],
        )
        assert not ATTEMPTS[job["job_id"]]


def test_some_failed_jobs_are_retried_on_request() -> None:
    retried = [job_id for job_id in JOBS if "failed queued" in " ".join(statuses_of(job_id))]
    assert retried
    assert any(JOBS[job_id]["status"] == "succeeded" for job_id in retried)


def test_only_a_job_that_succeeded_lists_outputs_and_forgets_its_error() -> None:
    for job in JOBS.values():
        done = job["status"] == "succeeded"
        assert (job["outputs"] > 0, job["output_bytes"] is not None) == (done, done)
        assert job["error_code"] is None or not done
        assert done or job["status"] not in FINISHED or job["error_code"]


@pytest.mark.parametrize("outcome", ["lease_expired", "released"])
def test_a_lost_or_released_attempt_has_no_figures(outcome: str) -> None:
    attempts: Rows = [attempt for attempt in history(PLAN, "attempts") if attempt["outcome"] == outcome]
    assert attempts
    figures = ("fetch_ms", "encode_ms", "cpu_seconds", "bytes_in", "ffmpeg")
    assert {attempt[name] for attempt in attempts for name in figures} == {None}


def test_steps_fit_into_their_attempt() -> None:
    steps = ("fetch_ms", "probe_ms", "encode_ms", "verify_ms", "upload_ms")
    for attempt in history(PLAN, "attempts"):
        if attempt["ended_at"] is not None:
            total = sum(attempt[name] or 0 for name in steps)
            assert total <= attempt["ended_at"] - attempt["started_at"]


def test_refreshes_are_counted_within_their_budget() -> None:
    found = [job for job in JOBS.values() if job["credential_version"] > 1]
    assert found
    assert max(job["refresh_count"] for job in JOBS.values()) == 3
