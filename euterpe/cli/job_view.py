"""Show one job on a terminal: its progress, error, outputs, attempts and webhooks, each fact once."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from euterpe.cli.layout import flat
from euterpe.cli.output import fields, out, table, title
from euterpe.domain.states import FINISHED, IN_PROGRESS, JobStatus, OutboxStatus
from euterpe.domain.units import (
    format_bytes,
    format_clock,
    format_duration,
    format_largest_unit,
    format_seconds,
)

Document = Mapping[str, Any]

SHOWN_ROWS = 20  # attempts, and events, without --all
_BAR = 20

# Fields of the status document that the view words in its own way; it shows any other field as it is.
_WORDED = {
    *("job_id", "status", "progress", "eta_seconds", "speed", "attempt_count", "max_attempts", "queue"),
    *("priority", "credential_version", "cancel_requested", "source_info", "outputs", "error", "metadata"),
    *("created_at", "updated_at", "started_at", "finished_at", "next_attempt_at"),
    *("requester_id", "group_id", "worker_id", "claim_version", "lease_expires_at", "spec"),
}
# Fields of the spec that the status document has too.
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


@dataclass(frozen=True)
class _Clock:
    """Instants in local time, each with its distance from now."""

    now_ms: int

    def at(self, iso: str) -> str:
        local = datetime.fromisoformat(iso).astimezone()
        return f"{local:%Y-%m-%d %H:%M:%S %Z}"

    def ago(self, iso: str) -> str:
        passed_ms = self.now_ms - _milliseconds(iso)
        distance = format_largest_unit(abs(passed_ms))
        return f"{self.at(iso)} ({distance} ago)" if passed_ms >= 0 else f"{self.at(iso)} (in {distance})"


def show_job(job: Document, now_ms: int | None = None) -> None:
    """Print the status document of a job; the operator's own fields, if it has them, come last."""
    clock = _Clock(int(time.time() * 1000) if now_ms is None else now_ms)
    title(job["job_id"], job["status"])
    fields({**_summary(job, clock), **_times(job, clock), **_operators_own(job, clock)})
    show_outputs(job["outputs"])


def show_outputs(outputs: Sequence[Document]) -> None:
    """Print a table of the outputs of a job, if it has any."""
    if not outputs:
        return
    out("")
    title("outputs")
    table(("name", "files", "size", "length", "picture", "url"), map(_output, outputs))


def show_attempts(attempts: Sequence[Document], job: Document, *, all_: bool) -> None:
    """Print a table of the attempts. An error that the job itself shows is not printed again."""
    if not attempts:
        return
    out("")
    title("attempts")
    known = (job["error"] or {}).get("message")
    columns = ("no", "outcome", "started", "took", "cpu", "in", "out", "worker", "error")
    table(columns, (_attempt(row, job, known) for row in _last(attempts, all_)), below=2)
    _say_cut(attempts, all_)


def show_events(events: Sequence[Document], job: Document, *, all_: bool) -> None:
    """Print a table of the events with the state of their webhooks."""
    if not events:
        return
    out("")
    if all(event["status"] == OutboxStatus.SKIPPED for event in events):
        title("events, none of them sent: the job asked for no webhook")
    else:
        title("events and their webhooks")
    columns = ("no", "event", "occurred", "webhook", "sends", "answer", "id", "error")
    table(columns, _events(_last(events, all_), job), below=2)
    _say_cut(events, all_)


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
    return name not in _WORDED and value not in (None, [], {})


def _progress(job: Document) -> str:
    percent = job["progress"] or 0.0
    done = round(_BAR * min(percent, 100.0) / 100)
    shown = [f"{'━' * done}{'─' * (_BAR - done)} {percent:.1f} %"]
    shown += [f"{job['speed']:.1f}x"] if job["speed"] is not None else []
    shown += [f"{format_clock(job['eta_seconds'])} to go"] if job["eta_seconds"] is not None else []
    return ", ".join(shown)


def _error(job: Document, clock: _Clock) -> dict[str, object]:
    """Return the error; that of an unfinished job is from an earlier attempt."""
    goes_on = job["status"] not in FINISHED
    waits = {"next attempt": clock.ago(job["next_attempt_at"])} if job["next_attempt_at"] else {}
    error = job["error"]
    if not error:
        return dict(waits)
    more = [f"while {error['phase']}"] if error.get("phase") else []
    more += ["no retry can help"] if error.get("retryable") is False and not goes_on else []
    return {
        **waits,
        "last error" if goes_on else "error": ", ".join([str(error.get("code")), *more]),
        "detail": error.get("message"),
    }


def _canceling(job: Document) -> str | None:
    if not job["cancel_requested"] or job["status"] in FINISHED:
        return None
    return "its worker stops at its next heartbeat, unless it is done by then"


def _source(info: Document) -> str | None:
    if not info:
        return None
    parts = [format_seconds(info["duration_seconds"])] if info.get("duration_seconds") is not None else []
    parts += [format_bytes(info["size_bytes"])] if info.get("size_bytes") is not None else []
    return ", ".join([*parts, *map(_stream, info.get("streams") or ())])


