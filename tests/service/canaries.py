"""Make canaries (recognisable secret values) and search files, processes and tables for them."""

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
    """Return a new canary: letters and digits, valid in every field, the same when quoted or escaped."""
    return f"{name}{token_hex(8)}"


def find_leaks(canaries: Mapping[str, str], places: Mapping[str, bytes]) -> list[tuple[str, str]]:
    """Return (name, place) for each canary that is in a place as plain text, hex or base64."""
    return [
        (name, where)
        for name, canary in canaries.items()
        for encodings in [tuple(_encodings(canary.encode()))]
        for where, content in places.items()
        if any(encoding in content for encoding in encodings)
    ]


def _encodings(canary: bytes) -> Iterator[bytes]:
    yield canary
    yield canary.hex().encode()
    for before in range(3):
        # Base64 encodes groups of three bytes, so a canary can begin at three positions of a group. Leave out
        # the characters that also depend on neighbouring bytes.
        encoded = base64.b64encode(b"\0" * before + canary)
        yield encoded[4:-4]


def files_below(folder: Path, pattern: str = "*") -> dict[str, bytes]:
    found = {}
    for path in folder.rglob(pattern):
        with suppress(OSError):  # the path is a folder, or the file was deleted
            found[f"file {path.relative_to(folder)}"] = path.read_bytes()
    return found


def processes_in(folder: Path) -> dict[str, bytes]:
    """Return the command lines and environments of the processes whose working directory is in `folder`."""
    found = {}
    for pid in at_home_in(folder):
        for part in ("cmdline", "environ"):
            with suppress(OSError):
                found[f"{part} of {pid}"] = Path(f"/proc/{pid}/{part}").read_bytes()
    return found


def core_limits_of(pids: Iterable[int]) -> set[str]:
    """Return the soft limits on core dumps of these processes."""
    limits = set()
    for pid in pids:
        with suppress(OSError):
            lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
            limits |= {line.split()[4] for line in lines if line.startswith("Max core file size")}
    return limits


def rows_of(store: Store) -> dict[str, bytes]:
    """Return the values of every column of every table as the database returns them."""
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
