"""Read a range of a table into Arrow batches, in bounded memory: from Postgres as CSV, else as rows."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc_csv
import sqlalchemy as sa

from euterpe.analytics.schema import ARROW, Column, arrow_schema
from euterpe.store.engine.batch_rows import AnySelect
from euterpe.store.engine.engines import EngineKind
from euterpe.store.history.feed import HistoryFeed, PositionRange

# Only one batch is in memory at a time. A batch has about this many rows, or bytes of CSV.
_ROWS, _BYTES = 20_000, 4 * 1024 * 1024
# The database stores instants as milliseconds.
_WIRE = {**ARROW, "time": pa.int64()}


def read_part(
    history: HistoryFeed,
    table: str,
    part: PositionRange,
    columns: Sequence[Column],
    where: Sequence[sa.ColumnElement[bool]] = (),
) -> Iterator[pa.RecordBatch]:
    return as_batches(
        history, history.select(table, part, [column.name for column in columns], *where), columns
    )


def as_batches(
    history: HistoryFeed, select: AnySelect, columns: Sequence[Column]
) -> Iterator[pa.RecordBatch]:
    batches = _from_csv if history.kind is EngineKind.POSTGRES else _from_rows
    for batch in batches(history, select, columns):
        yield _shaped(batch, columns)


def _from_csv(history: HistoryFeed, select: AnySelect, columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
    stream = _Stream(history.csv(select))
    if not stream.has_more():
        return  # pyarrow raises an error for empty CSV
    with pc_csv.open_csv(
        pa.PythonFile(stream, "r"),
        read_options=pc_csv.ReadOptions(
            column_names=[column.name for column in columns], block_size=_BYTES, use_threads=False
        ),
        # In CSV with a single column, a null is an empty line, so empty lines must be read.
        parse_options=pc_csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=pc_csv.ConvertOptions(
            column_types={column.name: _WIRE[column.type] for column in columns},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            true_values=["t"],
            false_values=["f"],
        ),
    ) as reader:
        yield from reader


class _Stream:
    """A read-only file object over an iterator of chunks."""

    closed = False

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._rest = chunks, b""

    def has_more(self) -> bool:
        self._rest = self._rest or next(self._chunks, b"")
        return bool(self._rest)

    def read(self, size: int = _BYTES) -> bytes:
        taken, length = [self._rest], len(self._rest)
        while length < size and (chunk := next(self._chunks, b"")):
            taken.append(chunk)
            length += len(chunk)
        whole = b"".join(taken)
        self._rest = whole[size:]
        return whole[:size]

    def close(self) -> None:
        self.closed = True


def _from_rows(
    history: HistoryFeed, select: AnySelect, columns: Sequence[Column]
) -> Iterator[pa.RecordBatch]:
    schema = pa.schema([(column.name, _WIRE[column.type]) for column in columns])
    for rows in history.rows(select, _ROWS):
        values = zip(*rows, strict=True)
        arrays = [_array(list(found), kind) for found, kind in zip(values, schema.types, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_boolean(kind):
        # SQLite has no booleans, and returns 0 or 1.
        return pa.array([None if value is None else bool(value) for value in values], kind)
    return pa.array(values, kind)


def _shaped(batch: pa.RecordBatch, columns: Sequence[Column]) -> pa.RecordBatch:
    arrays = [
        array.cast(pa.timestamp("ms", "UTC")).cast(ARROW["time"]) if column.type == "time" else array
        for array, column in zip(batch.columns, columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns))


def keep_allowed(batch: pa.RecordBatch, columns: Sequence[Column], allowed: frozenset[str]) -> pa.RecordBatch:
    """Return the batch with all `columns`.

    The column `metadata` keeps only the allowed keys, and is null in a row that has none of these keys.
    """
    arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
    if "metadata" in arrays:
        arrays["metadata"] = pa.array([_allowed(v.as_py(), allowed) for v in arrays["metadata"]], pa.string())
    elif any(column.name == "metadata" for column in columns):
        arrays["metadata"] = pa.nulls(len(batch), pa.string())
    return pa.RecordBatch.from_arrays([arrays[c.name] for c in columns], schema=arrow_schema(columns))


def _allowed(document: str | None, allowed: frozenset[str]) -> str | None:
    kept = {key: value for key, value in json.loads(document or "{}").items() if key in allowed}
    return json.dumps(kept, ensure_ascii=False, sort_keys=True) if kept else None
