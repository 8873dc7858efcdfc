import csv
import json
from pathlib import Path

from euterpe.batch.files import File
from euterpe.batch.row_problems import Problem, Rejects, RowPlace

FILES = [File("june.csv", "/june.csv", "csv")]
BAD = Problem(
    RowPlace(0, 4), (("priority", "must be at most 100"), ("", "is not CSV")), RowPlace(0, 4), is_bad=True
)


def test_a_problem_is_a_line_for_each_reason() -> None:
    assert [*BAD.lines(FILES)] == ["june.csv:4: priority: must be at most 100", "june.csv:4: is not CSV"]


def test_rejects_are_csv_or_json_lines(folder: Path) -> None:
    for name in ("bad.csv", "bad.jsonl"):
        with Rejects(folder / name, FILES) as rejects:
            rejects.add(BAD)
    with (folder / "bad.csv").open(newline="") as stream:
        rows = [*csv.DictReader(stream)]
    lines = [json.loads(line) for line in (folder / "bad.jsonl").read_text().splitlines()]
    assert rows == [{name: str(value) for name, value in line.items()} for line in lines]
    assert lines[0] == {"file": "june.csv", "row": 4, "field": "priority", "reason": "must be at most 100"}
