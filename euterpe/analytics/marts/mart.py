"""The type of a mart, and the arithmetic that marts share.

Division by zero gives null, and an empty sum is 0. Percentiles are exact, with linear interpolation between
neighbours (like SQL's PERCENTILE_CONT).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from euterpe.analytics.facts import Facts
from euterpe.analytics.options import Options
from euterpe.analytics.report.blocks import Finding, Section
from euterpe.analytics.report.results import Results, Row
from euterpe.analytics.schema import Table, spark_schema


@dataclass(frozen=True)
class Mart:
    """A table, the function that computes it from the facts, and the parts of the report that show it.

    The table of a mart without a `section` is shown in the section of another mart. A mart with
    `needs_everybody` has no section in a report on one requester. `findings` are checks whose results come
    first in the report.
    """

    table: Table
    make: Callable[[Facts, Options], DataFrame]
    section: Callable[[Results], Section] | None = None
    findings: Sequence[Callable[[Results], Iterator[Finding]]] = ()
    needs_everybody: bool = False


def over(part: Column | str, whole: Column | str) -> Column:
    return F.try_divide(part, whole)


def sum_or_zero(values: Column | str) -> Column:
    return F.coalesce(F.sum(values), F.lit(0))


def minutes(seconds: Column | str) -> Column:
    return sum_or_zero(seconds) / 60


def percentiles(values: Column | str, shares: Sequence[float]) -> Column:
    """Return exact percentiles, as an array."""
    return F.percentile(values, F.array(*(F.lit(share) for share in shares)))


def to_rows(frame: DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a small DataFrame, for a computation in Python on the driver."""
    # Instants from Arrow keep their time zone, so the time zone of this process does not matter.
    rows: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return rows


def from_rows(spark: SparkSession, rows: Iterable[Row], table: Table) -> DataFrame:
    return spark.createDataFrame(
        [tuple(row[name] for name in table.names) for row in rows], spark_schema(table)
    )
