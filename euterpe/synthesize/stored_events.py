"""Convert synthetic events and deliveries to rows of the store, with their bodies and delivery state."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from euterpe.domain.error_codes import RetryClass
from euterpe.domain.events import PROGRESS, event_body
from euterpe.domain.retry import Backoff
from euterpe.domain.states import JobStatus, Lane, OutboxStatus
from euterpe.store.queue.event_rows import as_json
from euterpe.synthesize.customers import RequesterProfile
from euterpe.synthesize.deliveries import MAX_TRIES
from euterpe.synthesize.outcomes import job_error

Row = Mapping[str, Any]
_BACKOFF = Backoff()
_SHOWS_ERROR = (JobStatus.FAILED, JobStatus.DEAD_LETTER)
_REPORT = {"progress": 50.0, "eta_seconds": 30.0, "speed": 3.0}


def pause_ms(failures: int) -> int:
    """Return the backoff before the next attempt, with the mean jitter."""
    return _BACKOFF.delay_ms(failures, RetryClass.TRANSIENT, 0.5)


def event_rows(
    job: Row,
    events: Sequence[Row],
    attempts: Sequence[Row],
    tries: Mapping[str, Sequence[Row]],
    who: RequesterProfile,
) -> Iterator[dict[str, Any]]:
    """Yield the outbox rows of one job; `job` is the job's row in the store."""
    left = iter(attempts)
    begun, attempt = 0, None
    for event in events:
        status = event["type"].removeprefix("job.")
        if status == JobStatus.CLAIMED:
            attempt = next(left, None)  # None if the control plane claimed a waiting job to cancel it
            begun += attempt is not None
        elif status == JobStatus.QUEUED and attempt is not None and attempt["outcome"] == "released":
            begun -= 1
        yield {
            "event_id": event["event_id"],
            "job_id": event["job_id"],
            "requester_id": event["requester_id"],
            "sequence": event["sequence"],
            "type": event["type"],
            "payload": _body(event, status, job, attempt, begun),
            "worker_id": None,
            "lease_expires_at": None,
            "heartbeat_at": None,
            "created_at": event["created_at"],
            **_state(event, tries[event["event_id"]], who, is_wanted=who.wants(status)),
        }


def _body(event: Row, status: str, job: Row, attempt: Row | None, begun: int) -> str:
    error = None
    if status in _SHOWS_ERROR:
        found = ("canceled", "queued") if attempt is None else (attempt["error_code"], attempt["error_phase"])
        error = as_json(job_error(*found).document())
    is_progress = event["type"] == PROGRESS
    return event_body(
        type_=event["type"],
        event_id=event["event_id"],
        sequence=event["sequence"],
        job_id=event["job_id"],
        status=JobStatus.PROCESSING if is_progress else status,
        occurred_at=event["created_at"],
        attempt_count=begun,
        external_id=as_json(job["external_id"]),
        metadata="{}",
        outputs=as_json(job["outputs"]) if status == JobStatus.SUCCEEDED else None,
        error=error,
        more="," + as_json(_REPORT)[1:-1] if is_progress else "",
    )


def _state(event: Row, tries: Sequence[Row], who: RequesterProfile, *, is_wanted: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "status": OutboxStatus.PENDING if is_wanted else OutboxStatus.SKIPPED,
        "lane": Lane.READY if is_wanted else Lane.REST,
        "available_at": event["created_at"],
        "claim_version": len(tries),
        "attempt_count": len(tries),
        "last_status_code": None,
        "last_error": None,
        "delivered_at": None,
        "origin": None,
    }
    return {**found, **_after(tries, who)} if tries else found


def _after(tries: Sequence[Row], who: RequesterProfile) -> dict[str, Any]:
    last = tries[-1]
    answers = [one["status_code"] for one in tries if one["status_code"] is not None]
    found = {"status": last["outcome"], "last_status_code": answers[-1] if answers else None}
    if last["outcome"] == OutboxStatus.DELIVERED:
        return {**found, "lane": Lane.REST, "delivered_at": last["ended_at"]}
    found["last_error"] = _reason(last, who)
    if last["outcome"] == OutboxStatus.DEAD_LETTER:
        return {**found, "lane": Lane.REST}
    return {**found, "lane": Lane.DELAYED, "available_at": last["ended_at"] + pause_ms(len(tries))}


def delivery_row(one: Row, who: RequesterProfile) -> dict[str, Any]:
    copied = {name: value for name, value in one.items() if name != "error_code"}
    return {**copied, "error": _reason(one, who), "answer": None if one["status_code"] is None else ""}


def _reason(one: Row, who: RequesterProfile) -> str | None:
    """Return the error text of the delivery log, or None for a success."""
    if one["error_code"] is None or who.receiver is None:
        return None
    spent = one["outcome"] == OutboxStatus.DEAD_LETTER
    return f"{who.receiver.error}; all {MAX_TRIES} attempts are spent" if spent else who.receiver.error
