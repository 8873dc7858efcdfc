"""Tests of the fenced writes of an attempt."""

from collections.abc import Callable
from typing import Any

import pytest

from euterpe.control.store_plane import StorePlane
from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.leased_job import End, LeasedJob
from euterpe.domain.retry import JobError
from euterpe.domain.states import JobStatus
from euterpe.store.errors import StoreUnavailable
from euterpe.store.store import Store
from euterpe.worker.attempt_control import AttemptControl, LeaseLost
from euterpe.worker.recorder import AttemptRecorder
from tests.clock import SettableClock
from tests.store.jobs import event_types


@pytest.fixture
def recorder(plane: StorePlane, job: LeasedJob) -> AttemptRecorder:
    return AttemptRecorder(plane, AttemptControl(job, 60))


@pytest.fixture
def lose_lease(store: Store, clock: SettableClock) -> Callable[[], None]:
    def expire_and_sweep() -> None:
        clock.advance(1_001)
        store.inbox.sweep()

    return expire_and_sweep


def test_progress_that_has_not_moved_is_not_reported_again(
    store: Store, plane: StorePlane, job: LeasedJob, clock: SettableClock
) -> None:
    recorder = AttemptRecorder(plane, AttemptControl(job, 60), report_every_s=0.0)
    before = store.jobs.get(job.job_id).updated_at
    for percent in (10.0, 10.0, 4.0):
        clock.advance(100)
        recorder.report(percent)
    row = store.jobs.get(job.job_id)
    assert (row.progress, row.updated_at) == (10.0, before + 100)


def test_each_step_starts_from_the_status_that_the_last_one_set(
    store: Store, job: LeasedJob, recorder: AttemptRecorder
) -> None:
    recorder.advance(JobStatus.FETCHING)
    recorder.advance(JobStatus.PROCESSING, source_info={"duration_seconds": 2.0})
    row = store.jobs.get(job.job_id)
    assert (row.status, row.source_info) == ("processing", {"duration_seconds": 2.0})


def test_a_step_without_the_lease_is_refused(
    store: Store, job: LeasedJob, recorder: AttemptRecorder, lose_lease: Callable[[], None]
) -> None:
    lose_lease()
    with pytest.raises(LeaseLost):
        recorder.advance(JobStatus.FETCHING)
    with pytest.raises(LeaseLost):
        recorder.report(10.0)
    with pytest.raises(LeaseLost):
        recorder.prove_ownership(refers=False)
    assert recorder.fail(JobError(ErrorCode.ENCODE_FAILED, "…", "claimed"), {}) is End.STALE
    assert recorder.release({}) is End.STALE
    assert event_types(store, job.job_id) == ["claimed", "queued"]


def test_a_step_whose_response_was_lost_is_looked_up(
    store: Store, job: LeasedJob, recorder: AttemptRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transition is committed, and the connection breaks before the response arrives."""
    submit = store.inbox.submit_advance

    def commit_then_disconnect(step: Any) -> Any:
        monkeypatch.undo()
        submit(step).result()
        raise StoreUnavailable("the connection broke during the commit")

    monkeypatch.setattr(store.inbox, "submit_advance", commit_then_disconnect)
    recorder.advance(JobStatus.FETCHING)
    assert recorder.phase is JobStatus.FETCHING
    assert event_types(store, job.job_id) == ["claimed", "fetching"]


def test_reports_are_at_least_a_second_apart(store: Store, plane: StorePlane, job: LeasedJob) -> None:
    now = [0.0]
    recorder = AttemptRecorder(plane, AttemptControl(job, 60, clock=lambda: now[0]))
    for now[0], percent, shown in [(0.0, 10.0, 10.0), (0.9, 20.0, 10.0), (1.0, 30.0, 30.0)]:
        recorder.report(percent)
        assert store.jobs.get(job.job_id).progress == shown
    assert event_types(store, job.job_id) == ["claimed", "progress", "progress"]


def test_a_report_that_the_database_refuses_fails_no_attempt(
    store: Store, recorder: AttemptRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raise_unavailable(_: object) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(store.progress, "write", raise_unavailable)
    recorder.report(10.0)