def _stream(stream: Document) -> str:
    parts = [str(stream.get("codec") or stream.get("kind"))]
    parts += [_picture(stream)] if stream.get("width") else []
    parts += [f"{stream['fps']:g} fps"] if stream.get("fps") else []
    parts += [f"{stream['channels']} ch"] if stream.get("channels") else []
    parts += [f"{stream['sample_rate'] / 1000:g} kHz"] if stream.get("sample_rate") else []
    return " ".join(parts)


def _picture(shown: Document) -> str:
    return f"{shown['width']}×{shown['height']}" if shown.get("width") else ""


def _times(job: Document, clock: _Clock) -> dict[str, object]:
    created, started, finished = (job[f"{name}_at"] for name in ("created", "started", "finished"))
    updated = job["updated_at"] if job["updated_at"] not in (created, started, finished) else None
    return {
        "created": clock.ago(created),
        "started": started and f"{clock.at(started)}, {_took(created, started)} later",
        "updated": updated and clock.ago(updated),
        "finished": finished and f"{clock.at(finished)}, {_took(started or created, finished)} later",
    }


def _operators_own(job: Document, clock: _Clock) -> dict[str, object]:
    spec = job.get("spec") or {}
    asked = {
        name: value for name, value in spec.items() if name not in _IN_STATUS and value not in (None, {})
    }
    lease = job.get("lease_expires_at")
    return {
        "requester": job.get("requester_id"),
        "worker": job.get("worker_id") and f"{job['worker_id']}, claim version {job['claim_version']}",
        "lease ends": lease and clock.ago(lease),
        **{
            _LABELS.get(name, name): _asked(name, value, clock)
            for name, value in asked.items()
            if name != "outputs"
        },
        **{f"wants {output['name']}": _wanted(output) for output in asked.get("outputs", ())},
    }


def _asked(name: str, value: Any, clock: _Clock) -> str:
    """Return a field of the spec for people."""
    if name in ("source", "output") and value.get("url"):
        return str(value["url"])
    if name == "not_before":
        return clock.ago(value)
    if name == "timeout_seconds":
        return format_duration(value * 1000)
    return format_bytes(value) if name == "max_source_bytes" else flat(value)


def _wanted(output: Document) -> str:
    return flat({name: value for name, value in output.items() if name != "name" and value is not None})


# -- rows of the tables


def _output(output: Document) -> tuple[object, ...]:
    size, length = output.get("size_bytes"), output.get("duration_seconds")
    return (
        output.get("name"),
        output.get("file_count"),
        format_bytes(size) if size is not None else None,
        format_seconds(length) if length is not None else None,
        _picture(output),
        output.get("url"),
    )


def _attempt(row: Document, job: Document, known: str | None) -> tuple[object, ...]:
    error, ended = row["error"] or {}, row["ended_at"]
    message = error.get("message")
    return (
        row["attempt_no"],
        row["outcome"] or "running",
        _local(row["started_at"], job),
        ended and _took(row["started_at"], ended),
        *used(row["timings"]),
        row["worker_id"],
        error.get("code") if message == known else message,
    )


def used(timings: Document | None) -> tuple[str, ...]:
    """Return the usage of an attempt for people; "≥" marks figures of the last heartbeat before the end."""
    known = timings or {}
    least = "≥ " if known.get("measured") == "last_beat" else ""
    cpu, *moved = (known.get(name) for name in ("cpu_seconds", "bytes_in", "bytes_out"))
    shown = ["" if cpu is None else f"{least}{format_seconds(cpu)}"]
    return (*shown, *("" if size is None else f"{least}{format_bytes(size)}" for size in moved))


def _events(rows: Sequence[Document], job: Document) -> Iterator[tuple[object, ...]]:
    first: dict[str, int] = {}
    for row in rows:
        error, number = row["last_error"], row["sequence"]
        same = first.setdefault(error, number) if error else number
        yield (
            number,
            row["type"],
            _local(row["created_at"], job),
            row["status"],
            row["attempt_count"] or None,
            row["last_status_code"],
            row["event_id"],
            error if same == number else f"the same error as no {same}",
        )


def _last(rows: Sequence[Document], all_: bool) -> Sequence[Document]:
    return rows if all_ else rows[-SHOWN_ROWS:]


def _say_cut(rows: Sequence[Document], all_: bool) -> None:
    if not all_ and len(rows) > SHOWN_ROWS:
        out(f"… {len(rows) - SHOWN_ROWS} earlier; --all shows them")


def _local(iso: str, job: Document) -> str:
    """Return an instant in local time, without the date if it is on the day on which the job was created."""
    at, created = (datetime.fromisoformat(each).astimezone() for each in (iso, job["created_at"]))
    return f"{at:%H:%M:%S}" if at.date() == created.date() else f"{at:%Y-%m-%d %H:%M:%S}"


def _took(start: str, end: str) -> str:
    return format_seconds(max(0, _milliseconds(end) - _milliseconds(start)) / 1000)


def _milliseconds(iso: str) -> int:
    return round(datetime.fromisoformat(iso).timestamp() * 1000)
