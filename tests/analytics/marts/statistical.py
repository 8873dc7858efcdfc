"""What SQL cannot say of a mart, by other ways than those of euterpe.analytics: whole sums in exact numbers,
Student's t by integration, waiting by Erlang's own formula."""

import math
from fractions import Fraction
from typing import Any

from euterpe.analytics.queueing import MODEL

Row = dict[str, Any]


def failures(rows: list[Row]) -> list[Row]:
    """Of a history of more than two weeks, in which nothing is seen for the first time."""
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
        row["model"] = MODEL
    return rows


def regressions(rows: list[Row]) -> list[Row]:
    for row in rows:
        row["raw"] = float(
            student(row["_before"], row["_after"])
            if row["measure"] == "speed"
            else fisher(*map(int, row["_before"]), *map(int, row["_after"]))
        )
    for rank, row in enumerate(sorted(rows, key=lambda row: row["raw"])):
        smaller = [one["p_value"] for one in rows if "p_value" in one]
        row["p_value"] = min(1.0, max([(len(rows) - rank) * row["raw"], *smaller]))
        row["verdict"] = "no evidence"
        least = 0.03 if row["measure"] == "speed" else 0.005
        if row["p_value"] <= 0.01 and abs(row["change"]) >= least:
            row["verdict"] = "better" if (row["change"] > 0) == (row["measure"] == "speed") else "worse"
    return rows


def equal_counts(one: int, other: int) -> Fraction:
    """A fair coin, thrown as often as both."""
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


def student(before: list[float], after: list[float]) -> float:
    """Welch's test; the tail of Student's t by Simpson's rule over the angle, t² = degrees × tan² angle."""
    (n1, m1, v1), (n2, m2, v2) = before, after
    error = v1 / n1 + v2 / n2
    degrees = error**2 / ((v1 / n1) ** 2 / (n1 - 1) + (v2 / n2) ** 2 / (n2 - 1))
    t = abs(m1 - m2) / math.sqrt(error)
    front = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(math.pi)
    begin, steps = math.atan(t / math.sqrt(degrees)), 20_000
    width = (math.pi / 2 - begin) / steps
    heights: list[float] = [
        max(0.0, math.cos(begin + step * width)) ** (degrees - 1) for step in range(steps + 1)
    ]
    area = width / 3 * (heights[0] + heights[-1] + 4 * sum(heights[1:-1:2]) + 2 * sum(heights[2:-1:2]))
    return 2 * front * area


def erlang_c(slots: int, load: float) -> float:
    """As he wrote it."""
    all_taken = load**slots / math.factorial(slots) * slots / (slots - load)
    return all_taken / (sum(load**k / math.factorial(k) for k in range(slots)) + all_taken)


def wait95(slots: int, load: float, service: float, cv2: float) -> float:
    waits = erlang_c(slots, load)
    mean_of_those = service / (slots - load) * (1 + cv2) / 2
    return mean_of_those * math.log(waits / 0.05) if waits > 0.05 else 0.0
