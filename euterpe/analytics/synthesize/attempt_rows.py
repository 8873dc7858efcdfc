"""The rows of attempts, with what their workers told of them."""

from typing import Any

import numpy as np
import pyarrow as pa

from euterpe.analytics.synthesize.arrow import figures, instants, numbers, table_of, words
from euterpe.analytics.synthesize.cut import Cut
from euterpe.analytics.synthesize.fates import (
    CANCELED,
    CODES,
    LEASE_EXPIRED,
    NEVER_AGAIN,
    PHASES,
    RELEASED,
    SUCCESS,
)
from euterpe.analytics.synthesize.ids import ids
from euterpe.analytics.synthesize.profiles import FFMPEG_BEFORE, FFMPEG_SINCE, of_each
from euterpe.analytics.tables import ATTEMPTS

_OUTCOMES = ("requeued", "failed", "succeeded", "released", "lease_expired", "canceled")
_TIMES = ("fetch_ms", "probe_ms", "encode_ms", "verify_ms", "upload_ms")
_MEASURED = 1 / 3  # of those that succeed, with VMAF


def attempt_rows(block: Cut, rng: np.random.Generator) -> pa.Table:
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


def _timings(block: Cut, rng: np.random.Generator) -> dict[str, Any]:
    """A worker that died, or hands back, has told nothing; a step that was not begun has no time."""
    jobs, attempts, of, fate = block.jobs, block.attempts, block.attempts["job"], block.attempts["fate"]
    told = block.ended & (fate != LEASE_EXPIRED) & (fate != RELEASED)
    done = told & (fate == SUCCESS)
    fetched, encoded = (told & ~np.isnan(attempts[name]) for name in ("probe_ms", "verify_ms"))
    cpu = attempts["encode_ms"] / 1000 * of_each("cores")[jobs.profile[of]] * rng.uniform(0.9, 1.05, len(of))
    vmaf = np.minimum(rng.normal(of_each("vmaf")[jobs.profile[of]], 1.5), 99.9)
    return {
        **{name: figures(attempts[name], told).cast("int64") for name in _TIMES},
        "cpu_seconds": figures(cpu.round(3), encoded),
        "media_seconds": figures(jobs.seconds[of], encoded),
        "bytes_in": numbers(jobs.bytes[of], fetched),
        "bytes_out": numbers(attempts["bytes_out"], done),
        "ffmpeg": words((FFMPEG_BEFORE, FFMPEG_SINCE), attempts["upgraded"].astype(np.int64), told),
        "measured": pa.nulls(len(of), pa.string()),
        "vmaf": figures(vmaf.round(2), done & (rng.random(len(of)) < _MEASURED)),
    }
