"""JSON Schemas of the calls of remote workers, for the OpenAPI document."""

from typing import Any

from euterpe.api.openapi_examples import JOB_ID
from euterpe.api.schemas import about, object_of, ref
from euterpe.api.worker.call import LONGEST_TOKEN
from euterpe.api.worker.claims import DEFAULT_WAIT_MS, LONGEST_CLAIM_ID, MAX_JOBS, MAX_STREAMS
from euterpe.api.worker.reported_errors import LONGEST_PHASE, RETRY_CLASSES
from euterpe.api.worker.reports import MAX_LEASES, STATUSES
from euterpe.api.worker.secrets import LONGEST_KEY, REASONS
from euterpe.api.worker.secrets import MAX_WAIT_MS as MAX_CREDENTIALS_WAIT_MS
from euterpe.domain.json_schema import Schema
from euterpe.domain.states import JobStatus
from euterpe.domain.text import QUEUE
from euterpe.store.checks import WEEK_MS

_AT = "2026-03-01T12:01:00.000Z"
_ATTEMPT = "0199a7c4-5b1e-7000-8000-0000000000a1"
_PROOF = "elt1.lease-1.AZmnxFsecACAAAAAAAAAAQGZp8RbHnAAgAAAAAAAAKEAAAAAAAAABw.qEJ4sMt7RKCA2o53quK0Ow"
_CLAIM_ID = "5f0c8a58-0a51-4c0e-9d55-9a1f6d6f4c11"
_KEY = "hSDwCYkwp1R0i33ctD73Wg2_Og0mOBr066SpjqqbTmo"
_MOST = 2**53
_LATEST_ETA = 10**9 - 1
_TIMINGS = {"process_ms": 5200, "cpu_ms": 20100}


Properties = dict[str, Any]


def worker_schemas() -> dict[str, Schema]:
    return {**_claims(), **_reports(), **_ends(), **_secrets()}


def _text(description: str, example: str, longest: int = 255) -> Schema:
    return about(description, example, type="string", minLength=1, maxLength=longest)


def _maybe(description: str, example: object, kind: str, **schema: object) -> Schema:
    """Return the schema of an optional field, which may also be null."""
    return about(description, example, type=[kind, "null"], **schema)


def _maybe_text(description: str, example: str, longest: int = 255) -> Schema:
    return _maybe(description, example, "string", minLength=1, maxLength=longest)


def _worker() -> Properties:
    return {"worker_id": _text("The name of the worker.", "worker-eu-1-a")}


def _lease(*, has_attempt: bool = True) -> Properties:
    attempt = _text("The attempt, as claimed.", _ATTEMPT)
    return {
        "job_id": _text("The job.", JOB_ID),
        **({"attempt_id": attempt} if has_attempt else {}),
        "lease_token": _text("The token, as claimed.", _PROOF, LONGEST_TOKEN),
    }


def _message() -> Properties:
    stream: Any = about("The stream, as claimed; or an object with `name` and `message_id`.", "default")
    named = {
        "type": "object",
        "properties": {name: {"type": ["string", "null"]} for name in ("name", "message_id")},
    }
    text = {"type": "string", "minLength": 1, "maxLength": 255}
    return {
        "stream": {**stream, "anyOf": [text, named, {"type": "null"}]},
        "message_id": _maybe_text("The message, as claimed. It is not compared.", f"0-{JOB_ID}"),
    }


def _flag(description: str, *, example: bool = True) -> Schema:
    return about(description, example, type="boolean")


def _time(description: str) -> Schema:
    return about(description, _AT, type="string", format="date-time")


def _timings() -> Schema:
    return _maybe("The resources that the attempt has used.", _TIMINGS, "object")


