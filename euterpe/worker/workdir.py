"""Work directory: one temporary folder per attempt. A starting worker removes folders of killed workers."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import structlog

from euterpe.runtime.disk_space import free_bytes

_log = structlog.get_logger(__name__)
_PREFIX = "euterpe-worker-"
_LOCK = "in-use"
_TRIED_BYTES = 1 << 20


class WorkDir:
    """The work directory of one worker.

    A locked file marks the directory as in use. When the worker exits, the kernel releases the lock.
    """

    def __init__(self, parent: Path | None, *, free_bytes: Callable[[Path], int] = free_bytes) -> None:
        self._parent = parent or Path(tempfile.gettempdir())
        self._free_bytes = free_bytes
        self.path = self._fresh()
        self._lock: int | None = None

    def open(self) -> None:
        """Create the directory, and remove the directories of workers that were killed."""
        self.path.mkdir(mode=0o700, parents=True)
        while (own := _take(self.path)) is None:
            # Another starting worker locked our directory before us, to remove it as a leftover.
            self.path = self._fresh()
            self.path.mkdir(mode=0o700)
        self._lock = own
        for other in self._parent.glob(f"{_PREFIX}*"):
            if other != self.path and (lock := _take(other)) is not None:
                _log.info("stale_workdir_removed", folder=other.name)
                shutil.rmtree(other, ignore_errors=True)
                os.close(lock)

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _fresh(self) -> Path:
        return self._parent / f"{_PREFIX}{uuid4().hex}"

    @contextmanager
    def folder(self, name: str) -> Iterator[Path]:
        path = self.path / name
        path.mkdir(mode=0o700)
        try:
            yield path
        finally:
            shutil.rmtree(path)

    def free_bytes(self) -> int:
        return self._free_bytes(self.path)

    def try_to_write(self) -> None:
        """Write a temporary file. Raise the `OSError` that a job would get.

        The number of free bytes does not show a quota, a lack of inodes or a read-only file system.
        """
        with tempfile.TemporaryFile(dir=self.path) as file:
            os.posix_fallocate(file.fileno(), 0, _TRIED_BYTES)


def _take(folder: Path) -> int | None:
    """Return the lock of a work directory, or None when a running process holds it."""
    if folder.is_symlink():
        return None  # work directories are never symlinks
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None  # the folder was just removed, or belongs to another user
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    except OSError:  # do not return None: without support for locks, each directory would seem to be in use
        os.close(lock)
        raise
    return lock
