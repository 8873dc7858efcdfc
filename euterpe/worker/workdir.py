"""Where attempts keep their files: a folder for each, gone with it, whatever happens to the process."""

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import structlog

from euterpe.domain.errors import EuterpeError
from euterpe.domain.retry import JobError, RetryClass

_log = structlog.get_logger()
_PREFIX = "euterpe-worker-"
_LOCK = "in-use"


class DiskFull(EuterpeError):
    code = "disk_full"
    retryable = True

    def job_error(self, phase: str) -> JobError:
        return JobError(self.code, str(self), phase, RetryClass.TRANSIENT)


def for_want_of_means(error: OSError) -> bool:
    """Files or threads that this process may not open any more."""
    return error.errno in (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)


def for_want_of_room(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class WorkDir:
    """Of one worker. A lock file says that it is in use; the system lets go of it when the process dies."""

    def __init__(self, parent: Path | None, *, min_free_bytes: int) -> None:
        self._parent = parent or Path(tempfile.gettempdir())
        self._min_free = min_free_bytes
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

    def has_room(self) -> bool:
        """Whether it makes sense to begin anything."""
        return shutil.disk_usage(self.path).free >= self._min_free

    def check_room(self, wanted_bytes: int = 0) -> None:
        """Whether so much more may be written, and the rest of the machine still has its share."""
        free = shutil.disk_usage(self.path).free
        if free - wanted_bytes < self._min_free:
            _log.warning("disk_full", free=free, wanted=wanted_bytes, kept=self._min_free)
            raise DiskFull("the worker's disk has too little room for this job")


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