def _claims() -> dict[str, Schema]:
    stream = {"type": "string", **QUEUE.schema}
    number = {"type": ["integer", "null"], "minimum": 0, "maximum": _MOST}
    protocol = {"properties": {"min": number, "max": number}}
    payload = {
        "spec": {"source": {"url": "s3://in/a.mov"}, "output": {"url": "s3://out/a/"}},
        "claim_version": 1,
        "attempt_count": 1,
        "max_attempts": 3,
    }
    job: Properties = {
        **_lease(),
        "stream": _text("The queue of the job.", "default"),
        "message_id": _text(
            "The claim of the job: the version before the claim, and the job.", f"0-{JOB_ID}"
        ),
        "payload": about(
            "The public part of the spec, the counters and the limits. It has no secrets.",
            payload,
            type="object",
        ),
        "lease_ttl_seconds": about("The lease lasts this long without a heartbeat.", 60, type="number"),
        "heartbeat_interval_seconds": about("Send a heartbeat at least this often.", 15, type="number"),
        "progress_interval_seconds": about("Send progress at most this often.", 5, type="number"),
        "lease_expires_at": _time("The end of the lease, by the clock of the database."),
    }
    return {
        "WorkerClaim": object_of(
            "A worker's wish for jobs.",
            optional=("max_wait_ms", "max_jobs", "claim_id", "protocol", "accepts"),
            **_worker(),
            streams=about(
                "The queues to claim from, most wanted first.",
                ["eu", "default"],
                type="array",
                items=stream,
                minItems=1,
                maxItems=MAX_STREAMS,
            ),
            max_wait_ms=_maybe(
                f"The longest wait for a job, at most 30,000. Default: `{DEFAULT_WAIT_MS}`.",
                20_000,
                "integer",
                minimum=0,
                maximum=_MOST,
            ),
            max_jobs=_maybe(
                "The number of free slots. Default: `1`.", 1, "integer", minimum=1, maximum=MAX_JOBS
            ),
            claim_id=_maybe_text(
                "A new id for each claim, which is sent until the claim is answered. Then a lost answer is "
                "given again, and costs no attempt.",
                _CLAIM_ID,
                LONGEST_CLAIM_ID,
            ),
            protocol=_maybe(
                "The versions that the worker speaks.", {"min": 1, "max": 1}, "object", **protocol
            ),
            accepts=_maybe(
                "The forms of credentials that the worker can read.",
                ["sealed"],
                "array",
                items={"type": "string"},
                maxItems=MAX_STREAMS,
            ),
        ),
        "WorkerJob": object_of("A claimed job.", **job),
        "WorkerClaimed": object_of(
            "The claimed jobs. Without a job, only `claimed` is there.",
            optional=(*job, "jobs", "retry_after_ms"),
            claimed=_flag("Whether there is a job. Its fields are in this object."),
            **job,
            jobs=about(
                "All claimed jobs, if there may be several.", [], type="array", items=ref("WorkerJob")
            ),
            retry_after_ms=about(
                "Wait this long before the next claim, because the server stops.",
                1_200,
                type="integer",
                minimum=0,
            ),
        ),
    }


