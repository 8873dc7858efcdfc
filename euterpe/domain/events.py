"""Events. Each transition has one event, and the webhook body of an event never changes."""

from collections.abc import Sequence
from typing import Literal

from euterpe.domain.states import JobStatus
from euterpe.domain.units import iso

_SHOWS_ERROR = (JobStatus.FAILED, JobStatus.DEAD_LETTER)
PROGRESS = "job.progress"

WebhookFormat = Literal["euterpe", "standard"]
"""The signature format of calls to the requester: the contract's (§8) or Standard Webhooks (decision 38)."""


def event_type(status: str) -> str:
    return f"job.{status}"


def is_wanted(status: str, webhook_url: str | None, webhook_events: Sequence[str] | None) -> bool:
    """Return whether the requester wants a webhook for this status.

    If the job has no list of `webhook_events`, every status is wanted.
    """
    if webhook_url is None:
        return False
    return webhook_events is None or status in webhook_events


def wants_progress(webhook_url: str | None, webhook_events: Sequence[str] | None) -> bool:
    """Return whether the requester wants progress events: `webhook_events` must contain `progress`."""
    return webhook_url is not None and webhook_events is not None and "progress" in webhook_events


def event_body(
    *,
    type_: str,
    event_id: str,
    sequence: int,
    job_id: str,
    status: str,
    occurred_at: int,
    attempt_count: int,
    external_id: str,
    metadata: str,
    outputs: str | None,
    error: str | None,
    more: str = "",
) -> str:
    """Return the exact body of the webhook. The body is stored, and every retry sends the same bytes.

    The last five arguments are JSON texts, because encoding the constant data of a job again for each event
    would be half of the work of a transition. `more` contains further members of the JSON object, each with a
    comma before it.
    """
    outputs = outputs if status == JobStatus.SUCCEEDED else None
    error = error if status in _SHOWS_ERROR else None
    return (
        f'{{"event_id":"{event_id}","sequence":{sequence},"type":"{type_}",'
        f'"job_id":"{job_id}","status":"{status}","occurred_at":"{iso(occurred_at)}",'
        f'"attempt_count":{attempt_count},"external_id":{external_id},"metadata":{metadata},'
        f'"outputs":{outputs or "[]"},"error":{error or "null"}{more}}}'
    )
