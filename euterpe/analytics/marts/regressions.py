"""What a new ffmpeg changed beyond noise: each version of a profile beside the one first seen before it.

Speed: the logarithms of the real-time factors of attempts that succeeded, by Welch's t. Failure rate:
attempts that ended, but for canceled ones and those handed back unharmed, by Fisher's exact test or, of many,
the pooled z. What no version is known of is left out. Holm's correction holds all comparisons of one history
together, so that one in which nothing changed raises any alarm at all with a probability of at most 1 %.
"""

import math
from collections.abc import Iterable, Mapping
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from euterpe.analytics.facts import Facts
from euterpe.analytics.marts.handful import Row, given, taken
from euterpe.analytics.marts.horizon import has_ended, has_failed
from euterpe.analytics.marts.schema import REGRESSIONS
from euterpe.analytics.statistics import Sample, equal_rates, holm, welch

_NOISE = 0.01
# A sure change may still be too small to act on: of the speed, and in points of the failure rate.
_LEAST = {"speed": 0.03, "failure_rate": 0.005}


def regressions(facts: Facts) -> DataFrame:
    measured = F.when((F.col("outcome") == "succeeded") & F.col("speed").isNotNull(), F.log("speed"))
    seen = (
        facts.attempts.where("ffmpeg <> 'unknown'")
        .groupBy("profile", "ffmpeg")
        .agg(
            F.min("started_at").alias("first_seen"),
            F.count(measured).alias("measured"),
            F.avg(measured).alias("mean"),
            F.var_samp(measured).alias("variance"),
            F.count_if(has_ended()).alias("ended"),
            F.count_if(has_failed()).alias("failed"),
        )
    )
    return given(facts.attempts.sparkSession, compared(taken(seen)), REGRESSIONS)


def compared(versions: Iterable[Row]) -> list[dict[str, Any]]:
    """From what is known of each profile and version, the judged comparisons."""
    ordered = sorted(versions, key=itemgetter("profile", "first_seen", "ffmpeg"))
    pairs = [
        pair for _, history in groupby(ordered, key=itemgetter("profile")) for pair in pairwise(list(history))
    ]
    found = [row for pair in pairs for row in (_speed(*pair), _failure_rate(*pair)) if row is not None]
    for row, p_value in zip(found, holm([row["p_value"] for row in found]), strict=True):
        row["p_value"] = p_value
        row["verdict"] = _verdict(row)
    return found


def _speed(old: Row, new: Row) -> dict[str, Any] | None:
    if not (old["measured"] and new["measured"]):
        return None
    # Of one value there is no variance; the test does not ask for it then.
    before, after = (
        Sample(one["measured"], one["mean"], 0.0 if one["measured"] < 2 else one["variance"])
        for one in (old, new)
    )
    return _names(old, new) | {
        "measure": "speed",
        "before": math.exp(before.mean),
        "after": math.exp(after.mean),
        "change": math.expm1(after.mean - before.mean),
        "count_before": before.count,
        "count_after": after.count,
        "p_value": welch(before, after),
    }


def _failure_rate(old: Row, new: Row) -> dict[str, Any] | None:
    if not (old["ended"] and new["ended"]):
        return None
    before, after = (one["failed"] / one["ended"] for one in (old, new))
    return _names(old, new) | {
        "measure": "failure_rate",
        "before": before,
        "after": after,
        "change": after - before,
        "count_before": old["ended"],
        "count_after": new["ended"],
        "p_value": equal_rates(old["failed"], old["ended"], new["failed"], new["ended"]),
    }


def _names(old: Row, new: Row) -> dict[str, Any]:
    return {"profile": new["profile"], "ffmpeg": new["ffmpeg"], "baseline": old["ffmpeg"]}


def _verdict(row: Mapping[str, Any]) -> str:
    if row["p_value"] > _NOISE or abs(row["change"]) < _LEAST[row["measure"]]:
        return "no evidence"
    # More speed is good, more failures are not.
    is_better = (row["change"] > 0) == (row["measure"] == "speed")
    return "better" if is_better else "worse"
