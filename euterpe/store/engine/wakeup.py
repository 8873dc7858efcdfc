"""Wake-ups: hints by which a waiting worker claims new work sooner than at its next poll.

A hint may be lost: correctness depends on the jittered poll and not on hints.
"""

import ctypes
import os
import sqlite3
import time
from collections.abc import Iterable
from enum import StrEnum
from io import FileIO
from pathlib import Path
from typing import Protocol

import sqlalchemy as sa

from euterpe.store.engine.engines import EngineKind, Engines
from euterpe.store.engine.self_pipe import SelfPipe

_IN_MODIFY = 0x00000002


class FileWatch:
    """An inotify watch on files. `sources` holds a descriptor that becomes readable when any process on this
    host writes to a file. It is empty without inotify, or if all of the user's 128 instances are in use."""

    def __init__(self, paths: Iterable[Path]) -> None:
        descriptor = _inotify(paths)
        self._file = None if descriptor is None else FileIO(descriptor)
        self.sources: tuple[int, ...] = () if descriptor is None else (descriptor,)

    def was_written(self) -> bool:
        """Return whether a file was written to since the last call."""
        return self._file is not None and bool(self._file.read(65_536))

    def close(self) -> None:
        self.sources = ()
        if self._file is not None:
            self._file.close()


def _inotify(paths: Iterable[Path]) -> int | None:
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "inotify_init1"):
        return None
    descriptor: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if descriptor < 0:
        return None
    watched = [libc.inotify_add_watch(descriptor, os.fsencode(path), _IN_MODIFY) >= 0 for path in paths]
    if all(watched):
        return descriptor
    os.close(descriptor)
    return None


# Interval between reads of `data_version` where files cannot be watched. A read loads one word of shared
# memory; eighty passes of the loop per second cost 0.9 % of a core.
_LOOK_EVERY_S = 0.0125
# Interval where files are watched: inotify misses some writes, for example those of another machine.
_LOOK_ANYWAY_S = 0.1
# A commit is visible within 0.1 s of the write to the file, unless the disk is very slow. Until then each
# pause before a read is as long as the time since the write, but at least `_SHORTEST_PAUSE_S`.
_SEEN_WITHIN_S, _SHORTEST_PAUSE_S = 0.1, 0.0005


class Topic(StrEnum):
    INBOX = "euterpe_inbox"
    OUTBOX = "euterpe_outbox"


class Listener(Protocol):
    def wait(self, timeout_s: float) -> bool:
        """Return True at the next hint, or False when the time is up or `wake` was called. Errors of the
        database are raised by the claim that follows."""
        ...

    def wake(self) -> None:
        """End the current wait of another thread, or its next one."""
        ...

    def close(self) -> None:
        """Release all resources. Call it after `wait` has returned for the last time."""
        ...


def listen(engines: Engines, topic: Topic) -> Listener:
    if engines.kind is EngineKind.POSTGRES:
        from euterpe.store.engine.wakeup_postgres import PostgresListener  # noqa: PLC0415  psycopg is an extra

        return PostgresListener(engines.write.url, topic)
    if engines.kind is EngineKind.SQLITE:
        return SqliteListener(engines.write.url)
    return NullListener()


class Announcer(Protocol):
    def announce(self, topic: Topic) -> None:
        """Send a hint, without blocking the caller. Call it after the commit."""
        ...

    def stop(self) -> None: ...


def announcer(engines: Engines) -> Announcer:
    if engines.kind is EngineKind.POSTGRES:
        from euterpe.store.engine.wakeup_postgres import PostgresAnnouncer  # noqa: PLC0415  psycopg is an extra

        return PostgresAnnouncer(engines.write)
    return NullAnnouncer()


class NullAnnouncer:
    """An announcer that sends nothing: SQLite's listeners detect commits themselves, libSQL's cannot."""

    def announce(self, topic: Topic) -> None:
        pass

    def stop(self) -> None:
        pass


class NullListener:
    """A listener without hints, for libSQL, which cannot notify: only the poll finds work."""

    def __init__(self) -> None:
        self._self_pipe = SelfPipe()

    def wait(self, timeout_s: float) -> bool:
        self._self_pipe.wait((), timeout_s)
        return False

    def wake(self) -> None:
        self._self_pipe.wake()

    def close(self) -> None:
        self._self_pipe.close()


class SqliteListener:
    """A listener that reads `PRAGMA data_version`, which changes when any other connection, of any process,
    has committed. An inotify watch triggers the reads, but fires before the commit is visible."""

    def __init__(self, url: sa.URL) -> None:
        self._path = Path(str(url.database)).resolve()  # the WAL is beside the file, not beside a link to it
        self._self_pipe = SelfPipe()
        self._connection: sqlite3.Connection | None = None
        self._seen = 0
        self._seen = self._version()
        # Both files exist now, and the WAL stays as long as this connection is open.
        self._watch = FileWatch([self._path, self._path.with_name(self._path.name + "-wal")])
        self._written = self._woke = float("-inf")  # instants of the last write and of the last hint

    def wait(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        # Limit hints to one per `_LOOK_EVERY_S`: each hint leads to a claim, which takes the write lock.
        if self._self_pipe.wait((), min(max(0.0, self._woke + _LOOK_EVERY_S - time.monotonic()), timeout_s)):
            return False
        while True:
            if self._watch.was_written():
                self._written = time.monotonic()
            version = self._version()
            if version != self._seen:
                self._seen, self._woke = version, time.monotonic()
                return True
            now = time.monotonic()
            if now >= deadline:
                return False
            since = now - self._written
            # Do not wait on inotify right after a write: otherwise each page of a long write would cause a
            # read, which took two thirds of a core.
            sources = self._watch.sources if since >= _SHORTEST_PAUSE_S else ()
            if self._self_pipe.wait(sources, min(self._pause(since), deadline - now)):
                return False

    def _pause(self, since_written_s: float) -> float:
        """Return the longest sleep before `data_version` is read again."""
        if since_written_s < _SEEN_WITHIN_S:
            return max(_SHORTEST_PAUSE_S, since_written_s)
        return _LOOK_ANYWAY_S if self._watch.sources else _LOOK_EVERY_S

    def _version(self) -> int:
        try:
            if self._connection is None:
                self._connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            return int(self._connection.execute("PRAGMA data_version").fetchone()[0])
        except sqlite3.Error:
            return self._seen  # the file is missing or being replaced: the next claim raises the error

    def wake(self) -> None:
        self._self_pipe.wake()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._watch.close()
        self._self_pipe.close()
