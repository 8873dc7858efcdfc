"""JSON Schemas of the reports of remote workers: heartbeats, statuses and ends of attempts."""

from euterpe.api.openapi_examples import JOB_ID
from euterpe.api.schemas import about, object_of, ref
from euterpe.api.worker.claims import LONGEST_CLAIM_ID
from euterpe.api.worker.reported_errors import LONGEST_PHASE, RETRY_CLASSES
from euterpe.api.worker.reports import MAX_LEASES, STATUSES
from euterpe.api.worker.schema_parts import (
    AT,
    CLAIM_ID,
    TIMINGS,
    Properties,
    flag,
    lease_fields,
    maybe,
    maybe_of,
    maybe_text,
    message_fields,
    text_of,
    time_of,
    timings,
    worker_fields,
)
from euterpe.domain.json_schema import Schema
from euterpe.domain.leased_job import MAX_WARNINGS
from euterpe.domain.states import JobStatus
from euterpe.store.queue.attempt_answers import LONGEST_RELEASE_MS

_LATEST_ETA = 10**9 - 1


def report_schemas() -> dict[str, Schema]:
    return {**_beats(), **_ends()}


def _beats() -> dict[str, Schema]:
    percent = {"minimum": 0, "maximum": 100}
    progress: Properties = {
        "progress": maybe("The progress in percent.", 42.5, "number", **percent),
        "eta_seconds": maybe("The time that is left.", 30, "number", minimum=0, maximum=_LATEST_ETA),
        "speed": maybe("Seconds of media per second.", 2.5, "number", minimum=0, maximum=_LATEST_ETA),
        "timings": timings(),
    }
    lease: Properties = {
        "ok": flag("Whether the lease was extended. If not, the attempt is over."),
        "lease_expires_at": time_of("The end of the lease, by the clock of the database."),
        "lease_ttl_seconds": about("The lease lasts this long from now.", 60, type="number"),
        "cancel_requested": flag("Whether to stop, and to report the code `canceled`.", example=False),
        "credential_version": about("The version of the newest credentials.", 1, type="integer"),
        "code": about("The reason, if the lease is lost.", "lease_lost", type="string"),
    }
    one: Properties = lease_fields(has_attempt=False)
    beat = object_of("The heartbeat of one job.", optional=tuple(progress), **one, **progress)
    return {
        "WorkerLease": beat,
        "WorkerHeartbeat": {
            **object_of(
                "The heartbeat of one job, or of several under `leases`.",
                optional=("leases", "urgent", *one, *progress),
                **worker_fields(),
                **{name: maybe_of(node) for name, node in one.items()},
                **progress,
                leases=maybe(
                    "The jobs of the worker.", [], "array", items=ref("WorkerLease"), maxItems=MAX_LEASES
                ),
                urgent=maybe(
                    "Whether the job waits for the answer. Other heartbeats wait up to 0.15 s, to be written "
                    "together.",
                    False,
                    "boolean",
                ),
            ),
            "anyOf": [{"required": ["leases"]}, {"required": list(one)}],
        },
        "WorkerHeld": object_of(
            "An extended lease, or the reason why it is lost.",
            optional=tuple(name for name in lease if name != "ok"),
            job_id=about("The job.", JOB_ID, type="string"),
            **lease,
        ),
        "WorkerBeaten": object_of(
            "The extended leases.",
            optional=(*(name for name in lease if name != "ok"), "leases"),
            **lease,
            leases=about(
                "Each lease, in the order of the request.", [], type="array", items=ref("WorkerHeld")
            ),
        ),
        "WorkerStep": object_of(
            "The status that an attempt has reached.",
            optional=("source_info", "warnings", "progress"),
            **worker_fields(),
            **lease_fields(),
            status=about("The status.", "processing", type="string", enum=list(STATUSES)),
            source_info=maybe("The facts of the source.", {"duration_seconds": 12.5}, "object"),
            warnings=maybe(
                "What the outputs will lack.", [], "array", items={"type": "object"}, maxItems=MAX_WARNINGS
            ),
            progress=maybe("The progress in percent.", 42.5, "number", **percent),
        ),
        "WorkerAdvanced": object_of(
            "The status of the job. The lease is renewed.",
            ok=flag("Always true."),
            status=about("The status.", "processing", type="string", enum=sorted(JobStatus)),
            lease_expires_at=lease["lease_expires_at"],
            lease_ttl_seconds=lease["lease_ttl_seconds"],
        ),
    }


