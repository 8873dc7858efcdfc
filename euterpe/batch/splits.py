"""Split a manifest into pieces that can be read independently, each with the number of its first row.

A first pass over the text finds the line ends that are ends of records. This pass is as fast as the disk.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from euterpe.batch.column_mapping import unknown
from euterpe.batch.files import File, Kind, ManifestError

_PIECE = 4 * 1024 * 1024
_LONGEST_LINE = 1024 * 1024  # in bytes: four times the API's default limit for a request body
_BOM = b"\xef\xbb\xbf"
_DELIMITERS = ",;\t"
_REST_OF_QUOTED = re.compile(rb'(?:[^"]|"")*+"')


@dataclass(frozen=True)
class Piece:
    """The bytes from `start` to `end` of a file; for Parquet, the row group `start`."""

    file: int  # index among the manifest's files
    path: str
    kind: Kind
    start: int
    end: int
    line: int  # line number of the piece's first row
    columns: tuple[str, ...] = ()
    delimiter: str = ","


def split(files: Sequence[File], piece_bytes: int = _PIECE) -> list[Piece]:
    """Return the pieces of all files. Raise `ManifestError` if a file is malformed or there are no rows."""
    pieces: list[Piece] = []
    for number, file in enumerate(files):
        match file.kind:
            case "csv":
                pieces += _split_csv(number, file, piece_bytes)
            case "jsonl":
                pieces += _split_lines(number, file, piece_bytes)
            case "parquet":
                pieces += _split_parquet(number, file)
    if not pieces:
        raise ManifestError(f"{', '.join(file.name for file in files)}: has no rows")
    return pieces


def _split_csv(number: int, file: File, piece_bytes: int) -> Iterator[Piece]:
    with Path(file.path).open("rb") as stream:
        lines = _lines(stream, file)
        columns, delimiter, line = _header(lines, file)
        for cut in _cuts(lines, stream.tell(), line, piece_bytes, delimiter):
            yield Piece(number, file.path, "csv", *cut, columns, delimiter)


def _split_lines(number: int, file: File, piece_bytes: int) -> Iterator[Piece]:
    with Path(file.path).open("rb") as stream:
        start = len(_BOM) if stream.read(len(_BOM)) == _BOM else 0
        stream.seek(start)
        for cut in _cuts(_lines(stream, file), start, 1, piece_bytes):
            yield Piece(number, file.path, "jsonl", *cut)


def _split_parquet(number: int, file: File) -> Iterator[Piece]:
    import pyarrow as pa  # noqa: PLC0415  the other formats do not need it
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        with pq.ParquetFile(file.path) as parquet:
            metadata, columns = parquet.metadata, parquet.schema_arrow.names
            sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    except (pa.ArrowException, OSError):
        raise ManifestError(f"{file.name}: is not Parquet, or is damaged") from None
    _check_columns(columns, file)
    line = 1
    for group, size in enumerate(sizes):
        if size:
            yield Piece(number, file.path, "parquet", group, group + 1, line)
        line += size


def _lines(stream: IO[bytes], file: File) -> Iterator[bytes]:
    number = 0
    while raw := stream.readline(_LONGEST_LINE + 1):
        number += 1
        if len(raw) > _LONGEST_LINE:
            raise ManifestError(f"{file.name}:{number}: is longer than {_LONGEST_LINE >> 20} MiB")
        yield raw


def _header(lines: Iterator[bytes], file: File) -> tuple[tuple[str, ...], str, int]:
    """Return the column names, the delimiter and the line number of the first row."""
    try:
        line, text = next(
            (line, text)
            for line, raw in enumerate(lines, 1)
            if (text := raw.removeprefix(_BOM).decode()).strip()
        )
    except StopIteration:
        raise ManifestError(f"{file.name}: is empty") from None
    except UnicodeDecodeError:
        raise ManifestError(f"{file.name}: is not UTF-8: save it as UTF-8") from None
    delimiter = next((mark for mark in _DELIMITERS if mark in text), ",")
    try:
        names = tuple(name.strip() for name in next(csv.reader([text], delimiter=delimiter, strict=True)))
    except csv.Error as error:
        raise ManifestError(f"{file.name}: the line that names the columns is not CSV: {error}") from None
    _check_columns(names, file)
    return names, delimiter, line + 1


def _check_columns(names: Sequence[str], file: File) -> None:
    if wrong := unknown(names):
        raise ManifestError(
            f"{file.name}: has columns that are no field of a job: {', '.join(wrong[:10])}; "
            "its first line must name them, like source.url,output.url,profile"
        )
    if twice := sorted(name for name, times in Counter(names).items() if times > 1):
        raise ManifestError(f"{file.name}: has columns more than once: {', '.join(twice)}")


def _cuts(
    lines: Iterator[bytes], start: int, line: int, piece_bytes: int, delimiter: str = ""
) -> Iterator[tuple[int, int, int]]:
    """Yield start, end and first line of each piece. A line end within quotes does not end a piece of CSV."""
    end, first, mark, is_open = start, line, delimiter.encode(), False
    for raw in lines:
        end += len(raw)
        line += 1
        if mark and b'"' in raw:
            is_open = _ends_open(raw, is_open, mark)
        if end - start >= piece_bytes and not is_open:
            yield start, end, first
            start, first = end, line
    if end > start:
        yield start, end, first


def _ends_open(raw: bytes, is_open: bool, mark: bytes) -> bool:
    """Return whether a line ends within quotes, by the same rules as the `csv` reader.

    Quotes open only at the beginning of a cell. After an error, the reader starts again on the next line.
    With different rules, a piece could begin inside a cell, and text of the cell could be read as a row."""
    at = 0
    while True:
        if not is_open:
            is_open = raw.startswith(b'"', at)
            at += is_open
        if is_open:
            rest = _REST_OF_QUOTED.match(raw, at)
            if rest is None:
                return True
            at = rest.end()
        end = raw.find(mark, at)
        between = raw[at:end] if end >= 0 else raw[at:]
        if end < 0 or b"\r" in between or (is_open and between):
            return False
        is_open, at = False, end + len(mark)
