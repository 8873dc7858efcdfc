"""Progress reports of a job between two transitions."""

import json

import pytest

from euterpe.domain.errors import InvalidSpec
from euterpe.domain.states import JobStatus, OutboxStatus
from euterpe.domain.status import status_document
from euterpe.store.queue.progress import ProgressReport
from euterpe.store.queue.transition import Transition
from euterpe.store.store import Store
from tests.clock import SettableClock
from tests.store.jobs import SPEC, advance, claim_one, enqueue, event_types

WITH_PROGRESS = {**SPEC, "webhook_events": ["progress", "succeeded"]}


def test_a_report_is_in_the_status_document(store: Store) -> None:
    (job_id,) = enqueue(store)
    job = claim_one(store)
    assert store.progress.write([ProgressReport(job, 41.5, eta_seconds=12.0, speed=3.1)]) == {job_id}
    document = status_document(store.jobs.get(job_id))
    shown = ("progress", "eta_seconds", "speed")
    assert [document[name] for name in shown] == [41.5, 12.0, 3.1]
    store.progress.write([ProgressReport(job, 50.0)])
    document = status_document(store.jobs.get(job_id))
    assert [document[name] for name in shown] == [50.0, None, None]


def test_a_report_is_an_event_only_for_those_who_subscribed(store: Store) -> None:
    (job_id,) = enqueue(store, spec=WITH_PROGRESS)
    (other_id,) = enqueue(store)
    jobs = store.inbox.claim("w1", 2)
    store.progress.write([ProgressReport(job, 41.5, eta_seconds=12.0, speed=3.1) for job in jobs])
    assert event_types(store, job_id) == ["claimed", "progress"]
    assert event_types(store, other_id) == ["claimed"]
    event = store.jobs.events(job_id)[-1]
    body = json.loads(event.payload)
    assert (event.status, event.type) == (OutboxStatus.PENDING, "job.progress")
    assert (body["status"], body["sequence"]) == ("claimed", 2)
    assert (body["progress"], body["eta_seconds"], body["speed"]) == (41.5, 12.0, 3.1)


def test_progress_events_leave_no_gap_in_the_sequence(store: Store) -> None:
    (job_id,) = enqueue(store, spec=WITH_PROGRESS)
    job = claim_one(store)
    store.progress.write([ProgressReport(job, 10.0)])
    advance(store, job, until=JobStatus.SUCCEEDED)
    expected = ["claimed", "progress", "fetching", "processing", "uploading", "succeeded"]
    assert event_types(store, job_id) == expected


def test_a_stale_report_changes_nothing_and_is_refused(store: Store, clock: SettableClock) -> None:
    """fenced-writes"""
    (job_id,) = enqueue(store, spec=WITH_PROGRESS)
    job = claim_one(store, lease_ms=1_000)
    clock.advance(1_001)
    store.inbox.sweep()
    assert store.progress.write([ProgressReport(job, 99.0)]) == frozenset()
    assert store.jobs.get(job_id).progress == 0.0
    assert "progress" not in event_types(store, job_id)


def test_eta_and_speed_are_cleared_when_encoding_ends(store: Store) -> None:
    (job_id,) = enqueue(store)
    job = claim_one(store)
    advance(store, job, until=JobStatus.PROCESSING)
    store.progress.write([ProgressReport(job, 90.0, eta_seconds=1.0, speed=2.0)])
    store.inbox.advance([Transition.advance(job, JobStatus.PROCESSING, JobStatus.UPLOADING)])
    row = store.jobs.get(job_id)
    assert (row.progress, row.eta_seconds, row.speed) == (90.0, None, None)


@pytest.mark.parametrize(
    "figures", [{"progress": 101.0}, {"progress": float("nan")}, {"progress": 1.0, "speed": -1.0}]
)
def test_invalid_figures_are_refused(store: Store, figures: dict[str, float]) -> None:
    enqueue(store)
    job = claim_one(store)
    with pytest.raises(InvalidSpec):
        store.progress.write([ProgressReport(job, figures["progress"], speed=figures.get("speed"))])
