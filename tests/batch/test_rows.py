from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.batch.manifests import KINDS, cells, flaws, read, write

HEADER = "source.url,output.url,profile,priority,metadata.title\n"


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_manifest_has_the_same_rows(folder: Path, kind: str) -> None:
    rows = read(write(folder / f"june.{kind}", [cells(1, priority=70, metadata__title="Première"), cells(2)]))
    assert [row.document for row in rows] == [
        {
            "source": {"url": "s3://in/1.mov"},
            "output": {"url": "s3://out/1/"},
            "profile": "h264-720p",
            "priority": 70,
            "metadata": {"title": "Première"},
        },
        {"source": {"url": "s3://in/2.mov"}, "output": {"url": "s3://out/2/"}, "profile": "h264-720p"},
    ]
    assert [row.flaws for row in rows] == [(), ()]


@pytest.mark.parametrize("text", ["\ufeff{}", "\n\n{}", "{}"], ids=["bom", "blank lines", "plain"])
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_csv_may_come_from_any_program(folder: Path, text: str, end: str, delimiter: str) -> None:
    lines = [
        delimiter.join(["profile", "queue"]),
        delimiter.join(["a", '"x\n""y"""']),
        "",
        delimiter,
        "b" + delimiter,
    ]
    path = folder / "june.csv"
    path.write_bytes(text.format(end.join(lines)).encode())
    assert [row.document for row in read(path)] == [{"profile": "a", "queue": 'x\n"y"'}, {"profile": "b"}]


def test_a_line_of_csv_is_where_its_record_begins(folder: Path) -> None:
    path = folder / "june.csv"
    path.write_text('profile,queue\na,"1\n2\n3"\n\nb,\n')
    assert [row.line for row in read(path)] == [2, 6]


def test_bad_csv_is_reported_by_line_and_the_rest_is_read(folder: Path) -> None:
    path = folder / "june.csv"
    path.write_bytes(b'profile,queue\na\nb,c,d\n"e"f,g\nh,\xff\xfe\ni,j\n"k,l\nm,n\n')
    assert flaws(path) == {
        2: [": has 1 cells, and there are 2 columns"],
        3: [": has 3 cells, and there are 2 columns"],
        4: [": is not CSV: ',' expected after '\"'"],
        5: ["queue: is not UTF-8"],
        7: [": is not CSV: unexpected end of data"],
    }
    assert [row.document for row in read(path) if not row.flaws] == [{"profile": "i", "queue": "j"}]


@pytest.mark.parametrize("start", ["", "\ufeff"], ids=["plain", "bom"])
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_json_lines_may_come_from_any_program(folder: Path, start: str, end: str) -> None:
    path = folder / "june.jsonl"
    path.write_bytes((start + end.join(['{"profile": "a"}', " ", '{"profile": "b"}'])).encode())
    assert [(row.line, row.document) for row in read(path)] == [(1, {"profile": "a"}), (3, {"profile": "b"})]


def test_bad_json_is_reported_by_line(folder: Path) -> None:
    path = folder / "june.jsonl"
    path.write_bytes(b'{"a": 1\n[]\n"x"\n{"a": 1, "a": 2}\n{"a": "\xff"}\n' + b"[" * 100_000 + b"\n{}\n")
    assert flaws(path) == {
        1: [": is not JSON at line 2, column 1: Expecting ',' delimiter"],
        2: [": must be a JSON object"],
        3: [": must be a JSON object"],
        4: ["a: is given more than once"],
        5: [": is not UTF-8 at byte 7"],
        6: [": is nested too deeply"],
    }


def test_parquet_may_come_from_pandas_or_spark(folder: Path) -> None:
    """pandas and Spark turn integers into floats, times into timestamps, and dictionaries into maps."""
    columns = {
        "source": [{"url": "s3://in/a.mov"}, {"url": None}],
        "priority": pa.array([70.0, None]),
        "not_before": [datetime(2030, 1, 31, tzinfo=UTC), None],
        "metadata": pa.array([[("a", "b")], None], pa.map_(pa.string(), pa.string())),
        "outputs": [[{"name": "mp4", "type": "mp4", "video": None}], None],
    }
    pq.write_table(pa.table(columns), folder / "june.parquet")
    first, second = read("june.parquet")
    assert first.document == {
        "source": {"url": "s3://in/a.mov"},
        "priority": 70,
        "not_before": "2030-01-31T00:00:00+00:00",
        "metadata": {"a": "b"},
        "outputs": [{"name": "mp4", "type": "mp4"}],
    }
    assert second.document == {"source": {}}


@pytest.mark.parametrize("kind", [pa.timestamp("s"), pa.timestamp("s", "Mars/Olympus")])
def test_a_time_that_python_cannot_represent_is_reported(folder: Path, kind: pa.DataType) -> None:
    times = pa.array([400_000_000_000 if kind.tz is None else 0], kind)
    pq.write_table(pa.table({"not_before": times}), folder / "june.parquet")
    (row,) = read("june.parquet")
    assert "is damaged" in str(row.flaws)


def test_a_damaged_row_group_is_reported_where_it_begins(folder: Path) -> None:
    path = folder / "june.parquet"
    table = pa.table({"profile": [f"{n:0500}" for n in range(100)]})
    pq.write_table(table, path, row_group_size=50, compression="none", use_dictionary=False)
    raw = bytearray(path.read_bytes())
    raw[30_000:30_200] = b"\xff" * 200
    path.write_bytes(raw)
    assert list(flaws(path).values()) == [[": is damaged, like all that follows"]]
