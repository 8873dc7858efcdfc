"""Keep completely fetched sources for a retry of their job on this worker."""

import os
import stat
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from uuid import uuid4

import structlog

from euterpe.storage.transfer import ObjectInfo

_log = structlog.get_logger(__name__)
_FOLDER = "kept"
# A source is kept for this time: the longest pause between two attempts with the default settings.
KEEP_S = 900.0
# The kept sources take at most this part of the free space, because other workers on the same disk count them
# as used space.
_LARGEST_SHARE = 0.25


class Disk(Protocol):
    """The disk of a work directory. Read `path` after the start of the worker, which can change `path`."""

    path: Path

    def free_bytes(self) -> int: ...


@dataclass(frozen=True)
class FileState:
    """The identity of a file and the times of its last changes.

    Every write changes the ctime, even a write through a memory mapping or a hard link. No system call can
    set the ctime.
    """

    inode: tuple[int, int]
    size: int
    changed_ns: tuple[int, int]

    @classmethod
    def of(cls, path: Path) -> "FileState":
        """Return the state of a regular file. Raise OSError for anything else."""
        found = os.lstat(path)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(f"{path.name} is not a regular file")
        return cls((found.st_dev, found.st_ino), found.st_size, (found.st_mtime_ns, found.st_ctime_ns))


@dataclass(frozen=True)
class SourceIdentity:
    """The URL of a source without its signature, and the size and the ETag that the store announced."""

    where: str
    info: ObjectInfo


@dataclass(frozen=True)
class _Kept:
    path: Path
    identity: SourceIdentity
    state: FileState
    until: float


class KeptSources:
    """The kept sources of one worker, at most one for each job. Thread-safe.

    The files are in the work directory, so they are removed with it: when the worker stops, or when another
    worker starts after this worker was killed.
    """

    def __init__(
        self,
        disk: Disk,
        *,
        keep_s: float = KEEP_S,
        largest_share: float = _LARGEST_SHARE,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._disk, self._keep_s, self._largest_share, self._now = disk, keep_s, largest_share, now
        self._kept: dict[str, _Kept] = {}  # the kept sources by job id, the oldest source first
        self._lock = threading.Lock()

    def __contains__(self, job_id: str) -> bool:
        with self._lock:
            return job_id in self._kept

    @property
    def size_bytes(self) -> int:
        with self._lock:
            return self._size()

    def keep(self, job_id: str, identity: SourceIdentity, path: Path, state: FileState) -> None:
        """Move the file out of the attempt's folder, if it still has the state that it had after the fetch.

        Leave the file in its folder if there is no room, or if different sources can have this identity.
        """
        if not identity.info.is_identity:
            return
        with self._lock, suppress(OSError):
            self._remove(job_id)
            if FileState.of(path) != state:
                _log.warning("fetched_source_altered", job_id=job_id)
            elif self._make_room(state.size):
                self._move_in(job_id, identity, path)

    def take(self, job_id: str, identity: SourceIdentity, path: Path) -> bool:
        """Move the job's kept source to `path`. Return False if the job has none with this identity."""
        with self._lock, suppress(OSError):
            kept = self._kept.get(job_id)
            if kept is not None and (kept.identity, FileState.of(kept.path)) == (identity, kept.state):
                kept.path.rename(path)
                del self._kept[job_id]
                return True
        self.drop(job_id)
        return False

    def drop(self, job_id: str) -> None:
        """Remove the job's kept source, if there is one. Call this for a job that will not be retried."""
        with self._lock:
            self._remove(job_id)

    def free(self, wanted_bytes: int) -> int:
        """Remove the oldest sources until `wanted_bytes` are freed. Return how many bytes were freed."""
        with self._lock:
            before = self._size()
            while self._kept and before - self._size() < wanted_bytes:
                self._remove(next(iter(self._kept)))
            return before - self._size()

    def expire(self) -> None:
        """Remove the sources that have been kept for `keep_s`."""
        with self._lock:
            for job_id in [job_id for job_id, kept in self._kept.items() if kept.until <= self._now()]:
                self._remove(job_id)

    def _size(self) -> int:
        return sum(kept.state.size for kept in self._kept.values())

    def _make_room(self, size: int) -> bool:
        """Remove the oldest sources until `size` bytes fit into the share. Return whether they fit."""
        most = int(self._largest_share * (self._disk.free_bytes() + self._size() + size))
        while self._kept and self._size() + size > most:
            self._remove(next(iter(self._kept)))
        return size <= most

    def _move_in(self, job_id: str, identity: SourceIdentity, path: Path) -> None:
        folder = self._disk.path / _FOLDER
        folder.mkdir(mode=0o700, exist_ok=True)
        target = folder / uuid4().hex
        path.rename(target)
        # Read the state again, because the rename has changed the ctime. No child process can access the file
        # any more.
        self._kept[job_id] = _Kept(target, identity, FileState.of(target), self._now() + self._keep_s)

    def _remove(self, job_id: str) -> None:
        if (kept := self._kept.pop(job_id, None)) is not None:
            with suppress(OSError):
                kept.path.unlink()
