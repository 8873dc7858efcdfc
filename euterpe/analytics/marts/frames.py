"""Conversion of small DataFrames to rows and back, for computations in Python on the driver."""

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from euterpe.analytics.schema import Table, spark_schema

Row = Mapping[str, Any]


def to_rows(frame: DataFrame) -> list[dict[str, Any]]:
    # Instants from Arrow keep their time zone; the time zone of this process does not matter.
    rows: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return rows


def from_rows(spark: SparkSession, rows: Iterable[Row], table: Table) -> DataFrame:
    return spark.createDataFrame(
        [tuple(row[name] for name in table.names) for row in rows], spark_schema(table)
    )
