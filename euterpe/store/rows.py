"""A batch as one parameter: a JSON array that SQL reads as rows.

The text of a statement then never depends on the size of its batch, so every engine's statement
cache hits, and one round trip carries a hundred rows. `->` and `->>` are the same on all engines;
only the name of the function that unfolds the array differs.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Float,
    LargeBinary,
    Row,
    Select,
    Text,
    bindparam,
    cast,
    literal_column,
    type_coerce,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction

from euterpe.store.tables import json_document

# A row, or a statement for rows, whose columns are read by name.
AnyRow = Row[*tuple[Any, ...]]
AnySelect = Select[*tuple[Any, ...]]


class each_row(GenericFunction[Any]):  # noqa: N801  the name of a SQL function
    name = "json_each"
    inherit_cache = True


@compiles(each_row, "postgresql")
def _postgres(element: each_row, compiler: SQLCompiler, **options: Any) -> str:
    return f"jsonb_array_elements({compiler.process(element.clauses, **options)}::jsonb)"


class from_hex(GenericFunction[bytes]):  # noqa: N801  the name of a SQL function
    name = "unhex"
    type = LargeBinary()
    inherit_cache = True


@compiles(from_hex, "postgresql")
def _decode(element: from_hex, compiler: SQLCompiler, **options: Any) -> str:
    return f"decode({compiler.process(element.clauses, **options)}, 'hex')"


class Rows:
    """The batch as a FROM element; columns are read by name and type."""

    def __init__(self, name: str = "batch") -> None:
        self.table = each_row(bindparam("rows", type_=Text)).table_valued("value", name=name)
        self._value = self.table.c.value

    def text(self, name: str) -> ColumnElement[str]:
        return type_coerce(self._at("->>", name), Text)

    def integer(self, name: str) -> ColumnElement[int]:
        return cast(self._at("->>", name), BigInteger)

    def real(self, name: str) -> ColumnElement[float]:
        return cast(self._at("->>", name), Float)

    def json(self, name: str) -> ColumnElement[Any]:
        """A JSON document, or NULL where the row has none: leave it out, do not say null."""
        return type_coerce(self._at("->", name), json_document)

    def of_type(self, name: str, kind: sa.types.TypeEngine[Any]) -> ColumnElement[Any]:
        if isinstance(kind, sa.JSON):
            return self.json(name)
        if isinstance(kind, LargeBinary):
            return from_hex(self.text(name))
        if isinstance(kind, Float):
            return self.real(name)
        return self.integer(name) if isinstance(kind, BigInteger) else self.text(name)

    def _at(self, operator: str, name: str) -> ColumnElement[Any]:
        # The name as a literal: one parameter for the whole batch is the point.
        return self._value.op(operator)(literal_column(f"'{name}'"))


def as_parameter(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    return {"rows": json.dumps(list(rows), ensure_ascii=False, separators=(",", ":"), default=bytes.hex)}


class BulkInsert:
    """INSERT of many rows, each a dict of all the named columns."""

    def __init__(self, table: sa.Table, names: Sequence[str], *, remote: bool) -> None:
        self._remote = remote
        self._statement = sa.insert(table)
        if remote:
            rows = Rows()
            values = [rows.of_type(name, table.c[name].type) for name in names]
            self._statement = sa.insert(table).from_select(list(names), sa.select(*values))

    def __call__(self, connection: sa.Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        if self._remote:
            told = ({name: value for name, value in row.items() if value is not None} for row in rows)
            connection.execute(self._statement, as_parameter(told))
        elif rows:
            # In process a row costs a bind and a step, and not a round trip: three times as fast as JSON.
            connection.execute(self._statement, rows)
