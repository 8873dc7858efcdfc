"""Compare tables regardless of the order of their rows."""

import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame

from euterpe.analytics.schema import Table, spark_schema

Rows = Iterable[Mapping[str, Any]]


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return rows


def assert_same(table: Table, ours: Rows, theirs: Rows) -> None:
    """Assert that the rows are equal: doubles to one part in a billion, all other values exactly."""
    left, right = (_by_key(table, rows) for rows in (ours, theirs))
    assert left.keys() == right.keys()
    for key, row in left.items():
        for name in table.names:
            assert _is_same(row[name], right[key][name]), (table.name, key, name, row, right[key])


def assert_shape(table: Table, frame: DataFrame) -> None:
    assert [(field.name, field.dataType) for field in frame.schema] == [
        (field.name, field.dataType) for field in spark_schema(table)
    ]


def _by_key(table: Table, rows: Rows) -> dict[tuple[Any, ...], Mapping[str, Any]]:
    many = list(rows)
    keyed = {tuple(row[name] for name in table.key): row for row in many}
    assert len(keyed) == len(many), "duplicate key"
    return keyed


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    if isinstance(one, datetime) and isinstance(other, datetime):
        return one == other
    return type(one) is type(other) and bool(one == other)
