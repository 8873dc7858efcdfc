"""Each mart of a generated history against SQL by another hand, over the same Parquet."""

from pathlib import Path

import duckdb
from pyspark.sql import SparkSession

from euterpe.analytics.facts import Facts, facts
from euterpe.analytics.facts_schema import FACTS
from euterpe.analytics.marts import Options, Prices, all_marts
from euterpe.analytics.marts.schema import MARTS
from tests.analytics.facts.comparing import assert_same, rows_of
from tests.analytics.facts.history import Row, generate, read, write
from tests.analytics.facts.independent import independently
from tests.analytics.marts import independent, statistical

OPTIONS = Options(prices=Prices(gib_in=0.01))
JOBS = 2_000


FINISHED = {
    "failures": statistical.failures,
    "capacity": statistical.capacity,
    "regressions": statistical.regressions,
}


def asked(sql: duckdb.DuckDBPyConnection, query: str) -> list[Row]:
    rows: list[Row] = sql.sql(query).to_arrow_table().to_pylist()
    return rows


def test_the_facts_and_marts_of_a_generated_history_are_those_of_plain_sql(
    spark: SparkSession, tmp_path: Path
) -> None:
    """One test, because the history and its facts are made once, also where workers share the tests."""
    write(tmp_path, generate(7, JOBS))
    known = Facts(*(frame.cache() for frame in facts(read(spark, tmp_path))))
    with independently(tmp_path) as sql:
        for statement in independent.PREPARE:
            sql.execute(statement)
        for (name, table), frame in zip(FACTS.items(), known, strict=True):
            assert_same(table, rows_of(frame), asked(sql, f"FROM {name}"))
        for name, mart in all_marts(known, OPTIONS).items():
            theirs = asked(sql, independent.MARTS[name])
            assert_same(MARTS[name], rows_of(mart), FINISHED.get(name, list)(theirs))
    assert_has_something_of_everything(known)
    for frame in known:
        frame.unpersist()


def assert_has_something_of_everything(known: Facts) -> None:
    jobs, attempts, deliveries = ({row["outcome"] for row in rows_of(frame)} for frame in known)
    assert jobs == {"succeeded", "failed", "dead_letter", "canceled", "in_flight"}
    assert attempts == {"succeeded", "failed", "requeued", "lease_expired", "canceled", "released", "running"}
    assert deliveries == {"delivered", "pending", "dead_letter"}
