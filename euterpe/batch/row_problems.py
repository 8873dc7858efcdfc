"""The reasons why rows are not submitted, as messages and in the rejects file.

The reasons contain no cell values, because a cell can contain credentials.
"""

import csv
import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, NamedTuple, Self

from euterpe.batch.files import File

_CLASH = (
    "would be the same job as {}, from which it differs only in credentials or the query of a URL: give it "
    "another output or an external_id of its own"
)


class RowPlace(NamedTuple):
    file: int  # index among the manifest's files
    line: int


@dataclass(frozen=True)
class Problem:
    """A row that is invalid or duplicates another row."""

    place: RowPlace
    errors: tuple[tuple[str, str], ...]  # pairs of field and reason
    first: RowPlace  # the first of the rows that describe the same job
    is_bad: bool

    def reasons(self, files: Sequence[File]) -> list[tuple[str, str]]:
        """Return pairs of field and reason; the field is empty if a reason concerns the whole row."""
        there = files[self.first.file].place(self.first.line)
        if not self.is_bad:
            return [("", f"is the same job as {there}, which is submitted once")]
        return [*self.errors] or [("", _CLASH.format(there))]

    def lines(self, files: Sequence[File]) -> Iterator[str]:
        here = files[self.place.file].place(self.place.line)
        for field, reason in self.reasons(files):
            yield f"{here}: {f'{field}: ' if field else ''}{reason}"


@dataclass(frozen=True)
class ProblemTotals:
    rows: int
    bad: int
    duplicates: int

    @property
    def good(self) -> int:
        return self.rows - self.bad - self.duplicates


class Rejects(AbstractContextManager["Rejects"]):
    """The rejects file, with one line per error.

    The format is CSV if the name of the file ends with `.csv`, and otherwise JSON lines.
    """

    def __init__(self, path: Path, files: Sequence[File]) -> None:
        self._files = files
        self._stream: IO[str] = path.open("w", encoding="utf-8", newline="")
        self._csv = csv.writer(self._stream) if path.suffix.lower() == ".csv" else None
        if self._csv:
            self._csv.writerow(("file", "row", "field", "reason"))

    def add(self, problem: Problem) -> None:
        name, line = self._files[problem.place.file].name, problem.place.line
        for field, reason in problem.reasons(self._files):
            if self._csv:
                self._csv.writerow((name, line, field, reason))
            else:
                error = {"file": name, "row": line, "field": field, "reason": reason}
                self._stream.write(json.dumps(error) + "\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()
