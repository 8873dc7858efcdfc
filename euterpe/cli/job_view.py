"""Show one job on a terminal: its progress, error, advice, times, outputs and warnings."""

import re
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from euterpe.cli.job_tables import Document, milliseconds, picture, show_outputs, show_warnings, took
from euterpe.cli.layout import flat
from euterpe.cli.output import fields, title
from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.states import FINISHED, IN_PROGRESS, JobStatus
from euterpe.domain.units import (
    format_bytes,
    format_clock,
    format_duration,
    format_largest_unit,
    format_seconds,
)

_BAR = 20

# This module formats these fields of the status document, and shows all other fields unchanged.
_FORMATTED = {
    *("job_id", "status", "progress", "eta_seconds", "speed", "attempt_count", "max_attempts", "queue"),
    *(
        "priority",
        "credential_version",
        "cancel_requested",
        "source_info",
        "outputs",
        "warnings",
        "error",
        "metadata",
    ),
    *("created_at", "updated_at", "started_at", "finished_at", "next_attempt_at"),
    *("requester_id", "group_id", "worker_id", "claim_version", "lease_expires_at", "spec"),
}
# Fields of the spec that are also in the status document.
_IN_STATUS = ("queue", "priority", "external_id", "metadata", "max_attempts", "credentials")
_LABELS = {
    "source": "from",
    "output": "to",
    "refresh_url": "refresh URL",
    "status_webhook_url": "webhook",
    "webhook_events": "sent events",
    "not_before": "not before",
    "timeout_seconds": "timeout",
    "max_source_bytes": "max source",
}
_LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")  # in Markdown


@dataclass(frozen=True)
class _Clock:
    """A formatter for instants: in local time, and on request with the distance from now."""

    now_ms: int

    def at(self, iso: str) -> str:
        local = datetime.fromisoformat(iso).astimezone()
        return f"{local:%Y-%m-%d %H:%M:%S %Z}"

    def ago(self, iso: str) -> str:
        passed_ms = self.now_ms - milliseconds(iso)
        distance = format_largest_unit(abs(passed_ms))
        return f"{self.at(iso)} ({distance} ago)" if passed_ms >= 0 else f"{self.at(iso)} (in {distance})"


def show_job(job: Document, now_ms: int | None = None) -> None:
    """Print the status document of a job.

    If the document has fields that only the operator may see, print these fields last.
    """
    clock = _Clock(int(time.time() * 1000) if now_ms is None else now_ms)
    title(job["job_id"], job["status"])
    fields({**_summary(job, clock), **_times(job, clock), **_operator_fields(job, clock)})
    show_outputs(job["outputs"])
    show_warnings(job.get("warnings") or ())


# -- parts of the summary


def _summary(job: Document, clock: _Clock) -> dict[str, object]:
    status = JobStatus(job["status"])
    others = {name.replace("_", " "): flat(value) for name, value in job.items() if _is_other(name, value)}
    return {
        **({"progress": _progress(job)} if status in IN_PROGRESS else {}),
        **_error(job, clock),
        "canceling": _canceling(job),
        "attempts": f"{job['attempt_count']} of {job['max_attempts']}",
        "queue": f"{job['queue']}, priority {job['priority']}",
        "source": _source(job["source_info"] or {}),
        **others,
        "metadata": flat(job["metadata"]) if job["metadata"] else None,
        "credentials": f"version {job['credential_version']}" if job["credential_version"] > 1 else None,
    }


def _is_other(name: str, value: object) -> bool:
    return name not in _FORMATTED and value not in (None, [], {})


def _progress(job: Document) -> str:
    percent = job["progress"] or 0.0
    done = round(_BAR * min(percent, 100.0) / 100)
    shown = [f"{'━' * done}{'─' * (_BAR - done)} {percent:.1f} %"]
    shown += [f"{job['speed']:.1f}x"] if job["speed"] is not None else []
    shown += [f"{format_clock(job['eta_seconds'])} to go"] if job["eta_seconds"] is not None else []
    return ", ".join(shown)


