"""Print the output of commands: tables and lines for people, one JSON document for programs."""

import json
import shutil
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.text import Text

from euterpe.cli.layout import field_lines, printable, table_lines
from euterpe.domain.rows import columns
from euterpe.domain.units import format_largest_unit, iso_or_none

_COLOURS = {"succeeded": "green", "failed": "red", "dead_letter": "red", "queued": "yellow"}
# Replacements for characters that the terminal's encoding may lack. Any other character that the encoding
# lacks is printed as an escape.
_ASCII = str.maketrans({"×": "x", "≥": ">=", "…": "...", "━": "#", "─": "-"})

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def out(line: str) -> None:
    typer.echo(_encodable(printable(line)))


def note(line: str) -> None:
    """Print a line for people. It goes to stderr, so that programs that read stdout do not receive it."""
    # While a progress bar is shown, sys.stderr is a stream that prints lines above the bar. `typer.echo`
    # would bypass this stream.
    sys.stderr.write(f"{printable(line)}\n")


def complain(*lines: str) -> None:
    for line in lines:
        typer.echo(f"error: {printable(' '.join(line.split()))}", err=True)


def json_document(document: object) -> None:
    typer.echo(json.dumps(document, indent=2))


def terminal_width() -> int | None:
    """Return the width of the terminal, or None if stdout is not a terminal, so that no line is wrapped."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def title(text: str, status: str = "") -> None:
    """Print a heading in bold, with a coloured status. With NO_COLOR or a dumb terminal, print plain text."""
    heading = Text.assemble(
        (printable(text), "bold"), "  " if status else "", (status, _COLOURS.get(status, ""))
    )
    Console(highlight=False).print(heading, soft_wrap=True)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, below: int = 1) -> None:
    for line in table_lines(columns, rows, terminal_width(), below=below):
        out(line)


def fields(values: Mapping[str, object]) -> None:
    for line in field_lines(values, terminal_width()):
        out(line)


def job_fields(job: Mapping[str, Any]) -> None:
    """Print the fields of a job by the names that they have in its JSON document."""
    fields(job)


def document(row: "DataclassInstance") -> dict[str, Any]:
    """Return a database row for JSON, with instants in ISO 8601 and without the column `lane`."""
    return {
        name: iso_or_none(value) if name.endswith("_at") else value
        for name, value in columns(row).items()
        if name != "lane"
    }


def age(since_ms: int) -> str:
    """Return how long ago an instant was, in the largest unit that fits."""
    return format_largest_unit(int(time.time() * 1000) - since_ms)


def _encodable(text: str) -> str:
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return text.translate(_ASCII)
    return text
