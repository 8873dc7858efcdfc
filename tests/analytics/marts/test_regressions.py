"""The mart of regressions: a planted change between ffmpeg versions is found, with its evidence."""

import math
from random import Random

import pytest
from pyspark.sql import SparkSession

from euterpe.analytics.marts import regressions
from euterpe.analytics.marts.regressions import ATOM, compared
from euterpe.analytics.options import Options
from tests.analytics.facts.history_rows import Row, at
from tests.analytics.marts.rows import by, facts_of, values

PROFILES = ("h264-720p", "hevc-1080p", "av1-1080p", "audio-aac")
COUNT = 1_000


def encoded(rng: Random, factor: float, failure_rate: float, **fields: object) -> Row:
    if rng.random() < failure_rate:
        return {"outcome": "failed", "error_code": "encode_failed", "error_phase": "processing", **fields}
    return {"speed": factor * rng.lognormvariate(0, 0.2), **fields}


def test_a_planted_slowdown_and_a_planted_failure_are_found(spark: SparkSession) -> None:
    rng = Random(1)
    plans = {"steady": (1.0, 0.05), "slower": (0.9, 0.05), "failing": (1.0, 0.15), "faster": (1.1, 0.05)}
    attempts: list[Row] = []
    for profile, (factor, failure_rate) in plans.items():
        old = {"profile": profile, "ffmpeg": "9.0.2", "started_at": at(1)}
        new = {"profile": profile, "ffmpeg": "9.1", "started_at": at(2)}
        attempts += [encoded(rng, 3, 0.05, **old) for _ in range(COUNT)]
        attempts += [encoded(rng, 3 * factor, failure_rate, **new) for _ in range(COUNT)]
    attempts += [encoded(rng, 1, 0.5, profile="steady", ffmpeg="unknown") for _ in range(COUNT)]
    rows = by(regressions.make(facts_of(spark, attempts=attempts), Options()), "profile", "measure")
    assert {key: row["verdict"] for key, row in rows.items() if row["verdict"] != "no evidence"} == {
        ("slower", "speed"): "worse",
        ("failing", "failure_rate"): "worse",
        ("faster", "speed"): "better",
    }
    assert len(rows) == 8
    slower = rows["slower", "speed"]
    assert values(slower, "ffmpeg", "baseline") == ("9.1", "9.0.2")
    assert slower["change"] == pytest.approx(-0.1, abs=0.03)
    assert slower["after"] == pytest.approx(slower["before"] * (1 + slower["change"]))
    # None of the 20,000 shuffles has such a large difference. Holm's method multiplies the p-value by 8.
    assert slower["p_value"] <= 8 / 20_000
    failing = rows["failing", "failure_rate"]
    assert values(failing, "count_before", "count_after") == (COUNT, COUNT)
    assert failing["change"] == pytest.approx(failing["after"] - failing["before"])


def test_only_failures_that_an_encoder_can_cause_are_in_the_rate(spark: SparkSession) -> None:
    """A storage outage during an upgrade would otherwise make the new version seem to fail more often."""
    encoder: Row = {"outcome": "failed", "error_code": "encode_failed", "error_phase": "processing"}
    others: tuple[Row, ...] = (
        *(
            {"outcome": "failed", "error_code": "source_unreachable", "error_phase": "fetching"}
            for _ in range(9)
        ),
        {"outcome": "failed", "error_code": "source_truncated", "error_phase": "fetching"},
        {"outcome": "failed", "error_code": "disk_full", "error_phase": "processing"},
        {"outcome": "lease_expired", "error_code": "lease_expired", "error_phase": "processing"},
        {"outcome": "running", "ended_at": None},
        {"outcome": "canceled"},
        {"outcome": "canceled", "error_code": "canceled", "error_phase": "processing"},
        {"outcome": "released"},
    )
    succeeded: Row = {}
    attempts = [
        {"ffmpeg": version, "started_at": at(hour), **fields}
        for hour, version in ((1, "9.0.2"), (2, "9.1"))
        for fields in (succeeded, encoder, *others)
    ]
    row = by(regressions.make(facts_of(spark, attempts=attempts), Options()), "measure")["failure_rate"]
    assert values(row, "before", "after", "count_before", "count_after") == (0.5, 0.5, 2, 2)


def version(
    name: str, hour: int, *, attempts: int = 1_000, failed: float = 0.05, speed: float = 1.0
) -> list[Row]:
    """Return the input rows (atoms) of a version whose failure rate and speed do not change over time."""
    return [
        {
            "profile": "p",
            "ffmpeg": name,
            "first_seen": at(hour),
            "atom": atom,
            "ended": ATOM,
            "failed": ATOM * failed,
            "measured": ATOM,
            "log_speed": ATOM * speed + atom % 7 * 0.01,
        }
        for atom in range(attempts // ATOM)
    ]


def test_each_version_is_compared_with_the_one_first_seen_before_it() -> None:
    rows = compared([*version("10", 3), *version("9.1", 2), *version("9.0", 1)])
    assert [(row["baseline"], row["ffmpeg"]) for row in rows if row["measure"] == "speed"] == [
        ("9.0", "9.1"),
        ("9.1", "10"),
    ]
    assert compared(version("9.0", 1)) == []
    assert compared([]) == []


def test_a_significant_change_may_be_too_small_to_report() -> None:
    slightly = version("9.1", 2, attempts=20_000, failed=0.054, speed=1.0 + math.log(0.98))
    rows = compared([*version("9.0", 1, attempts=20_000), *slightly])
    assert all(row["p_value"] < 0.001 for row in rows)
    assert [row["verdict"] for row in rows] == ["no evidence", "no evidence"]


def test_a_version_with_too_few_attempts_has_no_p_value() -> None:
    rows = compared([*version("9.0", 1, attempts=100), *version("9.1", 2, attempts=5_000, failed=0.9)])
    assert [(row["p_value"], row["verdict"]) for row in rows] == [(None, "too few")] * 2


def test_comparisons_that_cannot_be_made_do_not_weaken_the_others() -> None:
    changed = [*version("9.0", 1), *version("9.1", 2, speed=0.5)]
    small = [
        {**atom, "profile": f"small-{n}"}
        for n in range(9)
        for atom in (*version("9.0", 1, attempts=40), *version("9.1", 2, attempts=40))
    ]
    alone, beside = (
        next(row for row in compared(atoms) if row["profile"] == "p" and row["measure"] == "speed")
        for atoms in (changed, [*changed, *small])
    )
    assert beside["p_value"] == alone["p_value"]


def test_of_the_version_with_more_attempts_the_latest_count() -> None:
    old = version("9.0", 1, attempts=10_000)
    for atom in old[100:]:
        atom["failed"] = ATOM  # only older attempts failed
    rows = compared([*old, *version("9.1", 2, attempts=500)])
    row = next(row for row in rows if row["measure"] == "failure_rate")
    assert (row["count_before"], row["count_after"]) == (2_000, 500)
    assert (row["before"], row["verdict"]) == (0.05, "no evidence")
