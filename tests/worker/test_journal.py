"""What an attempt writes, under the fence."""

from collections.abc import Callable
from typing import Any

import pytest

from euterpe.domain.retry import JobError
from euterpe.domain.states import JobStatus
from euterpe.store.clock import SettableClock
from euterpe.store.errors import StoreUnavailable
from euterpe.store.inbox import ClaimedJob
from euterpe.store.store import Store
from euterpe.worker.ends import LeaseLost
from euterpe.worker.heart import Pulse
from euterpe.worker.journal import Journal
from tests.store.jobs import told


@pytest.fixture
def journal(store: Store, job: ClaimedJob) -> Journal:
    return Journal(store, Pulse(job, 60))


@pytest.fixture
def lose(store: Store, clock: SettableClock) -> Callable[[], None]:
    def lost() -> None:
        clock.advance(1_001)
        store.inbox.tidy()

    return lost


def test_steps_go_on_from_where_the_last_one_got(store: Store, job: ClaimedJob, journal: Journal) -> None:
    journal.advance(JobStatus.FETCHING)
    journal.advance(JobStatus.PROCESSING, source_info={"duration_seconds": 2.0})
    row = store.jobs.get(job.job_id)
    assert (row["status"], row["source_info"]) == ("processing", {"duration_seconds": 2.0})


def test_a_step_without_the_lease_is_refused(
    store: Store, job: ClaimedJob, journal: Journal, lose: Callable[[], None]
) -> None:
    lose()
    with pytest.raises(LeaseLost):
        journal.advance(JobStatus.FETCHING)
    with pytest.raises(LeaseLost):
        journal.report(10.0)
    with pytest.raises(LeaseLost):
        journal.prove_ownership()
    journal.fail(JobError("encode_failed", "…", "claimed"), {})
    journal.release({})
    assert told(store, job.job_id) == ["claimed", "queued"]


def test_a_step_whose_answer_was_lost_is_looked_up(
    store: Store, job: ClaimedJob, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit was made, and the connection broke before we heard of it."""
    advance = store.advance

    def unheard(step: Any) -> Any:
        monkeypatch.undo()
        advance(step).result()
        raise StoreUnavailable("the connection broke during the commit")

    monkeypatch.setattr(store, "advance", unheard)
    journal.advance(JobStatus.FETCHING)
    assert journal.phase is JobStatus.FETCHING
    assert told(store, job.job_id) == ["claimed", "fetching"]


def test_reports_are_at_least_a_second_apart(store: Store, job: ClaimedJob, journal: Journal) -> None:
    for percent in (10.0, 20.0, 30.0):
        journal.report(percent)
    assert store.jobs.get(job.job_id)["progress"] == 10.0
    assert told(store, job.job_id) == ["claimed", "progress"]


def test_a_report_that_the_database_does_not_take_is_no_failure(
    store: Store, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: object) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(store.progress, "write", away)
    journal.report(10.0)
