"""Generate one block of the history as Arrow tables. Blocks do not depend on each other."""

from typing import Any

import numpy as np
import pyarrow as pa

from euterpe.analytics.tables import ATTEMPTS, EVENTS, JOBS
from euterpe.domain.states import FINISHED
from euterpe.synthesize.arrow import figures, ids, instants, numbers, table_of, words
from euterpe.synthesize.customers import requester_id
from euterpe.synthesize.deliveries import delivery_rows, wanted
from euterpe.synthesize.history_plan import HistoryPlan, Ints
from euterpe.synthesize.jobs import (
    CONTAINERS,
    FFMPEG_BEFORE,
    FFMPEG_SINCE,
    GROUPS,
    PROFILES,
    QUEUES,
    SCHEMES,
    Bools,
    of_each,
)
from euterpe.synthesize.outcomes import (
    CANCELED,
    CODES,
    FORBIDDEN,
    LEASE_EXPIRED,
    NEVER_AGAIN,
    PHASES,
    RELEASED,
    SUCCESS,
)
from euterpe.synthesize.snapshot import Snapshot, cut
from euterpe.synthesize.timeline import EVENTS as EVENT_KINDS
from euterpe.synthesize.timeline import KIND

# The job status after each kind of event.
_STATUSES = ["processing" if name == "progress" else name for name in EVENT_KINDS]


def block(plan: HistoryPlan, index: int) -> dict[str, pa.Table]:
    """Return the tables by name: jobs in id order, attempts and events in the order of their jobs."""
    rng = np.random.default_rng([plan.seed, index])
    found = cut(plan, index, rng)
    return {
        "jobs": job_rows(found),
        "attempts": attempt_rows(found, rng),
        "events": _event_rows(found),
        "deliveries": delivery_rows(found, rng),
    }


def job_rows(block: Snapshot) -> pa.Table:
    """Return the jobs, each in its state after its last event before the end of the history."""
    status = _last(block, np.full(len(block.jobs), KIND["queued"]), "kind")
    succeeded = status == KIND["succeeded"]
    finished = np.isin(status, [KIND[name] for name in FINISHED])
    return table_of(
        JOBS,
        {
            **_request_columns(block, finished),
            "status": words(_STATUSES, status),
            **_course(block, finished),
            **_counts(block),
            **_media(block, succeeded),
            **_error(block, succeeded),
            "metadata": pa.nulls(len(block.jobs), pa.string()),
        },
    )


def _request_columns(block: Snapshot, finished: Bools) -> dict[str, Any]:
    jobs = block.jobs
    # Unfinished jobs are in no group: the state of a job in a group would depend on the group's other jobs.
    group = np.where(finished, jobs.group, 0)
    return {
        "job_id": block.job_ids,
        "requester_id": words([requester_id(n) for n in range(block.plan.requesters)], jobs.requester),
        "profile": words([profile.name for profile in PROFILES], jobs.profile),
        "queue": words(QUEUES, jobs.queue),
        "priority": jobs.priority,
        "group_id": words([None, *(f"show-{number}" for number in range(1, GROUPS + 1))], group),
        "max_attempts": jobs.max_attempts,
        "source_scheme": words(SCHEMES, jobs.scheme),
        # An https:// output would need a signed URL for each file, which `spec_document` does not make.
        "output_scheme": words(["s3" if name == "https" else name for name in SCHEMES], jobs.scheme),
        "not_before": instants(jobs.not_before_ms, jobs.not_before_ms > 0),
        "created_at": instants(jobs.created_ms),
    }


def _course(block: Snapshot, finished: Bools) -> dict[str, Any]:
    updated = _last(block, block.jobs.created_ms, "at_ms")
    started = np.full(len(block.jobs), -1)
    # NumPy keeps the last assignment to an index, so reverse the order to keep the first attempt of a job.
    started[block.attempts["job"][::-1]] = block.attempts["started_ms"][::-1]
    return {
        "updated_at": instants(updated),
        "started_at": instants(started, started >= 0),
        "finished_at": instants(updated, finished),
    }


def _counts(block: Snapshot) -> dict[str, Ints]:
    events, attempts, of, count = block.events, block.attempts, block.attempts["job"], len(block.jobs)
    released = block.ended & (attempts["fate"] == RELEASED)
    by_hand = (events["kind"] == KIND["queued"]) & (events["error"] == SUCCESS)
    # A person who retries a job after a `forbidden` error also replaces the job's credentials.
    replaced = by_hand & np.isin(np.roll(events["error"], 1), FORBIDDEN)
    retried = np.bincount(events["job"][by_hand], minlength=count) > 0
    in_this_round = attempts["retried"] == retried[of]
    renewed = np.bincount(of, attempts["renewed"], count).astype(np.int64)
    return {
        "event_sequence": np.bincount(events["job"], minlength=count),
        "attempt_count": np.bincount(of[~released], minlength=count),
        "refresh_count": np.bincount(of, attempts["calls"] * in_this_round, count).astype(np.int64),
        "credential_version": 1 + renewed + np.bincount(events["job"][replaced], minlength=count),
    }


