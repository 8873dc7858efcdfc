"""The commit log of a lake.

A commit is a JSON document that names every file of the lake and the position up to which the database was
read. The document is written to a temporary file, synced and renamed, so that a commit is never incomplete.
Files that no commit names are ignored. The latest five commits are kept, so that a reader can continue with
the commit that it has read, even if newer commits are written meanwhile.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from euterpe.analytics.errors import LakeError
from euterpe.analytics.schema import Table
from euterpe.analytics.tables import HISTORY

FORMAT = 1
_KEPT = 5


@dataclass(frozen=True)
class DataFile:
    path: str  # relative to the lake's root: table/day=YYYY-MM-DD/name.parquet
    rows: int
    bytes: int

    @property
    def day(self) -> str:
        return Path(self.path).parent.name.removeprefix("day=")


@dataclass(frozen=True)
class Commit:
    version: int = 0
    cause: str = ""
    at_ms: int = 0
    files: Mapping[str, Sequence[DataFile]] = field(default_factory=lambda: dict.fromkeys(HISTORY, ()))
    positions: Mapping[str, Any] = field(default_factory=dict)
    requesters: Mapping[str, str] = field(default_factory=dict)  # names by id
    # The time at which the history was read, by the database's clock. In a commit of an earlier version of
    # Euterpe, it is 0.
    read_ms: int = 0

    @property
    def read_at(self) -> datetime:
        """Return the time at which the history was read or, for an old commit, the time of the commit."""
        return datetime.fromtimestamp((self.read_ms or self.at_ms) / 1000, UTC)

    def rows(self, table: str) -> int:
        return sum(file.rows for file in self.files[table])


class Commits:
    def __init__(self, root: Path) -> None:
        self._root, self._folder = root, root / "_commits"

    def there_are_some(self) -> bool:
        return bool(self._versions())

    def latest(self) -> Commit:
        """Return the latest commit, or an empty commit (version 0) in a new lake."""
        versions = self._versions()
        return _read(versions[max(versions)]) if versions else Commit()

    def write(self, commit: Commit) -> None:
        self._folder.mkdir(exist_ok=True)
        document = json.dumps({"format": FORMAT, "schema": _schema(), **asdict(commit)}, indent=1)
        beside = self._folder / f".{commit.version}"
        with beside.open("w") as file:
            file.write(document)
            file.flush()
            os.fsync(file.fileno())
        beside.rename(self._folder / f"{commit.version:08d}.json")
        sync(self._folder)
        sync(self._root)

    def forget_old(self) -> set[str]:
        """Delete all but the latest commits. Return the paths of all files that the kept commits name."""
        versions = self._versions()
        for version in sorted(versions)[:-_KEPT]:
            versions.pop(version).unlink()
        commits = [_read(path) for path in versions.values()]
        return {file.path for commit in commits for files in commit.files.values() for file in files}

    def _versions(self) -> dict[int, Path]:
        return {int(path.stem): path for path in self._folder.glob(f"{'[0-9]' * 8}.json")}


def _read(path: Path) -> Commit:
    try:
        document = json.loads(path.read_text())
        if document.pop("format") != FORMAT:
            raise LakeError(f"{path} is of another format than this program writes; use the Euterpe that did")
        _check_schema(document.pop("schema"), path)
        found = document.pop("files")
        files = {name: [DataFile(**file) for file in found[name]] for name in HISTORY}
        commit = Commit(files=files, **document)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(path, str(error)) from error
    if commit.version != int(path.stem):
        raise _damaged(path, f"it says that it is {commit.version!r}")
    return commit


def _damaged(path: Path, why: str) -> LakeError:
    return LakeError(
        f"{path} is damaged ({why}): put it back from a backup. If you remove it, the previous commit is "
        "used, and the rows that were added since are read again, if the database still has them"
    )


def _schema() -> dict[str, dict[str, str]]:
    return {table.name: {column.name: column.type for column in table.columns} for table in HISTORY.values()}


def _check_schema(found: Mapping[str, Mapping[str, str]], path: Path) -> None:
    """Raise `LakeError` if a column of the commit is unknown or has another type.

    A column that the commit lacks is not an error: a later version of Euterpe added the column, and the
    column is null in older files.
    """
    ours = _schema()
    for table, columns in found.items():
        for name, kind in columns.items():
            if (known := ours.get(table, {}).get(name)) != kind:
                wanted = "is unknown to this program" if known is None else f"is {known} in this program"
                raise LakeError(
                    f"{path}: column {table}.{name} ({kind}) {wanted}; use the newer Euterpe, or a new lake"
                )


def sync(path: Path) -> None:
    """Flush a file or a folder to disk with `fsync`."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def partition_column(table: Table) -> str:
    """Return the column whose day names the folder of a row.

    All versions of a row have the same day, so they are in the same folder.
    """
    return {"attempts": "started_at", "deliveries": "ended_at"}.get(table.name, "created_at")
