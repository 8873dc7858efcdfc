"""Print the output of commands: tables and lines for people, one JSON document for programs."""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from euterpe.domain.states import FINISHED
from euterpe.domain.units import iso_or_none


def out(line: str) -> None:
    typer.echo(_printable(line))


def note(line: str) -> None:
    """Print a line for people on stderr: a program that reads stdout must not get the line."""
    typer.echo(_printable(line), err=True)


def complain(*lines: str) -> None:
    for line in lines:
        typer.echo(f"error: {_printable(' '.join(line.split()))}", err=True)


def json_document(document: object) -> None:
    typer.echo(json.dumps(document, indent=2))


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    shown = Table(*columns, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for row in rows:
        shown.add_row(*(Text(_cell(value)) for value in row))
    _print(shown)


def fields(values: Mapping[str, object]) -> None:
    shown = Table.grid(padding=(0, 2, 0, 0))
    for name, value in values.items():
        if value is not None:
            shown.add_row(Text(name), Text(_cell(value)))
    _print(shown)


def job_fields(job: Mapping[str, Any]) -> None:
    """Print a job. An unfinished job's error is from an earlier attempt, so the label is `last_error`."""
    goes_on = job["status"] not in FINISHED
    fields({"last_error" if goes_on and name == "error" else name: value for name, value in job.items()})


def document(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a database row for JSON: with instants in ISO 8601, and without the indexing column `lane`."""
    return {
        name: iso_or_none(value) if name.endswith("_at") else value
        for name, value in row.items()
        if name != "lane"
    }


def age(since_ms: int) -> str:
    """Return how long ago an instant was, in the largest unit that fits."""
    seconds = max(0, int(time.time() - since_ms / 1000))
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def _print(shown: Table) -> None:
    # Lines are not wrapped, not even on a terminal: ids stay whole, for grep and for copying.
    console = Console(width=1_000_000, color_system=None)
    with console.capture() as captured:
        console.print(shown)
    for line in captured.get().splitlines():
        typer.echo(line.rstrip())


def _cell(value: object) -> str:
    if value is None:
        return ""
    return _printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _printable(text: str) -> str:
    """Escape unprintable characters: a requester's text must not control the operator's terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
