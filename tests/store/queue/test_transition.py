"""Transition: its constructors set the right values in a row, and no value overrides the fence."""

import pytest

from euterpe.domain.errors import InvalidSpec, InvalidTransition
from euterpe.domain.states import JobStatus, Lane
from euterpe.store.queue.event_rows import EventContext
from euterpe.store.queue.transition import Fence, Transition

FENCE = Fence("job", 7, JobStatus.CLAIMED)
CONTEXT = EventContext("r1", "default", None, "null", "{}", None, None)


class Job:
    job_id, claim_version, worker_id, lease_ms, context = "job", 7, "w1", 60_000, CONTEXT


def test_no_value_can_override_the_fence() -> None:
    """`fenced-writes`: the fence's columns are set after the values, and replace values of the same names."""
    values = {"key": "another job", "version": 8, "source": "queued", "outcome": "failed"}
    row = Transition.finish(FENCE, JobStatus.FAILED, Lane.REST, values=values).row()
    assert (row["key"], row["version"], row["source"]) == FENCE
    assert row["outcome"] == "failed"


def test_a_claim_takes_ownership_and_counts_an_attempt() -> None:
    claim = Transition.claim(FENCE, JobStatus.CLAIMED, worker_id="w1", lease_ms=1)
    assert (claim.lane, claim.worker_id, claim.lease_ms) == (Lane.LEASED, "w1", 1)
    assert (claim.raises_version, claim.attempts) == (True, 1)


def test_a_claim_to_cancel_counts_no_attempt() -> None:
    claim = Transition.claim_to_cancel(FENCE, JobStatus.CLAIMED, worker_id="w1", context=CONTEXT)
    assert (claim.lane, claim.lease_ms, claim.raises_version, claim.attempts) == (Lane.LEASED, 0, True, 0)


def test_a_step_forward_keeps_its_owner_until_the_job_has_succeeded() -> None:
    step = Transition.advance(Job(), JobStatus.CLAIMED, JobStatus.FETCHING)
    assert (step.lane, step.worker_id, step.lease_ms, step.raises_version) == (None, "w1", 60_000, False)
    end = Transition.advance(Job(), JobStatus.UPLOADING, JobStatus.SUCCEEDED)
    assert (end.lane, end.worker_id, end.lease_ms) == (Lane.REST, None, None)


def test_only_a_job_in_progress_moves_forward() -> None:
    with pytest.raises(InvalidTransition):
        Transition.advance(Job(), JobStatus.QUEUED, JobStatus.CLAIMED)


def test_a_step_forward_takes_reported_fields_only() -> None:
    with pytest.raises(InvalidSpec, match="last_error"):
        Transition.advance(Job(), JobStatus.CLAIMED, JobStatus.FETCHING, {"last_error": {}})


def test_a_release_returns_the_attempt_and_the_end_of_one_does_not() -> None:
    release = Transition.release(FENCE, JobStatus.QUEUED, Lane.READY)
    finish = Transition.finish(FENCE, JobStatus.QUEUED, Lane.DELAYED, delay_ms=5)
    assert (release.attempts, finish.attempts) == (-1, 0)
    assert (release.worker_id, finish.worker_id) == (None, None)


def test_an_expired_owner_is_fenced_off_at_once() -> None:
    assert Transition.expire(FENCE, JobStatus.QUEUED, Lane.READY).raises_version
    assert not Transition.finish(FENCE, JobStatus.QUEUED, Lane.READY).raises_version


def test_rows_with_and_without_values_have_statements_of_one_shape() -> None:
    plain = Transition.finish(FENCE, JobStatus.FAILED, Lane.REST)
    filled = Transition.finish(FENCE, JobStatus.FAILED, Lane.REST, values={"last_error": {}})
    assert plain.shape == filled.shape
    assert (plain.has_values, filled.has_values) == (False, True)
