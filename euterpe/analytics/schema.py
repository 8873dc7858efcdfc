"""The types that declare the tables of the pipeline, and functions that make Arrow and Spark schemas of them.

tables.py and the modules of marts/ declare the tables. The columns of every output and the tables of
docs/analytics.md come from these declarations. Instants and days are UTC.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
from pyspark.sql import types as spark

Type = Literal["string", "int", "long", "double", "bool", "time", "day"]


@dataclass(frozen=True)
class Column:
    name: str
    type: Type
    meaning: str


@dataclass(frozen=True)
class Table:
    name: str
    meaning: str
    key: tuple[str, ...]  # the columns that identify a row
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


def columns(text: str, *sources: Table) -> tuple[Column, ...]:
    """Parse one column per line: name, type and meaning, or only the name of a column of `sources`.

    A column that several tables share is declared only once, so that its meaning is the same in all tables.
    """
    known = {column.name: column for table in reversed(sources) for column in table.columns}
    rows = (line.split(maxsplit=2) for line in text.strip().splitlines())
    return tuple(known[row[0]] if len(row) == 1 else Column(*row) for row in rows)  # type: ignore[arg-type]


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
