"""What the world is told: one event for each transition, its body fixed once and for all."""

import json
from collections.abc import Sequence
from typing import Any

from euterpe.domain.instants import iso
from euterpe.domain.states import JobStatus

# Built once: json.dumps with these options would build it for every event.
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def event_type(status: JobStatus) -> str:
    return f"job.{status}"


def is_wanted(status: JobStatus, webhook_url: str | None, webhook_events: Sequence[str] | None) -> bool:
    """Whether a requester hears of this status; no list means every status change."""
    if webhook_url is None:
        return False
    return webhook_events is None or status in webhook_events


def event_body(
    *,
    event_id: str,
    sequence: int,
    job_id: str,
    status: JobStatus,
    occurred_at: int,
    attempt_count: int,
    external_id: str | None,
    metadata: Any,
    outputs: Any,
    error: Any,
) -> str:
    """The exact body of the webhook: it is stored, and sent byte for byte on every retry."""
    return _encode(
        {
            "event_id": event_id,
            "sequence": sequence,
            "type": event_type(status),
            "job_id": job_id,
            "status": status,
            "occurred_at": iso(occurred_at),
            "attempt_count": attempt_count,
            "external_id": external_id,
            "metadata": metadata or {},
            "outputs": outputs if status is JobStatus.SUCCEEDED and outputs else [],
            "error": error if status in (JobStatus.FAILED, JobStatus.DEAD_LETTER) else None,
        }
    )
