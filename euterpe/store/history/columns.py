"""The SQL columns that analytics reads from the history.

Credentials, URLs and payloads stay in the database. Analytics reads only the scheme of a URL, and only the
code, the phase and the flag `retryable` of an error.
"""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction

from euterpe.store.engine.batch_rows import AnyColumn
from euterpe.store.tables import inbox_jobs, job_attempts, job_deliveries, job_outbox_events

_job, _attempt = inbox_jobs.c, job_attempts.c


class _elements(GenericFunction[Any]):  # noqa: N801  a SQL function
    inherit_cache = True


class _before(GenericFunction[str]):  # noqa: N801  a SQL function
    type = sa.Text()
    inherit_cache = True


class _instant(GenericFunction[int]):  # noqa: N801  a SQL function
    type = sa.BigInteger()
    inherit_cache = True


def _arguments(element: Any, compiler: SQLCompiler, options: dict[str, object]) -> list[str]:
    return [compiler.process(clause, **options) for clause in element.clauses]


@compiles(_elements)
def _json_each(element: _elements, compiler: SQLCompiler, **options: object) -> str:
    return f"json_each({_arguments(element, compiler, options)[0]})"


@compiles(_elements, "postgresql")
def _jsonb_array_elements(element: _elements, compiler: SQLCompiler, **options: object) -> str:
    return f"jsonb_array_elements({_arguments(element, compiler, options)[0]})"


@compiles(_before)
def _substr(element: _before, compiler: SQLCompiler, **options: object) -> str:
    text, mark = _arguments(element, compiler, options)
    return f"substr({text}, 1, instr({text} || {mark}, {mark}) - 1)"


@compiles(_before, "postgresql")
def _split_part(element: _before, compiler: SQLCompiler, **options: object) -> str:
    text, mark = _arguments(element, compiler, options)
    return f"split_part({text}, {mark}, 1)"


@compiles(_instant)
def _julianday(element: _instant, compiler: SQLCompiler, **options: object) -> str:
    (text,) = _arguments(element, compiler, options)
    return f"CAST(round((julianday({text}) - 2440587.5) * 86400000) AS INTEGER)"


@compiles(_instant, "postgresql")
def _epoch(element: _instant, compiler: SQLCompiler, **options: object) -> str:
    (text,) = _arguments(element, compiler, options)
    return f"(extract(epoch FROM ({text})::timestamptz) * 1000)::bigint"


def _text(document: AnyColumn, *path: str) -> sa.ColumnElement[str]:
    *folders, last = path
    for name in folders:
        document = document.op("->")(sa.literal_column(f"'{name}'"))
    return sa.type_coerce(sa.func.nullif(document.op("->>")(sa.literal_column(f"'{last}'")), ""), sa.Text)


def _whole(document: AnyColumn, *path: str) -> sa.ColumnElement[int]:
    return sa.cast(_text(document, *path), sa.BigInteger)


def _number(document: AnyColumn, *path: str) -> sa.ColumnElement[float]:
    return sa.cast(_text(document, *path), sa.Float)


def _outputs_aggregate(*found: AnyColumn) -> AnyColumn:
    return sa.select(*found).select_from(_OUTPUT).scalar_subquery()


_COLON: sa.ColumnElement[str] = sa.literal_column("':'")


def _scheme(url: sa.ColumnElement[str]) -> sa.ColumnElement[str]:
    return sa.func.lower(_before(url, _COLON))


_OUTPUT = _elements(_job.outputs).table_valued("value", name="output")
_output = sa.type_coerce(_OUTPUT.c.value, sa.JSON)

