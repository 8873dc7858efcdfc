"""CHECK constraints refuse a row whose status, lane and lease contradict each other."""

from itertools import product

import pytest
import sqlalchemy as sa

from euterpe.domain.states import IN_PROGRESS, JobStatus, Lane, OutboxStatus
from euterpe.store.errors import StoreError
from euterpe.store.queue.enqueue import NewJob, new_row
from euterpe.store.store import Store
from euterpe.store.tables import inbox_jobs, job_outbox_events
from tests.store.jobs import SPEC

JOB_LANES: dict[str, set[str]] = {
    JobStatus.QUEUED: {Lane.READY, Lane.DELAYED, Lane.BLOCKED, Lane.CAPPED},
    **{status: {Lane.LEASED} for status in IN_PROGRESS},
    **{status: {Lane.REST} for status in (JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.DEAD_LETTER)},
}
EVENT_LANES: dict[str, set[str]] = {
    OutboxStatus.PENDING: {Lane.READY, Lane.DELAYED},
    OutboxStatus.CLAIMED: {Lane.LEASED},
    **{end: {Lane.REST} for end in (OutboxStatus.DELIVERED, OutboxStatus.DEAD_LETTER, OutboxStatus.SKIPPED)},
}
OWNED = ("worker_id", "lease_expires_at", "heartbeat_at")


def holds(store: Store, table: sa.Table, row: dict[str, object]) -> bool:
    try:
        with store.database.transaction() as connection:
            connection.execute(sa.insert(table).values(row))
            connection.rollback()
    except StoreError:
        return False
    return True


@pytest.mark.parametrize("status", [*JobStatus, "odd"])
def test_a_job_is_where_its_status_says(store: Store, status: str) -> None:
    job = new_row(NewJob(requester_id="r1", spec=SPEC, max_attempts=3), now=1, rank=1)
    for lane, group in product([*Lane, "odd"], [None, "g"]):
        lease = dict(zip(OWNED, ("w", 1, 1) if lane == Lane.LEASED else (None, None, None), strict=True))
        row = {**job, **lease, "status": status, "lane": lane, "group_id": group}
        may_be = lane in JOB_LANES.get(status, ()) and (lane != Lane.BLOCKED or group is not None)
        assert holds(store, inbox_jobs, row) is may_be, (status, lane, group)


@pytest.mark.parametrize("status", [*OutboxStatus, "odd"])
def test_an_event_is_where_its_status_says(store: Store, status: str) -> None:
    event = {"event_id": "e", "job_id": "j", "requester_id": "r", "sequence": 1, "type": "t", "payload": "{}"}
    event |= {"available_at": 1, "claim_version": 0, "attempt_count": 0, "created_at": 1}
    for lane in (*Lane, "odd"):
        lease = dict(zip(OWNED, ("w", 1, 1) if lane == Lane.LEASED else (None, None, None), strict=True))
        row = {**event, **lease, "status": status, "lane": lane}
        assert holds(store, job_outbox_events, row) is (lane in EVENT_LANES.get(status, ())), (status, lane)


@pytest.mark.parametrize("lane", [Lane.LEASED, Lane.READY])
def test_owned_rows_have_all_lease_columns_and_others_have_none(store: Store, lane: Lane) -> None:
    job = new_row(NewJob(requester_id="r1", spec=SPEC, max_attempts=3), now=1, rank=1)
    status = JobStatus.CLAIMED if lane is Lane.LEASED else JobStatus.QUEUED
    for given in product([False, True], repeat=3):
        lease = {
            name: ("w" if name == "worker_id" else 1) if is_set else None
            for name, is_set in zip(OWNED, given, strict=True)
        }
        row = {**job, **lease, "status": status, "lane": lane}
        assert holds(store, inbox_jobs, row) is (all(given) if lane is Lane.LEASED else not any(given)), given
