"""A batch as one parameter: a JSON array that SQL reads as rows.

The text of a statement then never depends on the size of its batch, so every engine's statement
cache hits, and one round trip carries a hundred rows. This file is where the engines differ in it:
Postgres unfolds the array in one pass by `json_to_recordset`, the SQLite family by `json_each`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction
from sqlalchemy.types import TypeEngine

from euterpe.store.engines import Engines

# A row, or a statement for rows, whose columns are read by name.
AnyRow = sa.Row[*tuple[Any, ...]]
AnySelect = sa.Select[*tuple[Any, ...]]


TEXT, INTEGER, REAL = sa.Text(), sa.BigInteger(), sa.Float()


class Rows:
    """The batch as a FROM element of these columns; `rows["name"]` is one of them.

    A column that a row leaves out, or says null to, is NULL.
    """

    def __init__(self, columns: Mapping[str, TypeEngine[Any]]) -> None:
        self._columns = columns
        shape: sa.ColumnElement[str] = sa.literal_column(
            ", ".join(f"{name} {_on_postgres(t)}" for name, t in columns.items())
        )
        self.table = _unfolded(sa.bindparam("rows", type_=sa.Text), shape).table_valued("value", name="batch")

    def __getitem__(self, name: str) -> sa.ColumnElement[Any]:
        kind = self._columns[name]
        read = _field(self.table.c.value, sa.literal_column(name), type_=kind)
        return _from_hex(read) if isinstance(kind, sa.LargeBinary) else read


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=bytes.hex).encode


def as_parameter(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    return {"rows": _encode(list(rows))}


# libSQL's server hangs up on a message beyond 16 MiB, and a hundred specs can be 25.
_MESSAGE = 4 * 1024 * 1024


def _in_messages(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The batch as JSON arrays of which none is longer than a message should be, unless by one row."""
    # All at once, and again in halves where it was too much: row by row takes twice the time.
    whole = _encode(rows)
    if len(whole) <= _MESSAGE or len(rows) == 1:
        yield whole
    else:
        half = len(rows) // 2
        yield from _in_messages(rows[:half])
        yield from _in_messages(rows[half:])


class BulkInsert:
    """INSERT of many rows, each a dict of all the named columns."""

    def __init__(self, engines: Engines, table: sa.Table, names: Sequence[str]) -> None:
        self._remote = engines.is_remote
        self._documents = [name for name in names if isinstance(table.c[name].type, sa.JSON)]
        self._in_order = itemgetter(*names)
        rows = Rows({name: table.c[name].type for name in names})
        unfolded = sa.select(*(rows[name] for name in names))
        self._from_batch = sa.insert(table).from_select(list(names), unfolded)
        plain = sa.insert(table).values({name: sa.bindparam(name) for name in names})
        self._one_by_one = str(plain.compile(engines.write))

    def __call__(self, connection: sa.Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        if not rows:
            return
        if self._remote:
            for message in _in_messages(rows):
                connection.execute(self._from_batch, {"rows": message})
        else:
            # In process a row costs a bind and a step, and no round trip: a third of what JSON costs.
            # Past SQLAlchemy's per-row work, which would cost as much again.
            connection.exec_driver_sql(self._one_by_one, [self._values(row) for row in rows])

    def _values(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        dumped = {name: json.dumps(row[name]) for name in self._documents if row[name] is not None}
        return self._in_order({**row, **dumped} if dumped else row)  # type: ignore[no-any-return]


class _unfolded(GenericFunction[Any]):  # noqa: N801  a SQL function
    inherit_cache = True


class _field(GenericFunction[Any]):  # noqa: N801  a SQL function
    inherit_cache = True


class _from_hex(GenericFunction[bytes]):  # noqa: N801  a SQL function
    type = sa.LargeBinary()
    inherit_cache = True


def _arguments(element: Any, compiler: SQLCompiler, options: dict[str, Any]) -> list[str]:
    return [compiler.process(clause, **options) for clause in element.clauses]


@compiles(_unfolded)
def _json_each(element: _unfolded, compiler: SQLCompiler, **options: Any) -> str:
    return f"json_each({_arguments(element, compiler, options)[0]})"


@compiles(_unfolded, "postgresql")
def _json_to_recordset(element: _unfolded, compiler: SQLCompiler, **options: Any) -> str:
    rows, shape = _arguments(element, compiler, options)
    # Both parts are names and types of our own; the rows are a parameter.
    return f"(SELECT * FROM json_to_recordset({rows}::json) AS r({shape}))"  # noqa: S608


@compiles(_field)
def _arrow(element: _field, compiler: SQLCompiler, **options: Any) -> str:
    value, name = _arguments(element, compiler, options)
    if isinstance(element.type, sa.JSON):
        return f"nullif({value} -> '{name}', 'null')"
    read = f"{value} ->> '{name}'"
    return f"CAST({read} AS BIGINT)" if isinstance(element.type, sa.BigInteger) else f"({read})"


@compiles(_field, "postgresql")
def _name(element: _field, compiler: SQLCompiler, **options: Any) -> str:
    return f"batch.{_arguments(element, compiler, options)[1]}"


@compiles(_from_hex)
def _unhex(element: _from_hex, compiler: SQLCompiler, **options: Any) -> str:
    return f"unhex({_arguments(element, compiler, options)[0]})"


@compiles(_from_hex, "postgresql")
def _decode(element: _from_hex, compiler: SQLCompiler, **options: Any) -> str:
    return f"decode({_arguments(element, compiler, options)[0]}, 'hex')"


def _on_postgres(kind: TypeEngine[Any]) -> str:
    if isinstance(kind, sa.JSON):
        return "JSONB"
    if isinstance(kind, sa.BigInteger):
        return "BIGINT"
    return "DOUBLE PRECISION" if isinstance(kind, sa.Float) else "TEXT"
