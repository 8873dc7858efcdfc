from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from euterpe.analytics.batch.errors import ManifestError
from tests.analytics.batch.manifests import KINDS, Cells, cells, pieces_of, read, write

TABLE: list[Cells] = [cells(n, metadata__title=f'"{n}",\r\n\n{"é" * n}') for n in range(60)]


def refusal(path: Path) -> str:
    with pytest.raises(ManifestError) as told:
        pieces_of(path.name)
    return str(told.value)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("piece_bytes", [1, 100, 1000])
def test_the_pieces_of_a_text_are_the_whole(folder: Path, kind: str, piece_bytes: int) -> None:
    path = write(folder / f"june.{kind}", TABLE)
    pieces = pieces_of(path, piece_bytes)
    assert len(pieces) > 5
    assert all(before.end == after.start for before, after in pairwise(pieces))
    assert pieces[-1].end == path.stat().st_size
    assert read(path, piece_bytes) == read(path)


def test_a_piece_of_parquet_is_a_row_group(folder: Path) -> None:
    table = pa.Table.from_pylist(TABLE)
    pq.write_table(table, folder / "june.parquet", row_group_size=25)
    assert [piece.line for piece in pieces_of("june.parquet")] == [1, 26, 51]
    assert [row.line for row in read("june.parquet")] == [*range(1, 61)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_without_rows_is_told_so(folder: Path, kind: str) -> None:
    path = write(folder / f"june.{kind}", [cells(1)])
    if kind == "parquet":
        pq.write_table(pq.read_table(path).slice(0, 0), path)
    else:
        path.write_text(path.read_text().partition("\n")[0] + "\n" if kind == "csv" else "")
    assert refusal(path) == f"june.{kind}: has no rows"


def test_a_csv_without_even_a_header_is_empty(folder: Path) -> None:
    path = folder / "june.csv"
    path.write_text("\n\n")
    assert refusal(path) == "june.csv: is empty"


def test_unknown_columns_are_told_once_and_not_by_row(folder: Path) -> None:
    path = write(folder / "june.csv", [{**cells(n), "profil": "x"} for n in range(10)])
    assert refusal(path).startswith(
        "june.csv: has columns that are no field of a job: 'profil' (did you mean 'profile'?); "
    )
    path = write(folder / "june.parquet", [{**cells(1), "titel": "x"}])
    assert "'titel'" in refusal(path)


def test_a_header_that_is_missing_is_told_as_unknown_columns(folder: Path) -> None:
    path = folder / "june.csv"
    path.write_text("s3://in/a.mov,s3://out/a/,h264-720p\n")
    assert "its first line must name them, like source.url,output.url,profile" in refusal(path)


def test_a_column_is_named_once(folder: Path) -> None:
    path = folder / "june.csv"
    path.write_text("profile,queue,profile\na,b,c\n")
    assert refusal(path) == "june.csv: has columns more than once: profile"


def test_what_is_not_parquet_is_told_so(folder: Path) -> None:
    path = folder / "june.parquet"
    path.write_bytes(b"PAR1 or not PAR1")
    assert refusal(path) == "june.parquet: is not Parquet, or is damaged"


def test_a_line_has_a_greatest_length(folder: Path) -> None:
    path = folder / "june.jsonl"
    path.write_bytes(b"{}\n" + b" " * 2_000_000)
    assert refusal(path) == "june.jsonl:2: is longer than 1 MiB"