def _ends() -> dict[str, Schema]:
    error: Properties = {
        "code": text_of("A stable code.", "source_unreachable"),
        "message": maybe("A sentence for the requester.", "the source did not answer", "string"),
        "retryable": maybe("Whether another attempt may succeed.", True, "boolean"),
    }
    detail: Properties = {
        "phase": maybe_text(
            "The step that failed. Default: the status of the job.", "fetching", LONGEST_PHASE
        ),
        "retry_class": maybe(
            "The retry class, if it is not that of the code.",
            "transient",
            "string",
            enum=[*RETRY_CLASSES, None],
        ),
    }
    outputs = [{"name": "mp4", "url": "s3://out/a/mp4.mp4", "size_bytes": 1_048_576}]
    return {
        "WorkerCompletion": object_of(
            "The success of an attempt.",
            optional=("stream", "message_id"),
            **worker_fields(),
            **lease_fields(),
            **message_fields(),
            result=about(
                "`outputs`, `timings`, `source_info`, `warnings`, and what "
                "else is to be kept; 256 KiB at most.",
                {"outputs": outputs, "timings": TIMINGS},
                type="object",
            ),
        ),
        "WorkerError": object_of(
            "An error of an attempt. A code that Euterpe does not know is kept in the message.",
            optional=("message", "retryable", "stack"),
            **error,
            stack=maybe("A stack trace for the operator: 16 KiB are kept.", "Traceback …", "string"),
        ),
        "WorkerReason": object_of(
            "The reason of a release.", optional=("message", "retryable", *detail), **error, **detail
        ),
        "WorkerFailure": object_of(
            "The failure of an attempt.",
            optional=("stream", "message_id", *detail, "timings"),
            **worker_fields(),
            **lease_fields(),
            **message_fields(),
            error={
                **ref("WorkerError"),
                "description": "The error.",
                "examples": [{"code": "internal_error"}],
            },
            **detail,
            timings=timings(),
        ),
        "WorkerRelease": {
            **object_of(
                "A job, or all jobs of a claim, that the worker gives back.",
                optional=(*lease_fields(), "claim_id", "delay_ms", "reason", "timings"),
                **worker_fields(),
                **{name: maybe_of(node) for name, node in lease_fields().items()},
                claim_id=maybe_text("Release all jobs of this claim.", CLAIM_ID, LONGEST_CLAIM_ID),
                delay_ms=maybe("The pause of the job.", 0, "integer", minimum=0, maximum=LONGEST_RELEASE_MS),
                reason={
                    "anyOf": [ref("WorkerReason"), {"type": "null"}],
                    "description": "The reason, if the worker is at fault.",
                    "examples": [{"code": "disk_full"}],
                },
                timings=timings(),
            ),
            "anyOf": [{"required": ["claim_id"]}, {"required": list(lease_fields())}],
        },
        "WorkerEnd": object_of(
            "What became of the job. A repeated report has the first answer.",
            optional=("status", "outcome", "dlq", "charged", "next_attempt_at"),
            ok=flag("Always true."),
            ack=flag("Whether the message of the job is done."),
            requeued=flag("Whether the job is queued again."),
            dlq=flag("Whether the job failed for good.", example=False),
            status=about("The status of the job.", "queued", type="string", enum=sorted(JobStatus)),
            outcome=about("The outcome of the attempt.", "requeued", type="string"),
            charged=flag("Whether the attempt was charged to the job."),
            next_attempt_at=maybe("The earliest time of the next attempt.", AT, "string", format="date-time"),
        ),
    }
