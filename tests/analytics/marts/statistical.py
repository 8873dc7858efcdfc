"""Compute the columns that SQL cannot compute, independently of euterpe.analytics.

These columns need exact sums of fractions, a shuffle of single blocks, or Erlang's formula for waits.
"""

import math
import random
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from operator import itemgetter
from typing import Any

from euterpe.analytics.queueing import MODEL

Row = dict[str, Any]


def failures(rows: list[Row]) -> list[Row]:
    """Add the trend of each error code.

    The history must be longer than two weeks, and must contain no new error code.
    """
    for row in rows:
        last, before = row["last_week"], row["week_before"]
        if last == 0:
            row["trend"] = "gone"
        elif equal_counts(last, before) >= Fraction(1, 100):
            row["trend"] = "steady"
        else:
            row["trend"] = "rising" if last > before else "falling"
    return rows


def capacity(rows: list[Row]) -> list[Row]:
    for row in rows:
        load, service, cv2 = row["forecast_load"], row["service_seconds"], row["service_cv2"]
        waits = {slots: wait95(slots, load, service, cv2) for slots in range(math.floor(load) + 1, 100)}
        row["slots_needed"] = min(slots for slots, wait in waits.items() if wait <= 60)
        row["p95_wait_seconds"] = waits[row["slots_needed"]]
        row["p95_wait_now_seconds"] = waits.get(row["slots_now"])
        slots, now = row["slots_now"], row["load"]
        keeps_up = slots > now
        row["p50_model_seconds"] = wait_share(0.5, slots, now, service, cv2) if keeps_up else None
        row["p95_model_seconds"] = wait_share(0.95, slots, now, service, cv2) if keeps_up else None
        both = [row["p95_model_seconds"], row["p95_busiest_seconds"]]
        row["model_gap"] = (max(both) + 1) / (min(both) + 1) if keeps_up else None
        row["model"] = MODEL
    return rows


def regressions(atoms: list[Row]) -> list[Row]:
    """Compare the versions of each profile by shuffling blocks with another random generator."""
    found: list[Row] = []
    for profile in sorted({atom["profile"] for atom in atoms}):
        own = [atom for atom in atoms if atom["profile"] == profile]
        versions = sorted({(atom["first_seen"], atom["ffmpeg"]) for atom in own})
        for (_, old), (_, new) in pairwise(versions):
            sides = [
                sorted((a for a in own if a["ffmpeg"] == name), key=itemgetter("atom")) for name in (old, new)
            ]
            fewer = min(sum(atom["ended"] for atom in side) for side in sides)
            sides = [side[: math.ceil(4 * fewer / 20)] for side in sides]
            for measure, top, under in (
                ("speed", "log_speed", "measured"),
                ("failure_rate", "failed", "ended"),
            ):
                one, other = (_blocks(side, max(60, fewer / 30), top, under) for side in sides)
                before, after = _ratio(one), _ratio(other)
                if measure == "speed":
                    before, after = math.exp(before), math.exp(after)
                found.append(
                    {
                        "profile": profile,
                        "ffmpeg": new,
                        "baseline": old,
                        "measure": measure,
                        "before": before,
                        "after": after,
                        "change": after / before - 1 if measure == "speed" else after - before,
                        "count_before": int(sum(count for _, count in one)),
                        "count_after": int(sum(count for _, count in other)),
                        "p_value": shuffled(one, other) if min(len(one), len(other)) >= 4 else None,
                    }
                )
    tested = [row for row in found if row["p_value"] is not None]
    least = 0.0
    for rank, row in enumerate(sorted(tested, key=itemgetter("p_value"))):
        least = row["p_value"] = max(least, min(1.0, (len(tested) - rank) * row["p_value"]))
    return found


def _blocks(atoms: list[Row], each: float, top: str, under: str) -> list[tuple[float, float]]:
    count = min(len(atoms), max(1, round(sum(atom["ended"] for atom in atoms) / each)))
    size, longer = divmod(len(atoms), count)
    blocks, rest = [], list(atoms)
    for number in range(count):
        taken = size + (number < longer)
        part, rest = rest[:taken], rest[taken:]
        blocks.append((math.fsum(a[top] for a in part), math.fsum(a[under] for a in part)))
    return blocks


def _ratio(blocks: Sequence[tuple[float, float]]) -> float:
    return math.fsum(value for value, _ in blocks) / math.fsum(count for _, count in blocks)


def shuffled(one: Sequence[tuple[float, float]], other: Sequence[tuple[float, float]]) -> float:
    """Return the share of 2,000 shuffles that are at least as extreme as the observed difference."""
    rng, pool, deals = random.Random(3), [*one, *other], 2_000
    seen, hits = studentised(one, other), 1
    for _ in range(deals - 1):
        rng.shuffle(pool)
        hits += studentised(pool[: len(one)], pool[len(one) :]) >= seen * (1 - 1e-9)
    return hits / deals


def studentised(one: Sequence[tuple[float, float]], other: Sequence[tuple[float, float]]) -> float:
    variance = 0.0
    for side in (one, other):
        ratio, counts = _ratio(side), math.fsum(count for _, count in side)
        residuals = math.fsum((value - ratio * count) ** 2 for value, count in side)
        variance += residuals * len(side) / (len(side) - 1) / counts**2
    apart = abs(_ratio(one) - _ratio(other))
    if apart < 1e-12:
        return 0.0
    return apart / math.sqrt(variance) if variance > 0 else math.inf


def equal_counts(one: int, other: int) -> Fraction:
    """Return the two-sided p-value of `one` heads in `one + other` tosses of a fair coin."""
    throws = one + other
    tail = sum(math.comb(throws, heads) for heads in range(min(one, other) + 1))
    return min(Fraction(1), Fraction(2 * tail, 2**throws))


def fisher(hits_a: int, count_a: int, hits_b: int, count_b: int) -> Fraction:
    hits, count = hits_a + hits_b, count_a + count_b
    ways = {
        k: math.comb(hits, k) * math.comb(count - hits, count_a - k)
        for k in range(max(0, count_a + hits - count), min(hits, count_a) + 1)
    }
    return Fraction(sum(each for each in ways.values() if each <= ways[hits_a]), math.comb(count, count_a))


def erlang_c(slots: int, load: float) -> float:
    """Return the probability that a job waits, by Erlang's original formula."""
    all_taken = load**slots / math.factorial(slots) * slots / (slots - load)
    return all_taken / (sum(load**k / math.factorial(k) for k in range(slots)) + all_taken)


def wait95(slots: int, load: float, service: float, cv2: float) -> float:
    return wait_share(0.95, slots, load, service, cv2)


def wait_share(share: float, slots: int, load: float, service: float, cv2: float) -> float:
    waits = erlang_c(slots, load)
    mean_of_those = service / (slots - load) * (1 + cv2) / 2
    return mean_of_those * math.log(waits / (1 - share)) if waits > 1 - share else 0.0
