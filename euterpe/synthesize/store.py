"""Write a synthetic history directly into the configured store."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from euterpe.analytics.errors import AnalyticsError
from euterpe.domain.states import FINISHED, IN_PROGRESS, JobStatus, Lane
from euterpe.store.engine.database import Database
from euterpe.store.history.load import HistoryLoad, JobHistory
from euterpe.store.queue.enqueue import NewJob, new_row
from euterpe.synthesize.block import block
from euterpe.synthesize.customers import RequesterProfile, customer, named, requester_number
from euterpe.synthesize.documents import (
    external_id,
    output_documents,
    source_document,
    spec_document,
    timings_document,
)
from euterpe.synthesize.history_plan import HistoryPlan, OnProgress
from euterpe.synthesize.outcomes import job_error
from euterpe.synthesize.stored_events import delivery_row, event_rows, pause_ms

Row = Mapping[str, Any]
_LEASE_MS = 60_000
_PROGRESS = {"processing": 40.0, "uploading": 95.0, "succeeded": 100.0}


def lives(tables: Mapping[str, pa.Table], until_ms: int) -> Iterator[JobHistory]:
    """Yield each job with its attempts, events and deliveries, as rows of the store."""
    attempts = _grouped(tables["attempts"], "job_id")
    events = _grouped(tables["events"], "job_id")
    tries = _grouped(tables["deliveries"], "event_id")
    for job in _rows(tables["jobs"]):
        who = customer(requester_number(job["requester_id"]))
        own, job_events = attempts[job["job_id"]], events[job["job_id"]]
        row = _job(job, own, who, until_ms)
        yield JobHistory(
            row,
            [_attempt(attempt) for attempt in own],
            list(event_rows(row, job_events, own, tries, who)),
            [delivery_row(one, who) for event in job_events for one in tries[event["event_id"]]],
        )


def _rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    columns = [_plain(table.column(name)) for name in table.schema.names]
    for values in zip(*columns, strict=True):
        yield dict(zip(table.schema.names, values, strict=True))


def _plain(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        column = pc.divide(column.cast(pa.int64()), 1000)
    return column.to_pylist()  # type: ignore[no-any-return]


def _grouped(table: pa.Table, by: str) -> defaultdict[str, list[Row]]:
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for row in _rows(table):
        found[row[by]].append(row)
    return found


def _job(job: Row, attempts: Sequence[Row], who: RequesterProfile, until_ms: int) -> dict[str, Any]:
    new = NewJob(
        job_id=job["job_id"],
        requester_id=job["requester_id"],
        spec=spec_document(job, who),
        max_attempts=job["max_attempts"],
        queue=job["queue"],
        priority=job["priority"],
        group_id=job["group_id"],
        not_before=job["not_before"],
        external_id=external_id(job),
    )
    canceled = job["error_code"] == "canceled" and job["status"] == JobStatus.FAILED
    copied = ("status", "attempt_count", "refresh_count", "credential_version", "event_sequence")
    return {
        **new_row(new, job["created_at"], rank=0),
        **{name: job[name] for name in (*copied, "updated_at", "started_at", "finished_at")},
        **_place(job, attempts, until_ms),
        "claim_version": _claims(job, attempts),
        "cancel_requested_at": job["updated_at"] if canceled and attempts else None,
        "progress": _PROGRESS.get(job["status"], 0.0),
        "last_error": job["error_code"] and job_error(job["error_code"], job["error_phase"]).document(),
        "outputs": output_documents(job),
        "source_info": source_document(job),
    }


def _claims(job: Row, attempts: Sequence[Row]) -> int:
    """Return the job's claim version: the number of its claims and sweeps, and of cancels while it waited."""
    versions = attempts[-1]["claim_version"] + (attempts[-1]["outcome"] == "lease_expired") if attempts else 0
    return int(versions + (job["error_phase"] == JobStatus.QUEUED))


def _place(job: Row, attempts: Sequence[Row], until_ms: int) -> dict[str, Any]:
    """Return the columns for the job's lane, lease and owner."""
    if job["status"] in FINISHED:
        return {"lane": Lane.REST}
    if job["status"] in IN_PROGRESS:
        return {
            "lane": Lane.LEASED,
            "worker_id": attempts[-1]["worker_id"],
            "heartbeat_at": until_ms,
            "lease_expires_at": until_ms + _LEASE_MS,
        }
    if job["event_sequence"] == 0:
        return {}
    return {"lane": Lane.DELAYED, "available_at": job["updated_at"] + pause_ms(job["attempt_count"])}


def _attempt(attempt: Row) -> dict[str, Any]:
    code = attempt["error_code"]
    copied = (
        "attempt_id",
        "job_id",
        "attempt_no",
        "claim_version",
        "worker_id",
        "started_at",
        "ended_at",
        "outcome",
    )
    return {
        **{name: attempt[name] for name in copied},
        "error": code and job_error(code, attempt["error_phase"]).document(),
        "timings": timings_document(attempt),
        # These columns are null, as in an attempt that an earlier release of Euterpe ended.
        **dict.fromkeys(("claim_id", "end_status", "next_attempt_at", "result")),
    }


def synthesize_store(database: Database, plan: HistoryPlan, on_progress: OnProgress) -> int:
    """Write the history and return how many jobs were added. Skip the jobs that an earlier run has written.

    Raise `AnalyticsError` if the database has jobs of a real requester."""
    load = HistoryLoad(database)
    if stranger := load.requester_outside(key for key, _ in named(plan.requesters)):
        raise AnalyticsError(
            f"the database has jobs of {stranger}, a real requester: a synthetic history must not be mixed "
            "with a real one; use another database, or --lake"
        )
    load.name(named(plan.requesters), plan.since_ms)
    seen = added = 0
    for index in range(plan.blocks):
        for size, new in load.write(lives(block(plan, index), plan.until_ms)):
            seen, added = seen + size, added + new
            on_progress(seen)
    database.vacuum_and_analyze()
    return added
