"""Checks of all jobs, attempts and answers after a run of `RemoteFleet`."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from euterpe.domain.states import JobStatus
from tests.service.faulty_proxy import ReportedEnd
from tests.service.remote_fleet import RemoteFleet
from tests.service.store.processes.invariants import JobLife, check_lives, read_lives

# If an answer arrives at most this long before the sweep, the heartbeat comes too late to revive the lease.
_SLACK_S = 0.2


@dataclass(frozen=True)
class Figures:
    """The attempts of a run, counted by the cause of their end."""

    succeeded: int
    wanted_failures: int
    released: int  # the job was released, so the attempt was not charged
    hurt: int  # the lease expired because the worker was killed or frozen
    late: int  # the lease expired because the heartbeats of a running worker did not arrive
    outage: int  # the answer to the claim was lost, and the API was then down for longer than a lease
    held_up: int  # the answer to the claim arrived after the lease had expired
    copied: int  # after a restart, the API served the late copy of a claim without jobs as a new claim


def check_fleet(fleet: RemoteFleet) -> Figures:
    lives = read_lives(fleet.store)
    check_lives(lives)
    attempts = {attempt.attempt_id: attempt for life in lives.values() for attempt in life.attempts}
    for life in lives.values():
        _check_end_of(life)
    _check_answers(fleet.proxy.ends, attempts, lives)
    _check_journals(fleet, attempts)
    return _account(fleet, attempts)


def _check_end_of(life: JobLife) -> None:
    """Check that the job has ended exactly once, and that at most one attempt succeeded."""
    job, outcomes = life.job, Counter(attempt.outcome for attempt in life.attempts)
    ends = outcomes["succeeded"] + (job.status != JobStatus.SUCCEEDED)
    assert ends == 1, f"terminal-once: {job.job_id} is {job.status} after {outcomes}"
    assert life.statuses.count(JobStatus.SUCCEEDED) == outcomes["succeeded"], job.job_id
    for attempt in life.attempts:
        if attempt.outcome == "succeeded":
            outputs = [{"name": "out", "attempt": attempt.attempt_id}]
            assert job.outputs == outputs, f"fenced-writes: {job.job_id} has {job.outputs}, not {outputs}"
    wanted = job.spec["metadata"]
    if job.status == JobStatus.FAILED:
        assert wanted["code"] == "source_not_media", f"{job.job_id} failed without a reason"
    elif job.status == JobStatus.DEAD_LETTER and wanted["failures"] <= 2:
        assert outcomes["lease_expired"] > 0, f"{job.job_id} was given up without a reason"


def _check_answers(
    ends: Mapping[tuple[str, str], ReportedEnd], attempts: Mapping[str, Any], lives: Mapping[str, JobLife]
) -> None:
    """Check that all copies of an end got the same answer, and that this answer agrees with the database."""
    expected = {
        "complete": {"succeeded"},
        "fail": {"requeued", "failed"},
        "release": {"released"},
    }
    for (call, attempt_id), end in ends.items():
        first, attempt = end.answers[0], attempts[attempt_id]
        assert end.answers == [first] * len(end.answers), f"same-answer: {call} {attempt_id}: {end.answers}"
        status, document = first
        if status == 200:
            assert document["outcome"] == attempt.outcome, f"{call} {attempt_id}: {document}"
            assert attempt.outcome in expected[call], f"{call} {attempt_id}: {attempt.outcome}"
            if call == "complete":
                assert lives[attempt.job_id].job.status == JobStatus.SUCCEEDED, "acked-is-succeeded"
        else:
            assert (status, document["code"]) == (409, "lease_lost"), f"{call} {attempt_id}: {document}"
            assert attempt.outcome == "lease_expired", f"{call} {attempt_id}: {attempt.outcome}"


def _check_journals(fleet: RemoteFleet, attempts: Mapping[str, Any]) -> None:
    """Check that each attempt has one owner, and that the journals of the workers agree with the database."""
    claimed: set[str] = set()
    for worker in fleet.workers:
        for line in worker.lines():
            attempt = attempts[line["attempt_id"]]
            match line["event"]:
                case "claimed":
                    assert attempt.worker_id == worker.worker_id, "one-owner"
                    assert attempt.attempt_id not in claimed, "one-owner: an attempt ran twice"
                    claimed.add(attempt.attempt_id)
                case "succeeded":
                    assert attempt.outcome == "succeeded"
                case "failed":
                    assert attempt.outcome == line["end"]
                case "lost":
                    assert attempt.outcome == "lease_expired", f"{attempt} was not lost"


def _account(fleet: RemoteFleet, attempts: Mapping[str, Any]) -> Figures:
    """Check that each charged attempt has an allowed cause. A lost answer alone is not an allowed cause."""
    hurt = {worker.worker_id for worker in fleet.workers if worker.is_hurt}
    lines = [line for worker in fleet.workers for line in worker.lines()]
    claimed = {line["attempt_id"] for line in lines if line["event"] == "claimed"}
    late = {line["attempt_id"] for line in lines if line["event"] == "lost" and line["has_run_out"]}
    causes: Counter[str] = Counter()
    for attempt_id, attempt in attempts.items():
        match attempt.outcome:
            case "succeeded" | "released":
                causes[attempt.outcome] += 1
            case "requeued" | "failed":
                # A worker that is killed before it gets the answer to its report does not repeat the report.
                is_answered = ("fail", attempt_id) in fleet.proxy.ends
                assert is_answered or attempt.worker_id in hurt, f"no-burnt-attempt: {attempt}"
                assert attempt.error["message"] == "wanted", f"no-burnt-attempt: {attempt}"
                causes["wanted"] += 1
            case "lease_expired" if attempt.worker_id in hurt:
                causes["hurt"] += 1
            case "lease_expired" if attempt_id in late:
                causes["late"] += 1
            case "lease_expired" if attempt_id not in claimed and _fell_into_outage(fleet, attempt):
                causes["outage"] += 1
            case "lease_expired" if attempt_id not in claimed and _is_of_late_copy(fleet, attempt):
                causes["copied"] += 1
            case "lease_expired" if attempt_id not in claimed and _was_held_up(fleet, attempt):
                causes["held_up"] += 1
            case other:
                raise AssertionError(f"no-burnt-attempt: {other} of {attempt}")
    names = ("succeeded", "wanted", "released", "hurt", "late", "outage", "held_up", "copied")
    return Figures(*(causes[name] for name in names))


def _fell_into_outage(fleet: RemoteFleet, attempt: Any) -> bool:
    """Return whether the API was down at some time during this attempt."""
    began, ended = attempt.started_at / 1000, attempt.ended_at / 1000
    return any(since < ended and until > began for since, until in fleet.proxy.outages)


def _was_held_up(fleet: RemoteFleet, attempt: Any) -> bool:
    """Return whether the worker still waited for the answer to its claim when the lease was swept.

    The proxy holds up some answers for longer than a lease.
    """
    swept_at = attempt.ended_at / 1000
    requests = fleet.proxy.claims[attempt.claim_id.partition(":")[2]]
    return any(arrived_at < swept_at < ended_at + _SLACK_S for arrived_at, ended_at in requests)


def _is_of_late_copy(fleet: RemoteFleet, attempt: Any) -> bool:
    """Return whether the claim of this attempt was answered without jobs by an earlier API process.

    The next process does not know this claim id, so it serves a late copy of the claim as a new claim
    (a limit in docs/guarantees.md).
    """
    empty_at = fleet.proxy.empty_claims.get(attempt.claim_id.partition(":")[2])
    began = attempt.started_at / 1000
    return empty_at is not None and any(
        since < began and until > empty_at for since, until in fleet.proxy.outages
    )
