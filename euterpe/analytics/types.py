"""The types of schema.py in Arrow and in Spark."""

from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql import types as spark

from euterpe.analytics.schema import Column, Table

ARROW: dict[str, pa.DataType] = {
    "string": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    "time": pa.timestamp("us", "UTC"),
    "day": pa.date32(),
}
_SPARK: dict[str, spark.DataType] = {
    "string": spark.StringType(),
    "int": spark.IntegerType(),
    "long": spark.LongType(),
    "double": spark.DoubleType(),
    "bool": spark.BooleanType(),
    "time": spark.TimestampType(),
    "day": spark.DateType(),
}


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    return pa.schema([(column.name, ARROW[column.type]) for column in columns])


def spark_schema(table: Table) -> spark.StructType:
    return spark.StructType([spark.StructField(c.name, _SPARK[c.type]) for c in table.columns])
