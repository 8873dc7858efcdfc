"""Values that must be nowhere, and the search for them wherever something could have left them."""

import base64
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Any

import sqlalchemy as sa

from euterpe.store.store import Store
from euterpe.store.tables import metadata
from tests.service.process_table import at_home_in


def mint(name: str) -> str:
    """Legal in every field, and the same whether it is quoted, escaped or not."""
    return f"{name}{token_hex(8)}"


def sightings(canaries: Mapping[str, str], places: Mapping[str, bytes]) -> list[tuple[str, str]]:
    """Which of them was seen where, as it is or in one of its usual disguises."""
    return [
        (name, where)
        for name, canary in canaries.items()
        for forms in [tuple(_forms(canary.encode()))]
        for where, content in places.items()
        if any(form in content for form in forms)
    ]


def _forms(canary: bytes) -> Iterator[bytes]:
    yield canary
    yield canary.hex().encode()
    for before in range(3):
        # Base64 of it within a longer text, less the letters that its neighbours have a part in.
        encoded = base64.b64encode(b"\0" * before + canary)
        yield encoded[4:-4]


def files_below(folder: Path, pattern: str = "*") -> dict[str, bytes]:
    found = {}
    for path in folder.rglob(pattern):
        with suppress(OSError):  # a folder, or gone by now
            found[f"file {path.relative_to(folder)}"] = path.read_bytes()
    return found


def processes_in(folder: Path) -> dict[str, bytes]:
    """What everybody on the machine may read of those that are at home there."""
    found = {}
    for pid in at_home_in(folder):
        for part in ("cmdline", "environ"):
            with suppress(OSError):
                found[f"{part} of {pid}"] = Path(f"/proc/{pid}/{part}").read_bytes()
    return found


def core_limits_of(pids: Iterable[int]) -> set[str]:
    """How large a core dump of each of them may be."""
    limits = set()
    for pid in pids:
        with suppress(OSError):
            lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
            limits |= {line.split()[4] for line in lines if line.startswith("Max core file size")}
    return limits


def rows_of(store: Store) -> dict[str, bytes]:
    """Every column of every table, as the database gives it."""
    with store.database.snapshot() as connection:
        return {
            f"column {table.name}.{column.name}": b"\n".join(
                map(_as_bytes, connection.execute(sa.select(column)).scalars())
            )
            for table in metadata.sorted_tables
            for column in table.columns
        }


def _as_bytes(value: Any) -> bytes:
    return bytes(value) if isinstance(value, bytes | memoryview) else str(value).encode()
