"""Regressions by ffmpeg version: each version is compared with the version seen before it, by profile.

Speed is measured as the logarithm of the real-time factor of each attempt that succeeded. The failure rate
is f / (f + s), where f counts the attempts that failed while ffmpeg ran, with one of `ENCODER_CODES`, and s
counts the attempts that succeeded. Attempts that ended because of storage, the network, the machine or a
person are not counted. Attempts without a known version are not counted either.

Attempts near each other in time are correlated, so blocks of consecutive attempts are compared
(permutation_test.py). A block has at least 60 attempts, which is three times the 20 attempts that fail in one
simulated outage. The Holm-Bonferroni correction covers all comparisons of one history. So if nothing has
changed in a history, the probability of an alarm is only about 1 %.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from euterpe.analytics.facts import Facts
from euterpe.analytics.holm_bonferroni import holm_bonferroni
from euterpe.analytics.marts.mart import Mart, from_rows, to_rows
from euterpe.analytics.options import Options
from euterpe.analytics.permutation_test import FEWEST_BLOCKS, Blocks, equal_ratios
from euterpe.analytics.report.results import Row
from euterpe.analytics.schema import Table, columns
from euterpe.analytics.tables import ATTEMPT_FACTS
from euterpe.domain.error_codes import ErrorCode

TABLE = Table(
    "regressions",
    "Show whether each new version of ffmpeg changed speed and failure rate significantly.",
    ("profile", "ffmpeg", "measure"),
    columns(
        """
        profile
        ffmpeg string The newer version of ffmpeg (first seen later).
        baseline string The previous version of ffmpeg, with which the newer version is compared.
        measure string What is compared: speed (real-time factor) or failure_rate.
        before double Value with the baseline: geometric mean speed, or encoder failures per attempt.
        after double The same value with the newer version.
        change double after / before - 1 for speed; after - before for failure_rate.
        count_before long How many of the latest attempts with the baseline are compared.
        count_after long How many of the latest attempts with the newer version are compared.
        p_value double p-value of the change, Holm-corrected for all comparisons; null with too few attempts.
        verdict string worse, better, too few, or no evidence (p > 1 %, change < 3 % of speed or 0.5 points).
    """,
        ATTEMPT_FACTS,
    ),
)

# The codes of failures that a version of ffmpeg can cause. While a job is `processing`, ffmpeg decodes and
# encodes, and the worker verifies the output. A version can fail, hang, be slow, need more memory, write
# wrong files, or refuse sources that an older version decoded. The other codes are caused by storage, the
# network, credentials, the request, the machine or a person, so their frequency does not depend on ffmpeg.
# `lease_expired` is left out: a version that kills its whole worker causes this error, but failing machines
# cause it far more often.
ENCODER_CODES = frozenset(code.value for code in ErrorCode if code.of_ffmpeg)
# Only failures in this phase count, because some `ENCODER_CODES` have other causes in other phases. For
# example, `source_truncated` in the phase `fetching` comes from storage or from the probe, not from ffmpeg.
ENCODER_PHASE = "processing"
_NOISE = 0.01
# Changes below these limits are not worth acting on. The limit is relative for speed, and absolute for the
# failure rate.
_LEAST = {"speed": 0.03, "failure_rate": 0.005}
# Only this many of the latest attempts of a version are used. With more attempts, changes that are too small
# to act on would become significant.
LATEST = 20_000
# Spark sums this many consecutive attempts into an atom. Blocks consist of atoms.
ATOM = 20
BLOCK = 60
FEWEST_ATTEMPTS = BLOCK * FEWEST_BLOCKS
# The version with fewer attempts has at most `_MOST_BLOCKS` blocks. The version with more attempts has at
# most `_WIDER` times as many blocks as the other version.
_MOST_BLOCKS, _WIDER = 30, 4


@dataclass(frozen=True)
class FalseAlarms:
    """The number of simulated histories without a change, and how many of these raised a false alarm."""

    histories: int
    alarms: int
    outages: int  # per history; in each outage, 20 consecutive jobs of one profile fail


# tests/analytics/marts/test_regressions_false_alarms.py counts the false alarms. The report shows the counts.
MEASURED = FalseAlarms(histories=1_000, alarms=5, outages=3)


def make(facts: Facts, _: Options) -> DataFrame:
    return from_rows(facts.attempts.sparkSession, compared(to_rows(_atoms(facts))), TABLE)


def _atoms(facts: Facts) -> DataFrame:
    """Return the sums of each atom, that is, of `ATOM` consecutive attempts of a profile and version.

    Atom 0 is the latest.
    """
    named = facts.attempts.where("ffmpeg <> 'unknown'")
    succeeded = F.col("outcome") == "succeeded"
    failed = ~succeeded & F.col("error_code").isin(*ENCODER_CODES) & (F.col("error_phase") == ENCODER_PHASE)
    version = ("profile", "ffmpeg")
    latest_first = Window.partitionBy(*version).orderBy(F.desc("started_at"), F.desc("attempt_id"))
    judged = named.where(F.col("ended_at").isNotNull() & (succeeded | failed)).select(
        *version,
        failed.alias("has_failed"),
        F.when(succeeded, F.log("speed")).alias("log_speed"),
        F.row_number().over(latest_first).alias("place"),
    )
    atoms = (
        judged.where(F.col("place") <= LATEST)
        .groupBy(*version, F.floor((F.col("place") - 1) / ATOM).alias("atom"))
        .agg(
            F.count("*").alias("ended"),
            F.count_if("has_failed").alias("failed"),
            F.count("log_speed").alias("measured"),
            F.coalesce(F.sum("log_speed"), F.lit(0.0)).alias("log_speed"),
        )
    )
    # The age of a version is the age of its first attempt, even if that attempt is not compared.
    first_seen = named.groupBy(*version).agg(F.min("started_at").alias("first_seen"))
    return atoms.join(first_seen, list(version))


@dataclass(frozen=True)
class _Version:
    profile: str
    ffmpeg: str
    atoms: Sequence[Row]  # the latest first

    @property
    def attempts(self) -> int:
        return sum(atom["ended"] for atom in self.atoms)

    def latest(self, attempts: int) -> "_Version":
        """Return the version with only its latest `attempts` attempts, rounded up to whole atoms."""
        return _Version(self.profile, self.ffmpeg, self.atoms[: math.ceil(attempts / ATOM)])

    def blocks(self, attempts_each: float, sums: str, counts: str) -> Blocks:
        count = max(1, round(self.attempts / attempts_each))
        values = np.array([[atom[sums], atom[counts]] for atom in self.atoms], dtype=np.float64)
        parts = np.array([part.sum(axis=0) for part in np.array_split(values, min(count, len(values)))])
        return Blocks(parts[:, 0], parts[:, 1])


def compared(atoms: Iterable[Row]) -> list[dict[str, Any]]:
    """Return all comparisons with their verdicts, from the atoms of all profiles and versions."""
    by_age = itemgetter("profile", "first_seen", "ffmpeg")
    ordered = sorted(atoms, key=lambda atom: (*by_age(atom), atom["atom"]))
    versions = [
        _Version(profile, ffmpeg, list(own)) for (profile, _, ffmpeg), own in groupby(ordered, key=by_age)
    ]
    pairs = [(old, new) for old, new in pairwise(versions) if old.profile == new.profile]
    found = [row for pair in pairs for row in _compare(*pair)]
    tested = [row for row in found if row["p_value"] is not None]
    for row, p_value in zip(tested, holm_bonferroni([row["p_value"] for row in tested]), strict=True):
        row["p_value"] = p_value
    return [{**row, "verdict": _verdict(row)} for row in found]


def _compare(old: _Version, new: _Version) -> Iterable[dict[str, Any]]:
    fewer = min(old.attempts, new.attempts)
    before, after = (one.latest(_WIDER * fewer) for one in (old, new))
    each = max(BLOCK, fewer / _MOST_BLOCKS)
    for measure, sums, counts in (
        ("speed", "log_speed", "measured"),
        ("failure_rate", "failed", "ended"),
    ):
        one, other = (version.blocks(each, sums, counts) for version in (before, after))
        if one.counts.sum() and other.counts.sum():
            yield {
                "profile": new.profile,
                "ffmpeg": new.ffmpeg,
                "baseline": old.ffmpeg,
                "measure": measure,
                **_moved(measure, one.ratio, other.ratio),
                "count_before": round(one.counts.sum()),
                "count_after": round(other.counts.sum()),
                "p_value": equal_ratios(one, other),
            }


def _moved(measure: str, before: float, after: float) -> dict[str, float]:
    if measure == "speed":  # means of logarithms become geometric means
        return {"before": math.exp(before), "after": math.exp(after), "change": math.expm1(after - before)}
    return {"before": before, "after": after, "change": after - before}


def _verdict(row: Mapping[str, Any]) -> str:
    if row["p_value"] is None:
        return "too few"
    if row["p_value"] > _NOISE or abs(row["change"]) < _LEAST[row["measure"]]:
        return "no evidence"
    # More speed is better, more failures are worse.
    is_better = (row["change"] > 0) == (row["measure"] == "speed")
    return "better" if is_better else "worse"


MART = Mart(TABLE, make)
