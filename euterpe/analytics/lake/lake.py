"""Read a lake, and append to a lake atomically, under a file lock."""

import errno
import fcntl
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark

from euterpe.analytics.errors import LakeError
from euterpe.analytics.facts import HistoryFrames
from euterpe.analytics.lake.commits import Commit, Commits, DataFile, sync
from euterpe.analytics.schema import spark_schema
from euterpe.analytics.tables import HISTORY, REQUESTERS

_STAGING = ".staging"
_OURS = f"{'[0-9]' * 8}-{'[0-9]' * 5}.parquet"


@dataclass
class Append:
    """The content of the next commit: these fields, and the Parquet files in `folder`/table/day=…/."""

    folder: Path
    before: Commit
    positions: Mapping[str, Any] = field(default_factory=dict)
    requesters: Mapping[str, str] = field(default_factory=dict)
    drop: frozenset[str] = frozenset()  # paths of files that the next commit leaves out
    read_ms: int = 0  # the time at which the history was read, by the database's clock

    def path(self, table: str) -> str:
        """Return the URL of the folder to which Spark writes a table."""
        return _for_spark(self.folder / table)

    def rows(self, table: str) -> int:
        return sum(pq.read_metadata(path).num_rows for path in (self.folder / table).glob("day=*/*.parquet"))


class Lake:
    """A lake in a folder. Spark's driver and all its workers must see the folder under the same path."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        if self.root.exists() and not self.root.is_dir():
            raise LakeError(f"{self.root} is a file: a lake is a folder")
        if odd := set(str(self.root)) & set("*?[]{}\\"):
            raise LakeError(
                f"{self.root}: Spark reads {' '.join(sorted(odd))} in a path as a glob pattern: "
                "choose a path without them"
            )
        self._commits = Commits(self.root)

    def commit(self) -> Commit:
        """Return the latest commit."""
        return self._commits.latest()

    def read(self, session: SparkSession, *, since: str = "", commit: Commit | None = None) -> HistoryFrames:
        """Return the tables of `commit` (default: the latest), without days before `since` (YYYY-MM-DD)."""
        commit = commit or self.commit()
        frames = {name: self.table(session, name, commit.files[name], since) for name in HISTORY}
        names = session.createDataFrame(list(commit.requesters.items()), spark_schema(REQUESTERS))
        return HistoryFrames(**frames, requesters=names)

    def table(
        self, session: SparkSession, name: str, files: Sequence[DataFile], since: str = ""
    ) -> DataFrame:
        schema = spark.StructType([*spark_schema(HISTORY[name]), spark.StructField("day", spark.DateType())])
        wanted = [file for file in files if file.day >= since]
        self._check(wanted)
        paths = [_for_spark(self.root / file.path) for file in wanted]
        if not paths:
            return session.createDataFrame([], schema)
        return session.read.schema(schema).option("basePath", _for_spark(self.root / name)).parquet(*paths)

    def _check(self, files: Iterable[DataFile]) -> None:
        """Raise `LakeError` if a file is missing or truncated: Spark reads an empty file as zero rows."""
        for path, size in ((self.root / file.path, file.bytes) for file in files):
            if not path.exists():
                raise LakeError(f"{path} is gone: is its disk mounted? Or put it back from a backup")
            if path.stat().st_size != size:
                raise LakeError(f"{path} is damaged: put it back from a backup, or begin a new lake")

    @contextmanager
    def append(self, cause: str) -> Iterator[Append]:
        """Yield an `Append`, and commit it at the end of the `with` block unless the block raises.

        Raise `LakeError` if another program is writing.
        """
        with self._locked(), _explain_full_disk(self.root):
            self._initialise()
            self._delete_unnamed_files()
            before = self.commit()
            folder = self.root / _STAGING / uuid4().hex
            folder.mkdir(parents=True)
            append = Append(folder, before, before.positions, before.requesters, read_ms=before.read_ms)
            try:
                yield append
                self._commit_append(append, cause)
            finally:
                shutil.rmtree(self.root / _STAGING, ignore_errors=True)

    def _commit_append(self, append: Append, cause: str) -> None:
        before, version = append.before, append.before.version + 1
        added = {name: [*self._move(append.folder, name, version)] for name in HISTORY}
        was_read = append.read_ms != before.read_ms
        if before.version and not any(added.values()) and not append.drop and not was_read:
            return  # no commit is written if only the positions have changed
        for folder in {(self.root / file.path).parent for new in added.values() for file in new}:
            for each in (folder, folder.parent, self.root):
                sync(each)  # a renamed file is durable only after a sync of its folder
        files = {
            name: [*(file for file in before.files[name] if file.path not in append.drop), *added[name]]
            for name in HISTORY
        }
        self._commits.write(
            replace(
                before,
                version=version,
                cause=cause,
                at_ms=time.time_ns() // 1_000_000,
                files=files,
                positions=append.positions,
                requesters=append.requesters,
                read_ms=append.read_ms,
            )
        )

    def _move(self, folder: Path, table: str, version: int) -> Iterator[DataFile]:
        for number, path in enumerate(sorted((folder / table).glob("day=*/*.parquet"))):
            rows = pq.read_metadata(path).num_rows
            if not rows:
                continue
            home = self.root / table / path.parent.name
            home.mkdir(parents=True, exist_ok=True)
            target = home / f"{version:08d}-{number:05d}.parquet"
            sync(path)
            path.rename(target)
            yield DataFile(str(target.relative_to(self.root)), rows, target.stat().st_size)

    def _initialise(self) -> None:
        """Write an empty commit into a new lake. Raise `LakeError` if the folder has tables and no commit.

        Such a lake is damaged. Its files are not deleted as leftovers, because they may be the only copy of
        rows that were pruned from the database."""
        if self._commits.there_are_some():
            return
        if foreign := [name for name in (*HISTORY, _STAGING) if (self.root / name).exists()]:
            raise LakeError(
                f"{self.root} has {', '.join(foreign)} and no commits: put its _commits back if it is a "
                "lake, or name an empty folder"
            )
        self._commits.write(Commit())

    def _delete_unnamed_files(self) -> None:
        """Delete files that no kept commit names: leftovers of killed programs, files of deleted commits."""
        shutil.rmtree(self.root / _STAGING, ignore_errors=True)
        named = self._commits.forget_old()
        for table in HISTORY:
            for path in self.root.glob(f"{table}/day=*/{_OURS}"):
                if str(path.relative_to(self.root)) not in named:
                    path.unlink()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LakeError(
                    f"another program is writing to {self.root}; try again when it is done"
                ) from None
            yield


def _for_spark(path: Path) -> str:
    # Without the scheme, a cluster would look for the path on its default file system.
    return f"file:{path}"


@contextmanager
def _explain_full_disk(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise LakeError(
            f"the disk of {root} is full; nothing was added: make room and run it again"
        ) from error
