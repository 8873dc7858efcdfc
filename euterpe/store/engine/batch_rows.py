"""Pass many rows to a statement as one parameter: a JSON array that SQL reads as a table.

So the text of a statement does not depend on the size of its batch, and every engine can cache the statement.
One round trip carries a hundred rows. Postgres expands the array with `json_to_recordset`, the SQLite family
with `json_each`. This module hides the difference.
"""

import json
from collections import namedtuple
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction
from sqlalchemy.types import TypeEngine

# The types of a row whose columns are read by name, and of the queries that return such rows.
AnyRow = sa.Row[*tuple[Any, ...]]
AnySelect = sa.Select[*tuple[Any, ...]]
AnyUnion = sa.CompoundSelect[*tuple[Any, ...]]
# SQLAlchemy's classes are invariant, so a list of columns of several types has no narrower type than this.
AnyColumn = sa.ColumnElement[Any]
AnyType = TypeEngine[Any]


def fetch_all(result: sa.CursorResult[*tuple[Any, ...]]) -> list[Any]:
    """Return all rows as named tuples.

    Reading a column by name takes an eighth of the time that SQLAlchemy's own rows need.
    """
    return list(map(_shape(tuple(result.keys()))._make, result.all()))


@cache
def _shape(names: tuple[str, ...]) -> Any:
    return namedtuple("Row", names)


TEXT, INTEGER, REAL = sa.Text(), sa.BigInteger(), sa.Float()


class Rows:
    """The batch as a FROM element. `rows["name"]` is the column `name` of the batch.

    The column is NULL in each row that omits the column or sets it to null.
    """

    def __init__(self, columns: Mapping[str, AnyType]) -> None:
        self._columns = columns
        shape: sa.ColumnElement[str] = sa.literal_column(
            ", ".join(f"{name} {_on_postgres(t)}" for name, t in columns.items())
        )
        self.table = _unfolded(sa.bindparam("rows", type_=sa.Text), shape).table_valued("value", name="batch")

    def __getitem__(self, name: str) -> AnyColumn:
        kind = self._columns[name]
        read = _field(self.table.c.value, sa.literal_column(name), type_=kind)
        return _from_hex(read) if isinstance(kind, sa.LargeBinary) else read


encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=bytes.hex).encode


def as_parameter(rows: Iterable[Mapping[str, object]]) -> dict[str, str]:
    return {"rows": encode(list(rows))}


class _unfolded(GenericFunction[Any]):  # noqa: N801  a SQL function
    inherit_cache = True


class _field(GenericFunction[Any]):  # noqa: N801  a SQL function
    inherit_cache = True


class _from_hex(GenericFunction[bytes]):  # noqa: N801  a SQL function
    type = sa.LargeBinary()
    inherit_cache = True


def _arguments(element: Any, compiler: SQLCompiler, options: dict[str, object]) -> list[str]:
    return [compiler.process(clause, **options) for clause in element.clauses]


@compiles(_unfolded)
def _json_each(element: _unfolded, compiler: SQLCompiler, **options: object) -> str:
    return f"json_each({_arguments(element, compiler, options)[0]})"


@compiles(_unfolded, "postgresql")
def _json_to_recordset(element: _unfolded, compiler: SQLCompiler, **options: object) -> str:
    rows, shape = _arguments(element, compiler, options)
    # Injection is not possible: `shape` has only our own names and types, and `rows` is a bound parameter.
    return f"(SELECT * FROM json_to_recordset({rows}::json) AS r({shape}))"  # noqa: S608


@compiles(_field)
def _arrow(element: _field, compiler: SQLCompiler, **options: object) -> str:
    value, name = _arguments(element, compiler, options)
    if isinstance(element.type, sa.JSON):
        return f"nullif({value} -> '{name}', 'null')"
    read = f"{value} ->> '{name}'"
    return f"CAST({read} AS BIGINT)" if isinstance(element.type, sa.BigInteger) else f"({read})"


@compiles(_field, "postgresql")
def _name(element: _field, compiler: SQLCompiler, **options: object) -> str:
    return f"batch.{_arguments(element, compiler, options)[1]}"


@compiles(_from_hex)
def _unhex(element: _from_hex, compiler: SQLCompiler, **options: object) -> str:
    return f"unhex({_arguments(element, compiler, options)[0]})"


@compiles(_from_hex, "postgresql")
def _decode(element: _from_hex, compiler: SQLCompiler, **options: object) -> str:
    return f"decode({_arguments(element, compiler, options)[0]}, 'hex')"


def _on_postgres(kind: AnyType) -> str:
    if isinstance(kind, sa.JSON):
        return "JSONB"
    if isinstance(kind, sa.BigInteger):
        return "BIGINT"
    return "DOUBLE PRECISION" if isinstance(kind, sa.Float) else "TEXT"
