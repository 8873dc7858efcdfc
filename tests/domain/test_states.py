import itertools

import pytest

from euterpe.domain.errors import InvalidTransition
from euterpe.domain.states import (
    FINISHED,
    IN_PROGRESS,
    JOB_TRANSITIONS,
    OUTBOX_TRANSITIONS,
    JobStatus,
    Lane,
    OutboxStatus,
    QueueJobStatus,
    check_job_transition,
    check_outbox_transition,
    check_queue_job_transition,
    check_retry_budget,
    lane_when_queued,
)

# The transitions of contract §3, written out a second time, independently of the code.
CONTRACT = {
    ("queued", "claimed"),
    ("claimed", "fetching"),
    ("fetching", "processing"),
    ("processing", "uploading"),
    ("uploading", "succeeded"),
    *itertools.product(("claimed", "fetching", "processing", "uploading"), ("queued", "failed")),
    ("failed", "queued"),
    ("failed", "dead_letter"),
}


def test_valid_transitions_are_those_of_the_contract() -> None:
    assert {(s, t) for s, targets in JOB_TRANSITIONS.items() for t in targets} == CONTRACT


def test_every_pair_of_states_is_allowed_or_rejected_with_its_names() -> None:
    for source, target in itertools.product(JobStatus, JobStatus):
        if (source, target) in CONTRACT:
            check_job_transition(source, target)
        else:
            with pytest.raises(InvalidTransition, match=f"{source} -> {target}") as refused:
                check_job_transition(source, target)
            assert (refused.value.source, refused.value.target) == (source, target)


def test_terminal_forever() -> None:
    assert not JOB_TRANSITIONS[JobStatus.SUCCEEDED]
    assert not JOB_TRANSITIONS[JobStatus.DEAD_LETTER]
    assert JOB_TRANSITIONS[JobStatus.FAILED] == {JobStatus.QUEUED, JobStatus.DEAD_LETTER}


def test_every_state_is_queued_in_progress_or_finished() -> None:
    assert {JobStatus.QUEUED, *IN_PROGRESS, *FINISHED} == set(JobStatus)
    assert set(JOB_TRANSITIONS) == set(JobStatus)


def test_a_skipped_event_stays_skipped() -> None:
    assert not OUTBOX_TRANSITIONS[OutboxStatus.SKIPPED]
    for source, target in itertools.product(OutboxStatus, OutboxStatus):
        if target not in OUTBOX_TRANSITIONS[source]:
            with pytest.raises(InvalidTransition):
                check_outbox_transition(source, target)


def test_a_queue_job_ends_once_and_waits_again_only_after_a_claim() -> None:
    allowed = {("queued", "claimed"), ("claimed", "queued"), ("claimed", "succeeded"), ("claimed", "failed")}
    for source, target in itertools.product(QueueJobStatus, QueueJobStatus):
        if (source, target) in allowed:
            check_queue_job_transition(source, target)
        else:
            with pytest.raises(InvalidTransition, match=f"{source} -> {target}"):
                check_queue_job_transition(source, target)


def test_a_retry_needs_budget() -> None:
    check_retry_budget(2, 3)
    for spent in (3, 4):
        with pytest.raises(InvalidTransition, match="all 3 attempts are spent"):
            check_retry_budget(spent, 3)


def test_the_lane_of_a_queued_job() -> None:
    assert lane_when_queued(None, 0) is Lane.READY
    assert lane_when_queued("g", 0) is Lane.BLOCKED
    assert lane_when_queued(None, 1) is lane_when_queued("g", 1) is Lane.DELAYED