def _media(block: Snapshot, succeeded: Bools) -> dict[str, Any]:
    jobs, events = block.jobs, block.events
    probed = np.isin(np.arange(len(jobs)), events["job"][events["kind"] == KIND["processing"]])
    outputs = np.where(succeeded, of_each("outputs")[jobs.profile], 0)
    made = np.zeros(len(jobs), dtype=np.int64)
    made[block.attempts["job"]] = block.attempts["bytes_out"]
    return {
        "source_container": words(CONTAINERS, jobs.container, probed),
        "source_seconds": figures(jobs.seconds, probed),
        "source_bytes": numbers(jobs.bytes, probed),
        "outputs": outputs.astype(np.int64),
        "output_seconds": figures(outputs * jobs.seconds, succeeded),
        "output_bytes": numbers(made, succeeded),
    }


def _error(block: Snapshot, succeeded: Bools) -> dict[str, Any]:
    """Return the columns of each job's last error. Only a success clears an error."""
    failing = (block.events["error"] != SUCCESS) & (block.events["error"] != RELEASED)
    error = _last(block, np.full(len(block.jobs), SUCCESS), "error", failing)
    phase = _last(block, np.zeros(len(block.jobs), dtype=np.int64), "phase", failing)
    wrong = (error != SUCCESS) & ~succeeded
    return {
        "error_code": words((*CODES, None), error, wrong),
        "error_phase": words(PHASES, phase, wrong),
    }


def _last(block: Snapshot, without: Ints, name: str, which: Bools | slice = slice(None)) -> Ints:
    """Return the value of a column in the last event of each job. Consider only the events in `which`.

    A job without such an event gets its value from `without`. The events of a job are ordered by time, and
    NumPy keeps the last of several assignments to an index, so the last event counts."""
    found = without.copy()
    found[block.events["job"][which]] = block.events[name][which]
    return found


_OUTCOMES = ("requeued", "failed", "succeeded", "released", "lease_expired", "canceled")
_TIMES = ("fetch_ms", "probe_ms", "encode_ms", "verify_ms", "upload_ms")
_MEASURED = 1 / 3  # the share of successful attempts that have a VMAF score


def attempt_rows(block: Snapshot, rng: np.random.Generator) -> pa.Table:
    """Return the attempts that started before the end of the history."""
    attempts, ended, fate = block.attempts, block.ended, block.attempts["fate"]
    outcome = attempts["failed"].astype(np.int64)
    for special, number in ((SUCCESS, 2), (RELEASED, 3), (LEASE_EXPIRED, 4), (CANCELED, 5)):
        outcome = np.where(fate == special, number, outcome)
    has_error = ended & (fate != SUCCESS) & (fate != RELEASED)
    return table_of(
        ATTEMPTS,
        {
            "attempt_id": ids(attempts["started_ms"], attempts["no"], rng),
            "job_id": block.job_ids.take(pa.array(attempts["job"])),
            "attempt_no": attempts["no"],
            "claim_version": attempts["version"],
            "worker_id": block.workers,
            "started_at": instants(attempts["started_ms"]),
            "ended_at": instants(attempts["ended_ms"], ended),
            "outcome": words(_OUTCOMES, outcome, ended),
            "error_code": words((*CODES, None), fate, has_error),
            "error_phase": words((*PHASES, None), attempts["phase"], has_error),
            "error_retryable": numbers(~NEVER_AGAIN[fate], has_error),
            **_timings(block, rng),
        },
    )


def _timings(block: Snapshot, rng: np.random.Generator) -> dict[str, Any]:
    """Return the timing columns.

    The columns are null for lost or released attempts, and for steps that were not started.
    """
    jobs, attempts, of, fate = block.jobs, block.attempts, block.attempts["job"], block.attempts["fate"]
    recorded = block.ended & (fate != LEASE_EXPIRED) & (fate != RELEASED)
    done = recorded & (fate == SUCCESS)
    fetched, encoded = (recorded & ~np.isnan(attempts[name]) for name in ("probe_ms", "verify_ms"))
    cpu = attempts["encode_ms"] / 1000 * of_each("cores")[jobs.profile[of]] * rng.uniform(0.9, 1.05, len(of))
    vmaf = np.minimum(rng.normal(of_each("vmaf")[jobs.profile[of]], 1.5), 99.9)
    return {
        **{name: figures(attempts[name], recorded).cast("int64") for name in _TIMES},
        "cpu_seconds": figures(cpu.round(3), encoded),
        "media_seconds": figures(jobs.seconds[of], encoded),
        "bytes_in": numbers(jobs.bytes[of], fetched),
        "bytes_out": numbers(attempts["bytes_out"], done),
        "ffmpeg": words((FFMPEG_BEFORE, FFMPEG_SINCE), attempts["upgraded"].astype(np.int64), recorded),
        "measured": pa.nulls(len(of), pa.string()),
        "vmaf": figures(vmaf.round(2), done & (rng.random(len(of)) < _MEASURED)),
    }


def _event_rows(found: Snapshot) -> pa.Table:
    events = found.events
    return table_of(
        EVENTS,
        {
            "event_id": found.event_ids,
            "job_id": found.job_ids.take(pa.array(events["job"])),
            "requester_id": words(
                [requester_id(n) for n in range(found.plan.requesters)], events["requester"]
            ),
            "sequence": events["sequence"],
            "type": words([f"job.{name}" for name in EVENT_KINDS], events["kind"]),
            "created_at": instants(events["at_ms"]),
            "wanted": wanted(found.plan)[events["requester"], events["kind"]],
        },
    )
