"""Compare each fact and mart of a generated history with independent SQL over the same Parquet files."""

from pathlib import Path

import duckdb
import pytest
from pyspark.sql import SparkSession

from euterpe.analytics.facts import Facts, facts
from euterpe.analytics.marts import MARTS
from euterpe.analytics.options import Options, Prices
from euterpe.analytics.tables import FACTS
from tests.analytics.facts.comparing import assert_same, rows_of
from tests.analytics.facts.history_rows import Row, generate, read, write
from tests.analytics.facts.independent import independently
from tests.analytics.marts import independent, statistical

OPTIONS = Options(prices=Prices(gib_in=0.01))
JOBS = 2_000


FINISH = {
    "failures": statistical.failures,
    "capacity": statistical.capacity,
    "regressions": statistical.regressions,
}


def query_rows(sql: duckdb.DuckDBPyConnection, query: str) -> list[Row]:
    rows: list[Row] = sql.sql(query).to_arrow_table().to_pylist()
    return rows


def test_the_facts_and_marts_of_a_generated_history_are_those_of_plain_sql(
    spark: SparkSession, tmp_path: Path
) -> None:
    """This is a single test, so that the history and its facts are generated only once."""
    write(tmp_path, generate(7, JOBS))
    known = Facts(*(frame.cache() for frame in facts(read(spark, tmp_path))))
    with independently(tmp_path) as sql:
        for statement in independent.PREPARE:
            sql.execute(statement)
        for (name, table), frame in zip(FACTS.items(), known, strict=True):
            assert_same(table, rows_of(frame), query_rows(sql, f"FROM {name}"))
        for mart in MARTS:
            name = mart.table.name
            ours = rows_of(mart.make(known, OPTIONS))
            theirs = query_rows(sql, independent.MARTS[name])
            finished = FINISH.get(name, list)(theirs)
            if name == "regressions":
                finished = with_our_p_values(ours, finished)
            assert_same(mart.table, ours, finished)
    assert_every_outcome_occurs(known)
    for frame in known:
        frame.unpersist()


def with_our_p_values(ours: list[Row], theirs: list[Row]) -> list[Row]:
    """Check that the p-values of `ours` and `theirs` differ by at most 0.15.

    The differences are the noise of shuffling, multiplied by Holm's factor.

    Return `theirs` with the p-values and verdicts of `ours`.
    """
    by_key = {(row["profile"], row["ffmpeg"], row["measure"]): row for row in ours}
    for row in theirs:
        own = by_key[row["profile"], row["ffmpeg"], row["measure"]]
        row["verdict"] = own["verdict"]
        if row["p_value"] is not None:
            assert own["p_value"] == pytest.approx(row["p_value"], abs=0.15)
            row["p_value"] = own["p_value"]
    assert any(row["p_value"] is not None for row in theirs)
    return theirs


def assert_every_outcome_occurs(known: Facts) -> None:
    jobs, attempts, deliveries = ({row["outcome"] for row in rows_of(frame)} for frame in known)
    assert jobs == {"succeeded", "failed", "dead_letter", "canceled", "in_flight"}
    assert attempts == {"succeeded", "failed", "requeued", "lease_expired", "canceled", "released", "running"}
    assert deliveries == {"delivered", "pending", "dead_letter"}
