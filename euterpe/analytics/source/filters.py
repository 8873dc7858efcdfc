"""Filter pushdown: convert a filter of Spark to SQL if the SQL selects exactly the same rows."""

import operator
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from pyspark.sql import datasource as spark

from euterpe.analytics.schema import Table
from euterpe.store.history.columns import COLUMNS

# Filters on floats and on values in JSON are not pushed down, because Spark and the database compare such
# values differently.
_PLAIN = (sa.Text, sa.BigInteger)
_EQUAL: dict[type[spark.Filter], Callable[[Any, Any], Any]] = {spark.EqualTo: operator.eq}
_COMPARED: dict[type[spark.Filter], Callable[[Any, Any], Any]] = {
    **_EQUAL,
    spark.GreaterThan: operator.gt,
    spark.GreaterThanOrEqual: operator.ge,
    spark.LessThan: operator.lt,
    spark.LessThanOrEqual: operator.le,
}


def split(table: Table, filters: Iterable[spark.Filter]) -> tuple[list[spark.Filter], list[spark.Filter]]:
    """Return the filters that the database can apply, and those that Spark must apply."""
    pushed, remaining = list[spark.Filter](), list[spark.Filter]()
    for one in filters:
        (remaining if condition(table, one) is None else pushed).append(one)
    return pushed, remaining


def conditions(table: Table, filters: Sequence[spark.Filter]) -> list[sa.ColumnElement[bool]]:
    found = (condition(table, one) for one in filters)
    return [one for one in found if one is not None]


def condition(table: Table, one: spark.Filter) -> sa.ColumnElement[bool] | None:
    """Return the filter as an SQL condition, or None if Spark must apply it."""
    attribute: tuple[str, ...] = getattr(one, "attribute", ())
    column = COLUMNS[table.name].get(attribute[0]) if len(attribute) == 1 else None
    if not isinstance(column, sa.Column) or not isinstance(column.type, _PLAIN):
        return None
    match one:
        case spark.IsNull():
            return column.is_(None)
        case spark.IsNotNull():
            return column.is_not(None)
        case spark.In():
            values = [_value(value) for value in one.value]
            return None if None in values else column.in_(values)
        case _:
            return _comparison(column, one)


def _comparison(column: sa.Column[Any], one: spark.Filter) -> sa.ColumnElement[bool] | None:
    value = _value(getattr(one, "value", None))
    # Postgres can order text by a locale, but Spark orders text by bytes. So only a comparison of text for
    # equality has the same result in Postgres and Spark.
    compared = _EQUAL if isinstance(value, str) else _COMPARED
    if value is None or type(one) not in compared:
        return None
    found: sa.ColumnElement[bool] = compared[type(one)](column, value)
    return found


def _value(value: Any) -> str | int | None:
    if isinstance(value, datetime):
        microseconds = round(value.timestamp() * 1_000_000)
        return None if microseconds % 1000 else microseconds // 1000
    return value if isinstance(value, str | int) and not isinstance(value, bool) else None