_JOBS: Mapping[str, AnyColumn] = {
    "job_id": _job.job_id,
    "event_sequence": _job.event_sequence,
    "requester_id": _job.requester_id,
    "profile": _text(_job.spec, "profile"),
    "queue": _job.queue,
    "priority": _job.priority,
    "group_id": _job.group_id,
    "status": _job.status,
    "attempt_count": _job.attempt_count,
    "max_attempts": _job.max_attempts,
    "refresh_count": _job.refresh_count,
    "credential_version": _job.credential_version,
    "source_scheme": _scheme(_text(_job.spec, "source", "url")),
    "output_scheme": sa.func.coalesce(
        _scheme(_text(_job.spec, "output", "url")), sa.literal_column("'https'")
    ),
    "source_container": _text(_job.source_info, "container"),
    "source_seconds": _number(_job.source_info, "duration_seconds"),
    "source_bytes": _whole(_job.source_info, "size_bytes"),
    "outputs": _outputs_aggregate(sa.func.count()),
    "output_seconds": _outputs_aggregate(sa.func.sum(_number(_output, "duration_seconds"))),
    "output_bytes": _outputs_aggregate(sa.cast(sa.func.sum(_whole(_output, "size_bytes")), sa.BigInteger)),
    "error_code": _text(_job.last_error, "code"),
    "error_phase": _text(_job.last_error, "phase"),
    "metadata": sa.cast(_job.spec.op("->")(sa.literal_column("'metadata'")), sa.Text),
    "not_before": _instant(_text(_job.spec, "not_before")),
    "created_at": _job.created_at,
    "updated_at": _job.updated_at,
    "started_at": _job.started_at,
    "finished_at": _job.finished_at,
}

_ATTEMPTS: Mapping[str, AnyColumn] = {
    "attempt_id": _attempt.attempt_id,
    "job_id": _attempt.job_id,
    "attempt_no": _attempt.attempt_no,
    "claim_version": _attempt.claim_version,
    "worker_id": _attempt.worker_id,
    "started_at": _attempt.started_at,
    "ended_at": _attempt.ended_at,
    "outcome": _attempt.outcome,
    "error_code": _text(_attempt.error, "code"),
    "error_phase": _text(_attempt.error, "phase"),
    "error_retryable": sa.cast(_text(_attempt.error, "retryable"), sa.Boolean),
    **{
        name: _whole(_attempt.timings, name)
        for name in ("fetch_ms", "probe_ms", "encode_ms", "verify_ms", "upload_ms")
    },
    "cpu_seconds": _number(_attempt.timings, "cpu_seconds"),
    "media_seconds": _number(_attempt.timings, "media_seconds"),
    "bytes_in": _whole(_attempt.timings, "bytes_in"),
    "bytes_out": _whole(_attempt.timings, "bytes_out"),
    "ffmpeg": _text(_attempt.timings, "ffmpeg"),
    "vmaf": _number(_attempt.timings, "vmaf"),
    "measured": _text(_attempt.timings, "measured"),
}

_EVENTS: Mapping[str, AnyColumn] = {
    **{
        name: job_outbox_events.c[name]
        for name in ("event_id", "job_id", "requester_id", "sequence", "type", "created_at")
    },
    # An event for which no webhook was wanted is inserted with the status `skipped`. No event enters or
    # leaves this status later.
    "wanted": job_outbox_events.c.status != "skipped",
}

_DELIVERIES: Mapping[str, AnyColumn] = {
    **{
        name: job_deliveries.c[name]
        for name in (
            "delivery_id",
            "event_id",
            "job_id",
            "requester_id",
            "claim_version",
            "worker_id",
            "outcome",
            "status_code",
            "duration_ms",
            "ended_at",
        )
    },
    # Read the HTTP status of the receiver. If there was no response, read Euterpe's error code, which is the
    # part of `error` before the colon. Never read the part after the colon, which is free text.
    "error_code": sa.case(
        (job_deliveries.c.outcome == "delivered", None),
        (
            job_deliveries.c.status_code.is_not(None),
            sa.literal("http_") + sa.cast(job_deliveries.c.status_code, sa.Text),
        ),
        else_=_before(job_deliveries.c.error, _COLON),
    ),
}

COLUMNS = {"jobs": _JOBS, "attempts": _ATTEMPTS, "events": _EVENTS, "deliveries": _DELIVERIES}
