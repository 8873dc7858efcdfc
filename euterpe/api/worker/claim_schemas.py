"""JSON Schemas of the claim of a remote worker."""

from euterpe.api.openapi_examples import JOB_ID
from euterpe.api.schemas import about, object_of, ref
from euterpe.api.worker.claims import DEFAULT_WAIT_MS, LONGEST_CLAIM_ID, MAX_JOBS, MAX_STREAMS
from euterpe.api.worker.schema_parts import (
    CLAIM_ID,
    MOST,
    Properties,
    flag,
    lease_fields,
    maybe,
    maybe_text,
    text_of,
    time_of,
    worker_fields,
)
from euterpe.domain.json_schema import Schema
from euterpe.domain.text import QUEUE


def claim_schemas() -> dict[str, Schema]:
    stream = {"type": "string", **QUEUE.schema}
    number = {"type": ["integer", "null"], "minimum": 0, "maximum": MOST}
    protocol = {"properties": {"min": number, "max": number}}
    payload = {
        "spec": {"source": {"url": "s3://in/a.mov"}, "output": {"url": "s3://out/a/"}},
        "claim_version": 1,
        "attempt_count": 1,
        "max_attempts": 3,
    }
    job: Properties = {
        **lease_fields(),
        "stream": text_of("The queue of the job.", "default"),
        "message_id": text_of(
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
        "lease_expires_at": time_of("The end of the lease, by the clock of the database."),
    }
    return {
        "WorkerClaim": object_of(
            "A worker's wish for jobs.",
            optional=("max_wait_ms", "max_jobs", "claim_id", "protocol", "accepts"),
            **worker_fields(),
            streams=about(
                "The queues to claim from, most wanted first.",
                ["eu", "default"],
                type="array",
                items=stream,
                minItems=1,
                maxItems=MAX_STREAMS,
            ),
            max_wait_ms=maybe(
                f"The longest wait for a job, at most 30,000. Default: `{DEFAULT_WAIT_MS}`.",
                20_000,
                "integer",
                minimum=0,
                maximum=MOST,
            ),
            max_jobs=maybe(
                "The number of free slots. Default: `1`.", 1, "integer", minimum=1, maximum=MAX_JOBS
            ),
            claim_id=maybe_text(
                "A new id for each claim, which is sent until the claim is answered. Then a lost answer is "
                "given again, and costs no attempt.",
                CLAIM_ID,
                LONGEST_CLAIM_ID,
            ),
            protocol=maybe(
                "The versions that the worker speaks.", {"min": 1, "max": 1}, "object", **protocol
            ),
            accepts=maybe(
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
            claimed=flag("Whether there is a job. Its fields are in this object."),
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
