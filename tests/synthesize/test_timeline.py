"""That made jobs live by the rules of the real ones."""

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


def told(job_id: str) -> list[str]:
    """The statuses, without what is no change of status."""
    types = [event["type"].removeprefix("job.") for event in EVENTS[job_id]]
    return [name for name in types if name != "progress"]


def chapters(job_id: str) -> list[list[str]]:
    """The statuses from each claim to the next."""
    found: list[list[str]] = []
    for status in told(job_id):
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


def test_events_tell_of_valid_transitions_alone() -> None:
    for job_id in JOBS:
        for source, target in pairwise(["queued", *told(job_id)]):
            assert JobStatus(target) in JOB_TRANSITIONS[JobStatus(source)], (job_id, told(job_id))


def test_a_job_is_what_its_last_event_says() -> None:
    for job_id, job in JOBS.items():
        assert job["status"] == ["queued", *told(job_id)][-1]
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


def test_each_attempt_has_a_chapter_that_ends_as_it_did() -> None:
    ends = {"succeeded": "succeeded", "requeued": "queued", "released": "queued"}
    for job_id in JOBS:
        own = chapters(job_id) if ATTEMPTS[job_id] else []
        assert len(own) == len(ATTEMPTS[job_id])
        for chapter, attempt in zip(own, ATTEMPTS[job_id], strict=True):
            if attempt["ended_at"] is None:
                assert chapter[-1] in IN_PROGRESS
            elif attempt["outcome"] in ends:
                assert chapter[-1] == ends[attempt["outcome"]]
            else:
                assert {"failed", "queued"} & set(chapter)
            assert chapter[0] == "claimed"


def test_what_follows_a_failure_is_what_the_rules_decide() -> None:
    seen = set()
    for job_id, job in JOBS.items():
        for attempt, chapter in zip(ATTEMPTS[job_id], chapters(job_id), strict=False):
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
            told = (
                "dead_letter" if "dead_letter" in chapter else "failed" if "failed" in chapter else "requeued"
            )
            assert isinstance(decision, DECIDED[told]), (job_id, attempt, chapter)
            seen.add(type(decision))
    assert seen == set(DECIDED.values())


def test_the_end_finds_jobs_in_every_state() -> None:
    assert {job["status"] for job in JOBS.values()} >= {"queued", "processing", *FINISHED}
    assert any(attempt["ended_at"] is None for attempt in history(PLAN, "attempts"))


def test_what_is_canceled_while_it_waits_has_no_attempt() -> None:
    waiting = [job for job in JOBS.values() if job["error_phase"] == "queued"]
    assert waiting
    for job in waiting:
        assert (job["status"], job["error_code"], told(job["job_id"])) == (
            "failed",
            "canceled",
            ["claimed", "failed"],
        )
        assert not ATTEMPTS[job["job_id"]]


def test_some_of_what_failed_is_retried_by_a_person() -> None:
    retried = [job_id for job_id in JOBS if "failed queued" in " ".join(told(job_id))]
    assert retried
    assert any(JOBS[job_id]["status"] == "succeeded" for job_id in retried)


def test_only_a_job_that_succeeded_lists_outputs_and_forgets_its_error() -> None:
    for job in JOBS.values():
        done = job["status"] == "succeeded"
        assert (job["outputs"] > 0, job["output_bytes"] is not None) == (done, done)
        assert job["error_code"] is None or not done
        assert done or job["status"] not in FINISHED or job["error_code"]


@pytest.mark.parametrize("outcome", ["lease_expired", "released"])
def test_a_worker_that_told_nothing_left_no_figures(outcome: str) -> None:
    silent: Rows = [attempt for attempt in history(PLAN, "attempts") if attempt["outcome"] == outcome]
    assert silent
    figures = ("fetch_ms", "encode_ms", "cpu_seconds", "bytes_in", "ffmpeg")
    assert {attempt[name] for attempt in silent for name in figures} == {None}


def test_steps_fit_into_their_attempt() -> None:
    steps = ("fetch_ms", "probe_ms", "encode_ms", "verify_ms", "upload_ms")
    for attempt in history(PLAN, "attempts"):
        if attempt["ended_at"] is not None:
            told = sum(attempt[name] or 0 for name in steps)
            assert told <= attempt["ended_at"] - attempt["started_at"]


def test_refreshes_are_counted_within_their_budget() -> None:
    found = [job for job in JOBS.values() if job["credential_version"] > 1]
    assert found
    assert max(job["refresh_count"] for job in JOBS.values()) == 3
