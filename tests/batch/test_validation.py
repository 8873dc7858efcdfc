import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from euterpe.batch.files import files_of
from euterpe.batch.row_problems import Problem, ProblemTotals
from euterpe.batch.splits import split
from euterpe.batch.validation import check, examine
from tests.batch.manifests import KINDS, Cells, cells, pieces_of, write

CANARY = "canary-in-a-secret"
KEYS = {"credentials.type": "s3", "credentials.access_key_id": "a", "credentials.secret_access_key": CANARY}
NO_PROFILE = "must be a profile that GET /transcode/profiles lists (did you mean 'h264-720p'?)"


def examined(
    spark: SparkSession, manifest: str, defaults: dict[str, Any] | None = None, piece_bytes: int = 1 << 22
) -> tuple[ProblemTotals, list[str]]:
    problems: list[Problem] = []
    with files_of(manifest) as files:
        totals = examine(spark, split(files, piece_bytes), defaults or {}, problems.append)
        return totals, [line for problem in problems for line in problem.lines(files)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_bad_row_is_reported_with_every_reason(spark: SparkSession, folder: Path, kind: str) -> None:
    table: list[Cells] = [cells(n) for n in range(6)]
    table[2] |= {"priority": 101, "output.url": "s3://out/no-slash"}
    table[4] |= {"profile": "h264-721p"}
    write(folder / f"june.{kind}", table)
    totals, lines = examined(spark, f"june.{kind}")
    assert totals == ProblemTotals(rows=6, bad=2, duplicates=0)
    third, fifth = {"csv": (":4", ":6"), "jsonl": (":3", ":5"), "parquet": (" row 3", " row 5")}[kind]
    assert lines == [
        f"june.{kind}{third}: output.url: must be a prefix that ends with '/'",
        f"june.{kind}{third}: priority: must be at most 100",
        f"june.{kind}{fifth}: profile: {NO_PROFILE}",
    ]


def test_a_duplicate_row_is_reported_with_the_first(spark: SparkSession, folder: Path) -> None:
    """Duplicates are found across pieces, files and formats.

    A row that states a default value is a duplicate of the same row without this value.
    """
    write(folder / "a.csv", [cells(1), cells(2), cells(1)])
    write(folder / "b.jsonl", [cells(3), cells(2, queue="default")])
    totals, lines = examined(spark, ".", piece_bytes=1)
    assert totals == ProblemTotals(rows=5, bad=0, duplicates=2)
    assert lines == [
        "a.csv:4: is the same job as a.csv:2, which is submitted once",
        "b.jsonl:2: is the same job as a.csv:3, which is submitted once",
    ]


def test_rows_that_the_service_could_not_distinguish_are_bad(spark: SparkSession, folder: Path) -> None:
    rows = [cells(1) | {"source.url": f"https://h/get?id={n}"} for n in (1, 2, 1)]
    write(folder / "june.csv", rows)
    totals, lines = examined(spark, "june.csv")
    assert totals == ProblemTotals(rows=3, bad=1, duplicates=1)
    assert lines[0].startswith(
        "june.csv:3: would be the same job as june.csv:2, from which it differs only in "
    )
    assert lines[1] == "june.csv:4: is the same job as june.csv:2, which is submitted once"


def test_defaults_fill_what_rows_leave_open(spark: SparkSession, folder: Path) -> None:
    rows = [{name: value for name, value in cells(n).items() if name != "profile"} for n in range(3)]
    write(folder / "june.csv", rows)
    assert examined(spark, "june.csv")[0].bad == 3
    assert examined(spark, "june.csv", {"profile": "h264-720p"})[0].bad == 0


def test_the_order_of_the_rows_changes_no_number(spark: SparkSession, folder: Path) -> None:
    table = [cells(n % 40, priority=n % 40 + 62) for n in range(100)]
    write(folder / "june.csv", table)
    random.Random(4).shuffle(table)
    write(folder / "july.csv", table)
    assert examined(spark, "june.csv", piece_bytes=500)[0] == examined(spark, "july.csv", piece_bytes=300)[0]


def test_no_secret_goes_through_spark(folder: Path) -> None:
    write(folder / "june.csv", [cells(1) | KEYS, cells(2) | KEYS | {"credentials.type": "gs"}])
    assert CANARY not in str(checked(pieces_of("june.csv")))


def checked(pieces: Sequence[Any]) -> list[Any]:
    """Run `check` as a Python process of Spark does, and return its rows."""
    numbers = pa.record_batch({"id": [*range(len(pieces))]})
    found = [row for batch in check(pieces, {}, b"salt", None, iter([numbers])) for row in batch.to_pylist()]
    assert [bool(row["errors"]) for row in found] == [False, True]
    return found
