"""HistoryLoad writes jobs that were made elsewhere, with their attempts, events and deliveries."""

from collections.abc import Sequence
from typing import Any

import pytest
import sqlalchemy as sa

from euterpe.domain.rows import columns
from euterpe.domain.states import JobStatus, Lane, OutboxStatus
from euterpe.store.engine.ids import new_ids
from euterpe.store.errors import NotFound, StoreError
from euterpe.store.history.load import HistoryLoad, JobHistory, Written
from euterpe.store.queue.enqueue import new_row
from euterpe.store.store import Store
from euterpe.store.tables import job_attempts, job_deliveries, job_outbox_events
from tests.store.jobs import new_job

AT = 1_700_000_000_000


def row_of(table: sa.Table, **values: Any) -> dict[str, Any]:
    return {**dict.fromkeys(table.columns.keys()), **values}


def history_of(job_id: str) -> JobHistory:
    """Return a claimed job with one delivered event."""
    (attempt_id, event_id, delivery_id), ids = new_ids(3), {"job_id": job_id, "requester_id": "r1"}
    lease = {"worker_id": "w1", "lease_expires_at": AT + 60_000, "heartbeat_at": AT}
    claim = {"status": JobStatus.CLAIMED, "lane": Lane.LEASED, "claim_version": 1, "attempt_count": 1}
    job = {**new_row(new_job(job_id=job_id), AT, None), **claim, **lease}
    attempt = row_of(
        job_attempts,
        attempt_id=attempt_id,
        job_id=job_id,
        attempt_no=1,
        claim_version=1,
        worker_id="w1",
        started_at=AT,
    )
    body = {"sequence": 1, "type": "job.claimed", "payload": '{"a":"tab\\t, line\\n, ж"}', "created_at": AT}
    state = {"status": OutboxStatus.DELIVERED, "lane": Lane.REST, "available_at": AT, "delivered_at": AT}
    event = row_of(
        job_outbox_events, event_id=event_id, claim_version=1, attempt_count=1, **ids, **body, **state
    )
    sent = {"claim_version": 1, "worker_id": "d1", "outcome": "delivered", "duration_ms": 5, "ended_at": AT}
    return JobHistory(
        job,
        [attempt],
        [event],
        [row_of(job_deliveries, delivery_id=delivery_id, event_id=event_id, **ids, **sent)],
    )


def histories(count: int) -> Sequence[JobHistory]:
    return [history_of(job_id) for job_id in new_ids(count)]


def test_loaded_jobs_read_back_as_they_were_given(store: Store) -> None:
    (one,) = histories(1)
    assert list(HistoryLoad(store.database).write([one])) == [Written(1, 1)]
    job = columns(store.jobs.get(one.job["job_id"]))
    assert job == {name: one.job[name] for name in job}
    assert [columns(row) for row in store.jobs.attempts(one.job["job_id"])] == one.attempts
    (event,) = store.jobs.events(one.job["job_id"])
    assert columns(event) == one.events[0]
    assert [columns(row) for row in store.jobs.delivery_log(event.event_id)] == one.deliveries


def test_existing_jobs_are_left_unchanged(store: Store) -> None:
    load, some = HistoryLoad(store.database), histories(700)
    assert list(load.write(some[:500])) == [Written(500, 500)]
    assert list(load.write(some)) == [Written(500, 0), Written(200, 200)]
    assert len(store.jobs.page(limit=1_000)) == 700


def test_a_transaction_that_fails_leaves_nothing_of_its_jobs(store: Store) -> None:
    good, bad = histories(2)
    bad.events[0]["sequence"] = 0  # type: ignore[index]
    with pytest.raises(StoreError, match="outbox_sequence"):
        list(HistoryLoad(store.database).write([good, bad]))
    with pytest.raises(NotFound):
        store.jobs.get(good.job["job_id"])


def test_a_load_is_part_of_the_history_from_its_beginning(store: Store) -> None:
    (one,) = histories(1)
    list(HistoryLoad(store.database).write([one]))
    assert [job.job_id for job in store.jobs.page()] == [one.job["job_id"]]


def test_requesters_are_named_once(store: Store) -> None:
    taken = store.requesters.create("Harbour News").requester_id
    load = HistoryLoad(store.database)
    for _ in range(2):
        load.name([("r1", "Nordlicht"), ("r2", "Harbour News")], AT)
    found = {row.name: row.requester_id for row in store.requesters.all()}
    assert found == {"Nordlicht": "r1", "Harbour News": taken}
