"""Where attempts keep their files: a folder for each, gone with it, whatever happens to the process."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import structlog

_log = structlog.get_logger()
_PREFIX = "euterpe-worker-"
_LOCK = "in-use"
_TRIED_BYTES = 1 << 20


def free_bytes_of(folder: Path) -> int:
    """Return what an unprivileged process may still write there."""
    return shutil.disk_usage(folder).free


class WorkDir:
    """Of one worker. A lock file says that it is in use; the system lets go of it when the process dies."""

    def __init__(self, parent: Path | None, *, free_bytes: Callable[[Path], int] = free_bytes_of) -> None:
        self._parent = parent or Path(tempfile.gettempdir())
        self._free_bytes = free_bytes
        self.path = self._fresh()
        self._lock: int | None = None

    def open(self) -> None:
        """Makes it, and removes those of workers that were killed."""
        self.path.mkdir(mode=0o700, parents=True)
        while (own := _take(self.path)) is None:
            # Another worker, which starts too, took ours for one of those before we had its lock.
            self.path = self._fresh()
            self.path.mkdir(mode=0o700)
        self._lock = own
        for other in self._parent.glob(f"{_PREFIX}*"):
            if other != self.path and (lock := _take(other)) is not None:
                _log.info("left_over_removed", folder=other.name)
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
        """Raise the `OSError` that a job would meet here. A quota, a lack of inodes and a file system that
        has become read-only do not show in the free space."""
        with tempfile.TemporaryFile(dir=self.path) as file:
            os.posix_fallocate(file.fileno(), 0, _TRIED_BYTES)


def _take(folder: Path) -> int | None:
    """The lock of a work directory, or None when a living process has it."""
    if folder.is_symlink():
        return None  # none of ours is
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None  # gone in this moment, or somebody else's
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    except OSError:  # a file system without locks, say: to go on would be to take everything for taken
        os.close(lock)
        raise
    return lock
