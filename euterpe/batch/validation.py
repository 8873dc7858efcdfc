"""Validate every row of a manifest with Spark before the first row is submitted."""

import secrets
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import Row as SparkRow
from pyspark.sql import functions as F

from euterpe.batch.column_mapping import Document
from euterpe.batch.row_problems import Problem, ProblemTotals, RowPlace
from euterpe.batch.rows import Row, key_of, read_request, rows, secret_of
from euterpe.batch.splits import Piece
from euterpe.domain.errors import InvalidSpec
from euterpe.domain.profiles import Profiles

_BATCH = 1000
_CHECKED = pa.schema(
    [
        ("file", pa.int32()),
        ("line", pa.int64()),
        ("key", pa.string()),
        ("secret", pa.string()),
        ("errors", pa.list_(pa.struct([("field", pa.string()), ("reason", pa.string())]))),
    ]
)
_COLUMNS = (
    "file int, line long, key string, secret string, errors array<struct<field: string, reason: string>>"
)


def examine(
    spark: SparkSession,
    pieces: Sequence[Piece],
    defaults: Document,
    record: Callable[[Problem], None],
    profiles: Profiles | None = None,
) -> ProblemTotals:
    """Validate all rows and return the totals. `profiles` are the profiles of the service.

    `record` is called with every row that will not be submitted, in the order of the manifest."""
    checked = spark.range(0, len(pieces), 1, len(pieces)).mapInArrow(
        partial(check, tuple(pieces), defaults, secrets.token_bytes(32), profiles), _COLUMNS
    )
    judged = _judged(checked).persist()
    try:
        counts = judged.agg(
            F.count("*"), F.count_if(F.col("verdict") == "bad"), F.count_if(F.col("verdict") == "again")
        ).first()
        wrong = judged.where("verdict != 'good'").orderBy("file", "line")
        for row in wrong.toLocalIterator():
            record(_problem(row))
    finally:
        judged.unpersist()
    return ProblemTotals(*(counts or (0, 0, 0)))


def check(
    pieces: Sequence[Piece],
    defaults: Document,
    salt: bytes,
    profiles: Profiles | None,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Check the rows of these pieces, in a Python worker of Spark.

    The batches contain only positions, keys, hashes of secrets and errors, and no credentials."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            piece = pieces[number]
            checked: list[dict[str, Any]] = []
            for row in rows(piece):
                verdict = _verdict(piece, row, defaults, salt, profiles)
                checked.append({"file": piece.file, "line": row.line, **verdict})
                if len(checked) == _BATCH:
                    yield pa.RecordBatch.from_pylist(checked, schema=_CHECKED)
                    checked = []
            yield pa.RecordBatch.from_pylist(checked, schema=_CHECKED)


def _verdict(
    piece: Piece, row: Row, defaults: Document, salt: bytes, profiles: Profiles | None
) -> dict[str, Any]:
    try:
        _, spec = read_request(row, defaults, profiles)
    except InvalidSpec as invalid:
        errors = [{"field": ".".join(map(str, error.loc)), "reason": error.msg} for error in invalid.errors]
        # The key is unique, so that an invalid row never counts as a duplicate of another row.
        return {"key": f"{piece.file}:{row.line}", "secret": "", "errors": errors}
    return {"key": key_of(spec), "secret": secret_of(spec, salt), "errors": []}


def _judged(checked: DataFrame) -> DataFrame:
    """Add two columns to each row: the verdict, and the first row with the same key."""
    same = Window.partitionBy("key").orderBy("file", "line")
    first = F.first(F.struct("file", "line", "secret")).over(same)
    is_first = (F.col("first.file") == F.col("file")) & (F.col("first.line") == F.col("line"))
    is_bad = (F.size("errors") > 0) | (F.col("first.secret") != F.col("secret"))
    verdict = F.when(is_bad, "bad").when(is_first, "good").otherwise("again")
    return checked.withColumn("first", first).withColumn("verdict", verdict)


def _problem(row: SparkRow) -> Problem:
    place, first = RowPlace(row["file"], row["line"]), row["first"]
    errors = tuple((error["field"], error["reason"]) for error in row["errors"])
    return Problem(place, errors, RowPlace(first["file"], first["line"]), is_bad=row["verdict"] == "bad")
