"""Wake-ups: hints that let a waiting worker claim new work before its next poll.

A hint may be lost: correctness depends only on the poll, whose interval has jitter.
"""

import ctypes
import os
import sqlite3
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from io import FileIO
from pathlib import Path
from typing import Protocol

import sqlalchemy as sa

from euterpe.store.engine.engines import EngineKind, Engines
from euterpe.store.engine.self_pipe import SelfPipe

_IN_MODIFY = 0x00000002


class FileWatch:
    """An inotify watch on files.

    `sources` holds a descriptor that becomes readable when any process on this host writes to one of the
    files. `sources` is empty if there are no paths, if the system has no inotify, if all 128 inotify
    instances of the user are in use, or if a file cannot be watched.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        descriptor = _inotify(paths) if paths else None
        self._file = None if descriptor is None else FileIO(descriptor)
        self.sources: tuple[int, ...] = () if descriptor is None else (descriptor,)

    def was_written(self) -> bool:
        """Return whether a file was written to since the last call."""
        return self._file is not None and bool(self._file.read(65_536))

    def close(self) -> None:
        self.sources = ()
        if self._file is not None:
            self._file.close()


def _inotify(paths: Sequence[Path]) -> int | None:
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


@dataclass(frozen=True, kw_only=True)
class WakeupTimings:
    """Durations between the reads of SQLite's `data_version`, in seconds."""

    # The pause between two reads if the files cannot be watched. A read loads one word of shared memory, so
    # eighty reads per second use only 0.9 % of a core.
    look_every_s: float = 0.0125
    # The pause between two reads if the files are watched. These reads are needed, because inotify misses
    # some writes, for example writes of other machines.
    look_anyway_s: float = 0.1
    # A commit is visible within this time after the write to the file, unless the disk is very slow. During
    # this time, each pause before a read is as long as the time since the write, but at least
    # `shortest_pause_s`.
    seen_within_s: float = 0.1
    shortest_pause_s: float = 0.0005


DEFAULT_TIMINGS = WakeupTimings()


class Topic(StrEnum):
    INBOX = "euterpe_inbox"
    OUTBOX = "euterpe_outbox"
    QUEUE_JOBS = "euterpe_queue_jobs"


class Listener(Protocol):
    def wait(self, timeout_s: float) -> bool:
        """Return True at the next hint, or False when the time is up or `wake` was called.

        If the database is unavailable, do not raise: the next claim raises the error.
        """
        ...

    def wake(self) -> None:
        """End the current wait of another thread. If no thread waits now, end the next wait at once."""
        ...

    def close(self) -> None:
        """Release all resources. Call this after `wait` has returned for the last time."""
        ...


def listen(engines: Engines, topic: Topic) -> Listener:
    if engines.kind is EngineKind.POSTGRES:
        from euterpe.store.engine.wakeup_postgres import PostgresListener  # noqa: PLC0415  psycopg is an extra

        return PostgresListener(engines.write.url, topic)
    if engines.kind is EngineKind.SQLITE:
        return SqliteListener(engines.write.url)
    return NullListener()


class Announcer(Protocol):
    def announce_in(self, connection: sa.Connection, topics: Collection[Topic]) -> bool:
        """Send hints with the commit of this transaction. Return False if `announce` must send them."""
        ...

    def announce(self, topic: Topic) -> None:
        """Send a hint without blocking the caller. Call this after the commit."""
        ...

    def stop(self) -> None: ...


def announcer(engines: Engines) -> Announcer:
    if engines.kind is EngineKind.POSTGRES:
        from euterpe.store.engine.wakeup_postgres import PostgresAnnouncer  # noqa: PLC0415  psycopg is an extra

        return PostgresAnnouncer(engines.write)
    return NullAnnouncer()


class NullAnnouncer:
    """An announcer that sends nothing: SQLite's listeners detect commits, and libSQL has no notifications."""

    def announce_in(self, connection: sa.Connection, topics: Collection[Topic]) -> bool:  # noqa: ARG002
        return True

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
    """A listener that reads `PRAGMA data_version`.

    The value changes when another connection of any process has committed. An inotify watch triggers the
    reads. inotify reports a write before the commit is visible, so the reads are repeated for a while.
    """

    def __init__(
        self,
        url: sa.URL,
        *,
        timings: WakeupTimings = DEFAULT_TIMINGS,
        watches_files: bool = True,
        self_pipe: SelfPipe | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._timings, self._clock = timings, clock
        # Resolve a symlink, because the WAL is beside the file that the symlink leads to.
        self._path = Path(str(url.database)).resolve()
        self._self_pipe = self_pipe or SelfPipe()
        self._connection: sqlite3.Connection | None = None
        self._seen = 0
        self._seen = self._version()
        # The database file and its WAL exist now, and the WAL is not deleted as long as this connection is
        # open.
        wal = self._path.with_name(self._path.name + "-wal")
        self._watch = FileWatch([self._path, wal] if watches_files else [])
        self._written = self._woke = float("-inf")  # the times of the last write and of the last hint

    def wait(self, timeout_s: float) -> bool:
        deadline = self._clock() + timeout_s
        # Limit hints to one per `look_every_s`: each hint leads to a claim, which takes the write lock.
        next_hint_s = max(0.0, self._woke + self._timings.look_every_s - self._clock())
        if self._self_pipe.wait((), min(next_hint_s, timeout_s)):
            return False
        while True:
            if self._watch.was_written():
                self._written = self._clock()
            version = self._version()
            if version != self._seen:
                self._seen, self._woke = version, self._clock()
                return True
            now = self._clock()
            if now >= deadline:
                return False
            since = now - self._written
            # Do not wait for inotify immediately after a write: otherwise each written page of a large commit
            # would cause a read. These reads used two thirds of a core.
            sources = self._watch.sources if since >= self._timings.shortest_pause_s else ()
            if self._self_pipe.wait(sources, min(self._pause(since), deadline - now)):
                return False

    def _pause(self, since_written_s: float) -> float:
        """Return the longest sleep before `data_version` is read again."""
        timings = self._timings
        if since_written_s < timings.seen_within_s:
            return max(timings.shortest_pause_s, since_written_s)
        return timings.look_anyway_s if self._watch.sources else timings.look_every_s

    def _version(self) -> int:
        try:
            if self._connection is None:
                self._connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            return int(self._connection.execute("PRAGMA data_version").fetchone()[0])
        except sqlite3.Error:
            return self._seen  # the file is missing or being replaced; the next claim raises the error

    def wake(self) -> None:
        self._self_pipe.wake()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._watch.close()
        self._self_pipe.close()
