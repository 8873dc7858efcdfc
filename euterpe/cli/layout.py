"""Lay out tables and fields as lines of text: unwrapped for programs, or fitted to a terminal's width.

No text is cut. If a terminal is too narrow, the last columns of a table move below their row. If the table is
still too wide, each row becomes a block of lines. A word is never broken, so that ids and URLs can be copied.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.cells import cell_len

_GAP = "  "
_NARROWEST = 24  # the minimum width of wrapped text beside a label


def cell(value: object) -> str:
    """Return a value as printable text.

    None becomes an empty string. Any other value that is not a string becomes JSON.
    """
    if value is None:
        return ""
    return printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def flat(value: object) -> str:
    """Return a JSON value for people, such as `show=news, tags=a b`, without braces, brackets and quotes."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={text}" for name, text in _leaves(value))
    if isinstance(value, list):
        nested = any(isinstance(item, Mapping | list) for item in value)
        return ("; " if nested else " ").join(map(flat, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def _leaves(value: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, item in value.items():
        if isinstance(item, Mapping) and item:
            yield from _leaves(item, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", flat(item)


def printable(text: str) -> str:
    """Escape unprintable characters, because a requester's text must not control the operator's terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def wrap(text: str, width: int | None) -> list[str]:
    """Return the lines of a text. A word that is wider than `width` gets a separate line."""
    if width is None:
        return [text]
    lines, line = [], ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if line and cell_len(longer) > width:
            lines.append(line.rstrip())
            longer = word
        line = longer
    return [*lines, line]


def field_lines(values: Mapping[str, object], width: int | None) -> Iterator[str]:
    """Yield a line for each value that is not None. On a terminal, wrap long values over several lines."""
    shown = {name: cell(value) for name, value in values.items() if value is not None}
    label = max(map(len, shown), default=0)
    room = None if width is None else max(_NARROWEST, width - label - len(_GAP))
    for name, text in shown.items():
        first, *rest = wrap(text, room)
        yield f"{name.ljust(label)}{_GAP}{first}".rstrip()
        for line in rest:
            yield f"{' ' * label}{_GAP}{line}"


def table_lines(
    columns: Sequence[str], rows: Iterable[Sequence[object]], width: int | None, *, below: int = 1
) -> Iterator[str]:
    """Yield the lines of a table.

    On a terminal, empty columns are left out. If the rows are too wide, the last columns (at most `below`)
    move to lines below their row.
    """
    cells = [[cell(value) for value in row] for row in rows]
    if width is None:
        yield from _aligned(columns, cells)
        return
    filled = [index for index in range(len(columns)) if not cells or any(row[index] for row in cells)]
    movable = sum(index >= len(columns) - below for index in filled)
    columns, cells = [columns[index] for index in filled], [[row[index] for index in filled] for row in cells]
    for moved in range(min(movable, len(columns) - 1) + 1):
        kept = len(columns) - moved
        if sum(_widths(columns[:kept], cells)) + len(_GAP) * (kept - 1) <= width:
            yield from _aligned(columns, cells, kept, width)
            return
    for number, row in enumerate(cells):
        if number:
            yield ""
        yield from field_lines({name: text or None for name, text in zip(columns, row, strict=True)}, width)


def _aligned(
    columns: Sequence[str], cells: Sequence[Sequence[str]], kept: int | None = None, width: int | None = None
) -> Iterator[str]:
    kept = len(columns) if kept is None else kept
    widths = _widths(columns[:kept], cells)
    for row in (columns[:kept], *cells):
        yield _GAP.join(map(_padded, row, widths)).rstrip()
        if more := _GAP.join(filter(None, row[kept:])):
            yield from (f"{_GAP}{line}" for line in wrap(more, (width or 0) - len(_GAP)))


def _widths(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(cell_len, (name, *(row[i] for row in cells)))) for i, name in enumerate(columns)]


def _padded(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))
