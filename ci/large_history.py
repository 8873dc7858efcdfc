"""Fill a database with a history and a backlog by bulk insert, for benchmarks."""

from collections.abc import Iterator
from typing import Any

from euterpe.domain.states import JobStatus, Lane, OutboxStatus
from euterpe.store.engine.bulk_insert import BulkInsert
from euterpe.store.engine.database import Database
from euterpe.store.engine.ids import new_ids
from euterpe.store.queue.enqueue import NewJob, new_row
from euterpe.store.tables import inbox_jobs, job_outbox_events

_SPEC = {"profile": "h264-720p", "metadata": {}, "status_webhook_url": "https://requester.example/hook"}
_BATCH = 5_000
_State = dict[str, Any]
_FINISHED: _State = {"status": JobStatus.SUCCEEDED, "lane": Lane.REST, "attempt_count": 1, "finished_at": 1}
_DELIVERED: _State = {"status": OutboxStatus.DELIVERED, "lane": Lane.REST}
_PENDING: _State = {"status": OutboxStatus.PENDING, "lane": Lane.READY}


def add_history(database: Database, *, finished: int, waiting: int) -> None:
    """Insert finished jobs, each with a delivered event, and waiting jobs, each with a pending event."""
    insert_jobs = BulkInsert(database.engines, inbox_jobs, inbox_jobs.columns.keys())
    insert_events = BulkInsert(database.engines, job_outbox_events, tuple(_event("", "", {})))
    for count, job_state, event_state in (
        *_batches(finished, _FINISHED, _DELIVERED),
        *_batches(waiting, {}, _PENDING),
    ):
        job_ids, event_ids = new_ids(count), new_ids(count)
        jobs = (NewJob(requester_id="history", spec=_SPEC, max_attempts=3, job_id=i) for i in job_ids)
        with database.transaction() as connection:
            now = database.read_clock(connection)
            rows = [{**new_row(job, now, rank), "event_sequence": 1} for rank, job in enumerate(jobs)]
            insert_jobs(connection, [{**row, **job_state} for row in rows])
            events = [_event(*ids, event_state) for ids in zip(job_ids, event_ids, strict=True)]
            insert_events(connection, events)


def _batches(count: int, job: _State, event: _State) -> Iterator[tuple[int, _State, _State]]:
    for start in range(0, count, _BATCH):
        yield min(_BATCH, count - start), job, event


def _event(job_id: str, event_id: str, state: _State) -> _State:
    return {
        "event_id": event_id,
        "job_id": job_id,
        "requester_id": "history",
        "sequence": 1,
        "type": "job.succeeded",
        "payload": "{}",
        "status": None,
        "lane": None,
        "available_at": 1,
        "created_at": 1,
        **state,
    }
