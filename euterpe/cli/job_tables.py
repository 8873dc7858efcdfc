"""Show the outputs, warnings, attempts and events of a job as tables."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from euterpe.cli.output import out, table, title
from euterpe.domain.states import OutboxStatus
from euterpe.domain.units import format_bytes, format_seconds

Document = Mapping[str, Any]

SHOWN_ROWS = 20  # the number of attempts, and of events, that are shown without --all


def show_outputs(outputs: Sequence[Document]) -> None:
    """Print a table of the outputs of a job, if it has any."""
    if not outputs:
        return
    out("")
    title("outputs")
    table(("name", "files", "size", "length", "picture", "url", "tracks"), map(_output, outputs), below=2)


def show_warnings(warnings: Sequence[Document]) -> None:
    """Print a table of the warnings of a job or a plan, if there are any."""
    if not warnings:
        return
    out("")
    title("warnings")
    table(("output", "code", "message"), map(_warning, warnings))


def show_attempts(attempts: Sequence[Document], job: Document, *, all_: bool) -> None:
    """Print a table of the attempts.

    If an attempt has the same error as the job, print only the code: `show_job` prints the message.
    """
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


# -- rows of the tables


def _output(output: Document) -> tuple[object, ...]:
    size, length = output.get("size_bytes"), output.get("duration_seconds")
    return (
        output.get("name"),
        output.get("file_count"),
        format_bytes(size) if size is not None else None,
        format_seconds(length) if length is not None else None,
        picture(output),
        output.get("url"),
        ", ".join(map(_track, output.get("renditions") or ())),
    )


def _track(track: Document) -> str:
    rate = track.get("bitrate")
    parts = [str(track.get("codec")), picture(track), track.get("language") or ""]
    parts += [f"{round(rate / 1000)} kbit/s"] if rate is not None else []
    parts += ["copied"] if track.get("copied") else []
    return " ".join(filter(None, [*parts, *_quality(track.get("quality") or {}), *_loudness(track)]))


def _quality(quality: Document) -> Iterator[str]:
    if "crf" in quality:
        yield f"crf {quality['crf']}"
    predicted = quality.get("predicted_vmaf")
    if "vmaf" in quality:
        yield f"VMAF {quality['vmaf']:.1f}"
    elif predicted is not None:
        yield "VMAF"
    if predicted is not None:
        yield f"(predicted {predicted:.1f})"
    yield from (
        f"{name.upper()} {quality[name]:.4g}" for name in ("psnr", "ssim", "xpsnr") if name in quality
    )


def _loudness(track: Document) -> Iterator[str]:
    """Yield the loudness that was measured before the gain was applied, and the gain."""
    if track.get("measured_lufs") is not None:
        yield f"{track['measured_lufs']:.1f} LUFS"
    if track.get("gain_db") is not None:
        yield f"{track['gain_db']:+.1f} dB"


def _warning(warning: Document) -> tuple[object, ...]:
    return tuple(warning.get(name) for name in ("output", "code", "message"))


def _attempt(row: Document, job: Document, known: str | None) -> tuple[object, ...]:
    error, ended = row["error"] or {}, row["ended_at"]
    message = error.get("message")
    return (
        row["attempt_no"],
        row["outcome"] or "running",
        _local(row["started_at"], job),
        ended and took(row["started_at"], ended),
        *_used(row["timings"]),
        row["worker_id"],
        error.get("code") if message == known else message,
    )


def _used(timings: Document | None) -> tuple[str, ...]:
    """Return the CPU time and the traffic of an attempt as text.

    "≥" marks figures of the last heartbeat: the attempt did not record its own end, and may have used more.
    """
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
            error if same == number else f"the same error as number {same}",
        )


def _last(rows: Sequence[Document], all_: bool) -> Sequence[Document]:
    return rows if all_ else rows[-SHOWN_ROWS:]


def _say_cut(rows: Sequence[Document], all_: bool) -> None:
    if not all_ and len(rows) > SHOWN_ROWS:
        out(f"… {len(rows) - SHOWN_ROWS} earlier; --all shows them")


def _local(iso: str, job: Document) -> str:
    """Return an instant in local time. Leave out the date if the job was created on the same day."""
    at, created = (datetime.fromisoformat(each).astimezone() for each in (iso, job["created_at"]))
    return f"{at:%H:%M:%S}" if at.date() == created.date() else f"{at:%Y-%m-%d %H:%M:%S}"


# -- shared with the view of the job


def picture(shown: Document) -> str:
    return f"{shown['width']}×{shown['height']}" if shown.get("width") else ""


def took(start: str, end: str) -> str:
    return format_seconds(max(0, milliseconds(end) - milliseconds(start)) / 1000)


def milliseconds(iso: str) -> int:
    return round(datetime.fromisoformat(iso).timestamp() * 1000)