def _error(job: Document, clock: _Clock) -> dict[str, object]:
    """Return the fields of the error. The error of an unfinished job comes from an earlier attempt."""
    goes_on = job["status"] not in FINISHED
    waits = {"next attempt": clock.ago(job["next_attempt_at"])} if job["next_attempt_at"] else {}
    error = job["error"]
    if not error:
        return dict(waits)
    more = [f"while {error['phase']}"] if error.get("phase") else []
    more += ["not retried by itself"] if error.get("retryable") is False and not goes_on else []
    return {
        **waits,
        "last error" if goes_on else "error": ", ".join([str(error.get("code")), *more]),
        "detail": error.get("message"),
        "what helps": advice(error.get("code")),
    }


def advice(code: object) -> str | None:
    """Return the advice for an error code as plain text, or None for a code of a newer service."""
    known = next((known for known in ErrorCode if known == code), None)
    return known and _LINK.sub(r"\1", known.advice).replace("`", "")


def _canceling(job: Document) -> str | None:
    if not job["cancel_requested"] or job["status"] in FINISHED:
        return None
    return "its worker stops it at the next heartbeat, unless it ends before"


def _source(info: Document) -> str | None:
    if not info:
        return None
    parts = [format_seconds(info["duration_seconds"])] if info.get("duration_seconds") is not None else []
    parts += [format_bytes(info["size_bytes"])] if info.get("size_bytes") is not None else []
    return ", ".join([*parts, *map(_stream, info.get("streams") or ())])


def _stream(stream: Document) -> str:
    parts = [str(stream.get("codec") or stream.get("kind"))]
    parts += [picture(stream)] if stream.get("width") else []
    parts += [f"{stream['fps']:g} fps"] if stream.get("fps") else []
    parts += [f"{stream['channels']} ch"] if stream.get("channels") else []
    parts += [f"{stream['sample_rate'] / 1000:g} kHz"] if stream.get("sample_rate") else []
    return " ".join(parts)


def _times(job: Document, clock: _Clock) -> dict[str, object]:
    created, started, finished = (job[f"{name}_at"] for name in ("created", "started", "finished"))
    updated = job["updated_at"] if job["updated_at"] not in (created, started, finished) else None
    return {
        "created": clock.ago(created),
        "started": started and f"{clock.at(started)}, {took(created, started)} later",
        "updated": updated and clock.ago(updated),
        "finished": finished and f"{clock.at(finished)}, {took(started or created, finished)} later",
    }


def _operator_fields(job: Document, clock: _Clock) -> dict[str, object]:
    spec = job.get("spec") or {}
    requested = {
        name: value for name, value in spec.items() if name not in _IN_STATUS and value not in (None, {})
    }
    lease = job.get("lease_expires_at")
    return {
        "requester": job.get("requester_id"),
        "worker": job.get("worker_id") and f"{job['worker_id']}, claim version {job['claim_version']}",
        "lease ends": lease and clock.ago(lease),
        **{
            _LABELS.get(name, name): _format_spec_field(name, value, clock)
            for name, value in requested.items()
            if name != "outputs"
        },
        **{f"wants {output['name']}": _format_output(output) for output in requested.get("outputs", ())},
    }


def _format_spec_field(name: str, value: Any, clock: _Clock) -> str:
    """Return the value of a field of the spec as text for people."""
    if name in ("source", "output") and value.get("url"):
        return str(value["url"])
    if name == "not_before":
        return clock.ago(value)
    if name == "timeout_seconds":
        return format_duration(value * 1000)
    return format_bytes(value) if name == "max_source_bytes" else flat(value)


def _format_output(output: Document) -> str:
    return flat({name: _without_unset(value) for name, value in output.items() if name != "name"})


def _without_unset(value: Any) -> Any:
    """Return `video` or `audio` without the fields that are null. Return null unchanged."""
    if not isinstance(value, dict):
        return value
    return {name: inner for name, inner in value.items() if inner is not None}
