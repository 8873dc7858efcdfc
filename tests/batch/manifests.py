"""Write manifests of every kind with the same rows, and read them."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from euterpe.batch.files import files_of
from euterpe.batch.rows import Row, rows
from euterpe.batch.splits import Piece, split

KINDS = ("csv", "jsonl", "parquet")
Cells = dict[str, Any]


def cells(number: int, **others: Any) -> Cells:
    """Return a flat row. Two underscores in the name of an argument stand for a dot."""
    row = {"source.url": f"s3://in/{number}.mov", "output.url": f"s3://out/{number}/", "profile": "h264-720p"}
    return {**row, **{name.replace("__", "."): value for name, value in others.items()}}


def write(path: Path, table: Sequence[Cells]) -> Path:
    """Write the rows in the format of the path's suffix. In CSV and Parquet, missing cells are empty."""
    columns = list(dict.fromkeys(name for row in table for name in row))
    if path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, columns)
            writer.writeheader()
            writer.writerows(table)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table))
    else:
        pq.write_table(pa.Table.from_pylist([{c: row.get(c) for c in columns} for row in table]), path)
    return path


def pieces_of(path: Path | str, piece_bytes: int = 1 << 22) -> list[Piece]:
    with files_of(str(path)) as files:
        return split(files, piece_bytes)


def read(path: Path | str, piece_bytes: int = 1 << 22) -> list[Row]:
    return [row for piece in pieces_of(path, piece_bytes) for row in rows(piece)]


def flaws(path: Path) -> dict[int, list[str]]:
    """Return the error messages of each invalid line, by line number."""
    return {
        row.line: [f"{'.'.join(map(str, flaw.loc))}: {flaw.msg}" for flaw in row.flaws]
        for row in read(path)
        if row.flaws
    }
