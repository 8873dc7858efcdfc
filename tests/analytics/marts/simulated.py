"""Reduce synthetic histories to the input rows of `compared`, without Spark.

Hundreds of histories take a few seconds.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from euterpe.analytics.marts.regressions import ATOM, ENCODER_CODES, LATEST
from euterpe.synthesize.history_plan import HistoryPlan
from euterpe.synthesize.jobs import PROFILES, draw_jobs
from euterpe.synthesize.outcomes import CODES, PROCESSING, SUCCESS
from euterpe.synthesize.timeline import Columns, Lives

Row = dict[str, Any]
UNTIL_MS = 1_789_570_800_000


def atoms_of(plan: HistoryPlan) -> list[Row]:
    """Return one row of sums (an atom) for each 20 consecutive attempts.

    The mart computes these rows with Spark.
    """
    blocks = [_block(plan, index) for index in range(plan.blocks)]
    return list(_atoms({name: np.concatenate([one[name] for one in blocks]) for name in blocks[0]}))


def _block(plan: HistoryPlan, index: int) -> Columns:
    rng = np.random.default_rng([plan.seed, index])
    jobs = draw_jobs(plan, index, rng)
    attempts, _ = Lives(plan, jobs, rng).live()
    of = attempts["job"]
    named = ("fate", "phase", "upgraded", "started_ms", "encode_ms")
    columns = {name: attempts[name] for name in named} | {
        "profile": jobs.profile[of],
        "seconds": jobs.seconds[of],
    }
    return {name: column[attempts["ended_ms"] <= plan.until_ms] for name, column in columns.items()}


def _atoms(attempts: Columns) -> Iterator[Row]:
    profile, seconds = attempts["profile"], attempts["seconds"]
    codes = np.array([code in ENCODER_CODES for code in CODES] + [False])
    succeeded = attempts["fate"] == SUCCESS
    failed = codes[attempts["fate"]] & (attempts["phase"] == PROCESSING)
    with np.errstate(divide="ignore", invalid="ignore"):
        speed = np.log(seconds * 1000 / attempts["encode_ms"])
    for number, name in enumerate(one.name or "custom" for one in PROFILES):
        for upgraded, version in ((False, "9.0.2"), (True, "9.1")):
            own = (profile == number) & (attempts["upgraded"] == upgraded)
            if not own.any():
                continue
            first_seen = attempts["started_ms"][own].min()
            judged = np.flatnonzero(own & (succeeded | failed))
            latest = judged[np.argsort(-attempts["started_ms"][judged], kind="stable")][:LATEST]
            for atom in range(-(-len(latest) // ATOM)):
                part = latest[atom * ATOM : (atom + 1) * ATOM]
                yield {
                    "profile": name,
                    "ffmpeg": version,
                    "first_seen": int(first_seen),
                    "atom": atom,
                    "ended": len(part),
                    "failed": int(failed[part].sum()),
                    "measured": int(succeeded[part].sum()),
                    "log_speed": float(speed[part][succeeded[part]].sum()),
                }
