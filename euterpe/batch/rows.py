"""Read the rows of one piece of a manifest (CSV, JSON lines, Parquet) as job documents or parse errors."""

import csv
import itertools
from collections.abc import Container, Iterable, Iterator, Sequence
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from euterpe.batch.column_mapping import NUMBERS, Document, nested, value_of, with_defaults
from euterpe.batch.files import ManifestError
from euterpe.batch.splits import Piece
from euterpe.domain.canonical import hls_keys, request_hash, split_secrets
from euterpe.domain.errors import FieldError, InvalidSpec
from euterpe.domain.profiles import Profile, Profiles
from euterpe.domain.spec import MAX_BODY_BYTES, JobSpec, parse_spec
from euterpe.domain.strict_json import parse_json

_BATCH = 1000


class Row(NamedTuple):
    line: int
    document: Document
    flaws: tuple[FieldError, ...] = ()


def rows(piece: Piece) -> Iterator[Row]:
    """Yield every row. A row that cannot be parsed has `flaws` and an empty document."""
    match piece.kind:
        case "csv":
            return _csv_rows(piece)
        case "jsonl":
            return _json_rows(piece)
        case "parquet":
            return _parquet_rows(piece)


def _csv_rows(piece: Piece) -> Iterator[Row]:
    text = (raw.decode(errors="surrogateescape") for raw in _lines(piece))
    reader = csv.reader(text, delimiter=piece.delimiter, strict=True)
    while True:
        line = piece.line + reader.line_num
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "field limit" in str(error):
                # Stop: the reader would continue inside this cell, and return the lines of the cell as rows.
                yield Row(line, {}, (FieldError((), "has too long a cell: what follows cannot be read"),))
                return
            yield Row(line, {}, (FieldError((), f"is not CSV: {error}"),))
            continue
        if any(cells):
            yield _csv_row(line, cells, piece.columns)


def _csv_row(line: int, cells: list[str], columns: tuple[str, ...]) -> Row:
    if len(cells) != len(columns):
        counts = f"has {len(cells)} cells, and there are {len(columns)} columns"
        return Row(line, {}, (FieldError((), counts),))
    given = {column: cell for column, cell in zip(columns, cells, strict=True) if cell}
    if broken := [column for column, cell in given.items() if not _is_text(cell)]:
        return Row(line, {}, tuple(FieldError((column,), "is not UTF-8") for column in broken))
    try:
        return Row(line, nested({column: value_of(column, cell) for column, cell in given.items()}))
    except InvalidSpec as wrong:
        return Row(line, {}, wrong.errors)


def _is_text(cell: str) -> bool:
    return cell.isascii() or not any("\udc80" <= char <= "\udcff" for char in cell)


def _json_rows(piece: Piece) -> Iterator[Row]:
    for line, raw in enumerate(_lines(piece), piece.line):
        if not raw.strip():
            continue
        try:
            parsed = parse_json(raw, MAX_BODY_BYTES)
            yield Row(line, nested(parsed) if isinstance(parsed, dict) else _no_object())
        except InvalidSpec as wrong:
            yield Row(line, {}, wrong.errors)


def _no_object() -> Document:
    raise InvalidSpec((FieldError((), "must be a JSON object"),))


def _lines(piece: Piece) -> Iterator[bytes]:
    with Path(piece.path).open("rb") as stream:
        stream.seek(piece.start)
        at = piece.start
        while at < piece.end and (raw := stream.readline()):
            at += len(raw)
            yield raw


def _parquet_rows(piece: Piece) -> Iterator[Row]:
    import pyarrow as pa  # noqa: PLC0415  the other formats do not need it
    import pyarrow.parquet as pq  # noqa: PLC0415

    line = itertools.count(piece.line)
    try:
        with pq.ParquetFile(piece.path) as parquet:
            for batch in parquet.iter_batches(_BATCH, row_groups=[piece.start]):
                for given in batch.to_pylist(maps_as_pydicts="lossy"):
                    yield _parquet_row(next(line), given)
    except (
        pa.ArrowException,
        OSError,
        ValueError,
        OverflowError,
        KeyError,
    ):  # KeyError: an unknown time zone
        yield Row(next(line), {}, (FieldError((), "is damaged, like all that follows"),))


def _parquet_row(line: int, given: dict[str, Any]) -> Row:
    """Return the row without its null cells, because null in Parquet means that the column is not set."""
    try:
        cells = {column: _plain(column, value) for column, value in given.items() if value is not None}
        return Row(line, nested(cells))
    except InvalidSpec as wrong:
        return Row(line, {}, wrong.errors)


def _plain(column: str, value: Any) -> Any:
    if isinstance(value, dict):
        inner = {name: item for name, item in value.items() if item is not None}
        return {name: _plain(f"{column}.{name}", item) for name, item in inner.items()}
    if isinstance(value, list):
        return [_plain(column, item) for item in value]
    # pandas turns a column of integers into floats if a value is missing. Spark and pandas write times as
    # timestamps, which pyarrow returns as `datetime`.
    if column in NUMBERS and isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, datetime):
        return value.isoformat()
    return value


class Request(NamedTuple):
    file: int
    line: int
    document: Document
    key: str


def profiles_named(names: Iterable[str]) -> Profiles:
    """Return profiles with these names and without outputs, because a check of rows needs only the names."""
    return {name: Profile(name, "", "", ()) for name in names}


def read_request(row: Row, defaults: Document, profiles: Profiles | None = None) -> tuple[Document, JobSpec]:
    """Return the row's document and its spec. Raise `InvalidSpec` with every error of the row.

    `profiles` are the profiles of the service, by default the built-in profiles.
    """
    if row.flaws:
        raise InvalidSpec(row.flaws)
    document = with_defaults(row.document, defaults)
    return document, parse_spec(document, profiles)


def key_of(spec: JobSpec) -> str:
    """Return an idempotency key derived from the spec without secrets.

    New credentials or URL signatures do not change the key. The API compares requests in the same way."""
    return f"batch-{request_hash(spec)}"


def secret_of(spec: JobSpec, salt: bytes) -> str:
    """Return a salted hash of the spec's secrets, so that rows can be compared without revealing secrets."""
    _, secret = split_secrets(spec)
    return blake2b((hls_keys(spec) or b"") + (secret or b""), key=salt, digest_size=16).hexdigest()


def requests(
    pieces: Sequence[Piece],
    defaults: Document,
    left_out: Container[tuple[int, int]],
    profiles: Profiles | None = None,
) -> Iterator[Request]:
    """Yield the rows to submit. The pieces are read a second time, so that no credentials pass through Spark.

    Raise `ManifestError` if a row has become invalid since the check."""
    for piece in pieces:
        for row in rows(piece):
            if (piece.file, row.line) not in left_out:
                try:
                    document, spec = read_request(row, defaults, profiles)
                except InvalidSpec:
                    raise ManifestError("the manifest has changed since it was checked") from None
                yield Request(piece.file, row.line, document, key_of(spec))