def _reports() -> dict[str, Schema]:
    percent = {"minimum": 0, "maximum": 100}
    progress: Properties = {
        "progress": _maybe("The progress in percent.", 42.5, "number", **percent),
        "eta_seconds": _maybe("The time that is left.", 30, "number", minimum=0, maximum=_LATEST_ETA),
        "speed": _maybe("Seconds of media per second.", 2.5, "number", minimum=0, maximum=_LATEST_ETA),
        "timings": _timings(),
    }
    lease: Properties = {
        "ok": _flag("Whether the lease was extended. If not, the attempt is over."),
        "lease_expires_at": _time("The end of the lease, by the clock of the database."),
        "lease_ttl_seconds": about("The lease lasts this long from now.", 60, type="number"),
        "cancel_requested": _flag("Whether to stop, and to report the code `canceled`.", example=False),
        "credential_version": about("The version of the newest credentials.", 1, type="integer"),
        "code": about("The reason, if the lease is lost.", "lease_lost", type="string"),
    }
    one: Properties = _lease(has_attempt=False)
    beat = object_of("The heartbeat of one job.", optional=tuple(progress), **one, **progress)
    return {
        "WorkerLease": beat,
        "WorkerHeartbeat": {
            **object_of(
                "The heartbeat of one job, or of several under `leases`.",
                optional=("leases", "urgent", *one, *progress),
                **_worker(),
                **{name: _maybe_of(node) for name, node in one.items()},
                **progress,
                leases=_maybe(
                    "The jobs of the worker.", [], "array", items=ref("WorkerLease"), maxItems=MAX_LEASES
                ),
                urgent=_maybe(
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
            **_worker(),
            **_lease(),
            status=about("The status.", "processing", type="string", enum=list(STATUSES)),
            source_info=_maybe("The facts of the source.", {"duration_seconds": 12.5}, "object"),
            warnings=_maybe("What the outputs will lack.", [], "array", items={"type": "object"}),
            progress=_maybe("The progress in percent.", 42.5, "number", **percent),
        ),
        "WorkerAdvanced": object_of(
            "The status of the job. The lease is renewed.",
            ok=_flag("Always true."),
            status=about("The status.", "processing", type="string", enum=sorted(JobStatus)),
            lease_expires_at=lease["lease_expires_at"],
            lease_ttl_seconds=lease["lease_ttl_seconds"],
        ),
    }


def _maybe_of(node: Schema) -> Schema:
    return {**node, "type": [node["type"], "null"]}


def _ends() -> dict[str, Schema]:
    error: Properties = {
        "code": _text("A stable code.", "source_unreachable"),
        "message": _maybe("A sentence for the requester.", "the source did not answer", "string"),
        "retryable": _maybe("Whether another attempt may succeed.", True, "boolean"),
    }
    detail: Properties = {
        "phase": _maybe_text(
            "The step that failed. Default: the status of the job.", "fetching", LONGEST_PHASE
        ),
        "retry_class": _maybe(
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
            **_worker(),
            **_lease(),
            **_message(),
            result=about(
                "`outputs`, `timings`, `source_info`, `warnings`, and what "
                "else is to be kept; 256 KiB at most.",
                {"outputs": outputs, "timings": _TIMINGS},
                type="object",
            ),
        ),
        "WorkerError": object_of(
            "An error of an attempt. A code that Euterpe does not know is kept in the message.",
            optional=("message", "retryable", "stack"),
            **error,
            stack=_maybe("A stack trace for the operator: 16 KiB are kept.", "Traceback …", "string"),
        ),
        "WorkerReason": object_of(
            "The reason of a release.", optional=("message", "retryable", *detail), **error, **detail
        ),
        "WorkerFailure": object_of(
            "The failure of an attempt.",
            optional=("stream", "message_id", *detail, "timings"),
            **_worker(),
            **_lease(),
            **_message(),
            error={
                **ref("WorkerError"),
                "description": "The error.",
                "examples": [{"code": "internal_error"}],
            },
            **detail,
            timings=_timings(),
        ),
        "WorkerRelease": {
            **object_of(
                "A job, or all jobs of a claim, that the worker gives back.",
                optional=(*_lease(), "claim_id", "delay_ms", "reason", "timings"),
                **_worker(),
                **{name: _maybe_of(node) for name, node in _lease().items()},
                claim_id=_maybe_text("Release all jobs of this claim.", _CLAIM_ID, LONGEST_CLAIM_ID),
                delay_ms=_maybe("The pause of the job.", 0, "integer", minimum=0, maximum=WEEK_MS),
                reason={
                    "anyOf": [ref("WorkerReason"), {"type": "null"}],
                    "description": "The reason, if the worker is at fault.",
                    "examples": [{"code": "disk_full"}],
                },
                timings=_timings(),
            ),
            "anyOf": [{"required": ["claim_id"]}, {"required": list(_lease())}],
        },
        "WorkerEnd": object_of(
            "What became of the job. A repeated report has the first answer.",
            optional=("status", "outcome", "dlq", "charged", "next_attempt_at"),
            ok=_flag("Always true."),
            ack=_flag("Whether the message of the job is done."),
            requeued=_flag("Whether the job is queued again."),
            dlq=_flag("Whether the job failed for good.", example=False),
            status=about("The status of the job.", "queued", type="string", enum=sorted(JobStatus)),
            outcome=about("The outcome of the attempt.", "requeued", type="string"),
            charged=_flag("Whether the attempt was charged to the job."),
            next_attempt_at=_maybe(
                "The earliest time of the next attempt.", _AT, "string", format="date-time"
            ),
        ),
    }


def _secrets() -> dict[str, Schema]:
    version: dict[str, object] = {"minimum": 0, "maximum": _MOST}
    attempt: Properties = {"attempt_id": _maybe_of(_lease()["attempt_id"])}
    sealed = {"suite": "hpke-x25519-hkdf-sha256-aes-128-gcm", "ciphertext": "3q2+7w=="}
    return {
        "WorkerCredentialsCall": object_of(
            "The question for the credentials of a job.",
            optional=("attempt_id", "public_key", "have_version", "wait_ms"),
            **_worker(),
            **_lease(has_attempt=False),
            **attempt,
            public_key=_maybe_text("The X25519 key of the worker: 32 bytes as base64url.", _KEY, LONGEST_KEY),
            have_version=_maybe("The version that the worker has.", 1, "integer", **version),
            wait_ms=_maybe(
                "The longest wait for a version other than `have_version`.",
                0,
                "integer",
                minimum=0,
                maximum=MAX_CREDENTIALS_WAIT_MS,
            ),
        ),
        "WorkerCredentials": object_of(
            "The credentials, in one form. See docs/contract-workers.md for their content.",
            optional=("sealed", "inline"),
            credential_version=about("Their version.", 1, type="integer"),
            sealed=_maybe(
                "Sealed to the public key; null if `have_version` is the newest.", sealed, "object"
            ),
            inline=about("In plain text, if the operator allows this.", {"storage": None}, type="object"),
        ),
        "WorkerRefreshCall": object_of(
            "The wish for newer credentials.",
            optional=("attempt_id", "credential_version"),
            **_worker(),
            **_lease(has_attempt=False),
            **attempt,
            credential_version=_maybe("The version that the worker has.", 1, "integer", **version),
            reason=about("Why newer ones are needed.", "forbidden", type="string", enum=list(REASONS)),
        ),
        "WorkerRefreshed": object_of(
            "The result of the call to the requester.",
            credential_version=about("The newest version.", 2, type="integer"),
            advanced=_flag("Whether newer credentials are stored."),
            promised=_flag("Whether the requester will send them.", example=False),
            calls_left=about("0 if no further call can help.", 2, type="integer", minimum=0),
        ),
        "WorkerRivalCall": object_of(
            "The question whether another job writes to the same place.",
            **_worker(),
            **_lease(),
            other_job_id=_text("The id of the other job.", JOB_ID),
        ),
        "WorkerRival": object_of(
            "The answer; null if there is no such job.",
            rival=_maybe(
                "Whether it is unfinished, or succeeded after this attempt began.", False, "boolean"
            ),
        ),
    }
