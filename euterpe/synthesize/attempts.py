"""Draw the outcome and the duration of each step for one attempt of many jobs at once (vectorised)."""

from typing import NamedTuple

import numpy as np

from euterpe.synthesize.history_plan import Floats, Ints
from euterpe.synthesize.jobs import (
    FAILS_MORE,
    FAILS_MORE_SINCE,
    SLOWER,
    SLOWER_SINCE,
    Bools,
    JobColumns,
    of_each,
    only,
)
from euterpe.synthesize.outcomes import (
    ANY,
    ENCODE_FAILED,
    FATES,
    FETCHING,
    FORBIDDEN,
    NOT_MEDIA,
    PROCESSING,
    RELEASED,
    SUCCESS,
    UPLOADING,
)

# The probability of each phase, for attempts whose fate (the way in which they end) can occur in any phase.
# The longest phase has the highest probability.
_PHASE_ODDS = (0.04, 0.16, 0.7, 0.1)
_FETCH_BYTES_A_MS, _UPLOAD_BYTES_A_MS = 60_000, 40_000
# The probability that an attempt fails for the same reason as the attempt before it.
_SAME_FAILURE = 0.35


class Course(NamedTuple):
    """The outcomes and durations of attempts, one entry per attempt. A step that was not reached has NaN."""

    fate: Ints
    phase: Ints  # the phase in which the attempt ends; for a success, the last phase + 1
    bytes_out: Ints
    starts_ms: Ints  # ms from the claim to the start of each phase; one row per phase
    took_ms: Ints  # ms from the claim to the end of the attempt
    fetch_ms: Floats
    probe_ms: Floats
    encode_ms: Floats
    verify_ms: Floats
    upload_ms: Floats


def draw_fates(
    jobs: JobColumns, of: Ints, upgraded: Bools, before: Ints, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """Return the fate of one attempt of each of these jobs, and the phase in which the attempt ends.

    `before` contains the fate of the previous attempt of each job."""
    profile = jobs.profile[of]
    odds = np.tile([fate.share for fate in FATES], (len(of), 1))
    odds[:, ENCODE_FAILED] *= of_each("failing")[profile]
    odds[:, ENCODE_FAILED] *= np.where(upgraded, only(FAILS_MORE_SINCE, FAILS_MORE)[profile], 1.0)
    odds[:, FORBIDDEN] *= np.where(jobs.refreshes[of], 8.0, 1.0)[:, None]
    fate = (rng.random(len(of))[:, None] > np.cumsum(odds, axis=1)).sum(axis=1)
    again = (before != SUCCESS) & (before != RELEASED) & (rng.random(len(of)) < _SAME_FAILURE)
    fate = np.where(again, before, fate)
    fixed = np.array([fate.phase for fate in FATES] + [UPLOADING + 1])[fate]
    anywhere = rng.choice(len(_PHASE_ODDS), len(of), p=_PHASE_ODDS)
    return fate, np.where(fixed == ANY, anywhere, fixed)


def run(
    jobs: JobColumns, of: Ints, upgraded: Bools, fates: tuple[Ints, Ints], rng: np.random.Generator
) -> Course:
    """Draw the durations of attempts that end with these fates."""
    fate, phase = fates
    count, seconds = len(of), jobs.seconds[of]
    encode, bytes_out = _encode(jobs, of, upgraded, rng)
    fetch = 30 + jobs.bytes[of] / _FETCH_BYTES_A_MS * rng.lognormal(0, 0.5, count)
    upload = 40 + bytes_out / _UPLOAD_BYTES_A_MS * rng.lognormal(0, 0.5, count)
    # The fraction of the last step that was completed when the attempt ended.
    part = rng.uniform(0.05, 0.95, count)

    def step(whole: Floats, reached: Bools, done: Bools) -> Floats:
        return np.where(reached, np.ceil(np.where(done, whole, whole * part)), np.nan)

    fetched, encoded = (phase > FETCHING) | (fate == NOT_MEDIA), phase > PROCESSING
    steps = (
        step(fetch, phase >= FETCHING, fetched),
        step(rng.uniform(70, 260, count), fetched, fetched),
        step(encode, phase >= PROCESSING, encoded),
        step(60 + seconds * rng.uniform(1, 4, count), encoded, encoded),
        step(upload, phase >= UPLOADING, phase > UPLOADING),
    )
    fetching, probing, encoding, verifying, uploading = map(np.nan_to_num, steps)
    starts = np.zeros((4, count), dtype=np.int64)
    starts[FETCHING] = rng.integers(3, 20, count)
    starts[PROCESSING] = starts[FETCHING] + fetching + probing + 2
    starts[UPLOADING] = starts[PROCESSING] + encoding + verifying + 2
    pause = np.array([one.pause_ms for one in FATES] + [0])[fate] * rng.uniform(1.0, 1.15, count)
    took = starts[UPLOADING] + (uploading + 3 + pause).astype(np.int64)
    return Course(fate, phase, bytes_out, starts, took, *steps)


def _encode(jobs: JobColumns, of: Ints, upgraded: Bools, rng: np.random.Generator) -> tuple[Floats, Ints]:
    """Return the time in which ffmpeg encodes each whole source, and the number of bytes of its outputs."""
    seconds, profile = jobs.seconds[of], jobs.profile[of]
    speed = of_each("speed")[profile] * np.where(upgraded, only(SLOWER_SINCE, SLOWER)[profile], 1.0)
    rate = of_each("kbit_per_second")[profile] * rng.lognormal(0, 0.35, len(of))
    encode = 250 + seconds / speed * 1000 * rng.lognormal(0, 0.14, len(of))
    return encode, (2_000 + seconds * rate * 125).astype(np.int64)
