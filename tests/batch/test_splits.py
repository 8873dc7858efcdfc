from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from euterpe.batch.files import ManifestError
from tests.batch.manifests import KINDS, Cells, cells, pieces_of, read, write

TABLE: list[Cells] = [cells(n, metadata__title=f'"{n}",\r\n\n{"é" * n}') for n in range(60)]


def refusal(path: Path) -> str:
    with pytest.raises(ManifestError) as caught:
        pieces_of(path.name)
    return str(caught.value)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("piece_bytes", [1, 100, 1000])
def test_the_pieces_of_a_text_file_cover_it_all(folder: Path, kind: str, piece_bytes: int) -> None:
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
def test_a_file_without_rows_is_refused(folder: Path, kind: str) -> None:
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


def test_unknown_columns_are_reported_once_and_not_by_row(folder: Path) -> None:
    path = write(folder / "june.csv", [{**cells(n), "profil": "x"} for n in range(10)])
    assert refusal(path).startswith(
        "june.csv: has columns that are no field of a job: 'profil' (did you mean 'profile'?); "
    )
    path = write(folder / "june.parquet", [{**cells(1), "titel": "x"}])
    assert "'titel'" in refusal(path)


def test_a_missing_header_is_reported_as_unknown_columns(folder: Path) -> None:
    path = folder / "june.csv"
    path.write_text("s3://in/a.mov,s3://out/a/,h264-720p\n")
    assert "its first line must name them, like source.url,output.url,profile" in refusal(path)


def test_a_column_is_named_once(folder: Path) -> None:
    path = folder / "june.csv"
    path.write_text("profile,queue,profile\na,b,c\n")
    assert refusal(path) == "june.csv: has columns more than once: profile"


def test_what_is_not_parquet_is_refused(folder: Path) -> None:
    path = folder / "june.parquet"
    path.write_bytes(b"PAR1 or not PAR1")
    assert refusal(path) == "june.parquet: is not Parquet, or is damaged"


def test_a_line_has_a_greatest_length(folder: Path) -> None:
    path = folder / "june.jsonl"
    path.write_bytes(b"{}\n" + b" " * 2_000_000)
    assert refusal(path) == "june.jsonl:2: is longer than 1 MiB"


@settings(max_examples=300)
@given(st.text(alphabet='",\n\ra ', max_size=60), st.sampled_from(",;\t"))
@example('\r,"\n"a\na\r\n', ",")  # csv.reader fails at a bare \r, and continues at the next line
@example('"";,"\r\n"\na\n"', ",")  # csv.reader also fails at text after a closing quote
@example('a,"\nb,c\n"\n', ";")
@example('a,"\nb,c\n"\n', "\t")
def test_wherever_a_csv_is_cut_the_same_rows_are_read(
    tmp_path_factory: pytest.TempPathFactory, text: str, mark: str
) -> None:
    """After a wrong cut, text within quotes would be read as a row and submitted."""
    path = tmp_path_factory.getbasetemp() / "cut.csv"
    path.write_bytes(f"external_id,profile\nfirst,p\n{text}".replace(",", mark).encode())
    assert read(path, 1) == read(path)


def test_a_quote_in_the_middle_of_a_cell_is_text(folder: Path) -> None:
    path = folder / "june.csv"
    quoted = '"a, ""b""\nx,y\n"'
    path.write_text(f'external_id,profile\na 5" disc,p\n{quoted},p\nlast,p\n')
    assert [row.document.get("external_id") for row in read(path, 1)] == [
        'a 5" disc',
        'a, "b"\nx,y\n',
        "last",
    ]


def test_after_a_cell_that_is_too_long_no_row_is_read(folder: Path) -> None:
    path = folder / "june.csv"
    path.write_text('external_id,profile\n"' + "a\n" * 100_000 + "evil,p\n" * 3 + '",p\n')
    (row,) = read(path)
    assert "too long a cell" in str(row.flaws)


def test_a_csv_with_carriage_returns_alone_is_refused(folder: Path) -> None:
    path = folder / "june.csv"
    path.write_bytes(b"external_id,profile\ra,p\rb,p\r")
    assert "is not CSV" in refusal(path)
