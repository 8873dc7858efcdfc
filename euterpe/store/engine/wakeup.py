"""Wake-ups: how a waiting worker hears of new work sooner than its next poll.

A wake-up is a hint and may be lost; the jittered poll underneath is what correctness rests on.
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
    """`sources` can be read when one of them was written to, by any process of this machine. There is none
    where one cannot be watched: without inotify, or without more of it, for a user may have 128."""

    def __init__(self, paths: Iterable[Path]) -> None:
        descriptor = _inotify(paths)
        self._file = None if descriptor is None else FileIO(descriptor)
        self.sources: tuple[int, ...] = () if descriptor is None else (descriptor,)

    def was_written(self) -> bool:
        """Since the last call."""
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


# Where the file does not tell. A look reads one word of shared memory; with all around it eighty looks a
# second cost 0.9 % of a core.
_LOOK_EVERY_S = 0.0125
# Where it does, but perhaps not of all that is written: by another machine, say.
_LOOK_ANYWAY_S = 0.1
# A commit is seen so soon after the file was written to, unless the disk is very slow; looks in between are
# as far apart as the write is back, and not closer than this.
_SEEN_WITHIN_S, _SHORTEST_PAUSE_S = 0.1, 0.0005


class Topic(StrEnum):
    INBOX = "euterpe_inbox"
    OUTBOX = "euterpe_outbox"


class Listener(Protocol):
    def wait(self, timeout_s: float) -> bool:
        """Returns at the next hint (true), or when the time is up or `wake` was called (false). Whatever is
        wrong with the database is told by the claim that follows."""
        ...

    def wake(self) -> None:
        """Ends a wait from another thread, this one or the next."""
        ...

    def close(self) -> None:
        """Once `wait` has returned for the last time."""
        ...


def listen(engines: Engines, topic: Topic) -> Listener:
    if engines.kind is EngineKind.POSTGRES:
        from euterpe.store.engine.wakeup_postgres import PostgresListener  # noqa: PLC0415  psycopg is an extra

        return PostgresListener(engines.write.url, topic)
    if engines.kind is EngineKind.SQLITE:
        return SqliteListener(engines.write.url)
    return PollOnly()


class Announcer(Protocol):
    def announce(self, topic: Topic) -> None:
        """To be called after the commit; costs the caller nothing."""
        ...

    def stop(self) -> None: ...


def announcer(engines: Engines) -> Announcer:
    if engines.kind is EngineKind.POSTGRES:
        from euterpe.store.engine.wakeup_postgres import PostgresAnnouncer  # noqa: PLC0415  psycopg is an extra

        return PostgresAnnouncer(engines.write)
    return Silent()


class Silent:
    """SQLite's listeners see every commit by themselves, libSQL's see none."""

    def announce(self, topic: Topic) -> None:
        pass

    def stop(self) -> None:
        pass


class PollOnly:
    """libSQL has no way to tell: the poll alone."""

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
    """`data_version` changes when any other connection, of any process, has committed. When to look at it is
    told by the file; but it is written to before the commit is there to be seen."""

    def __init__(self, url: sa.URL) -> None:
        self._path = Path(str(url.database)).resolve()  # the log is beside the file, not beside a link to it
        self._self_pipe = SelfPipe()
        self._connection: sqlite3.Connection | None = None
        self._seen = 0
        self._seen = self._version()
        # Both are there now, and the log stays as long as this connection.
        self._watch = FileWatch([self._path, self._path.with_name(self._path.name + "-wal")])
        self._written = self._told = float("-inf")

    def wait(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        # A hint leads to a claim, which takes the turn of a writer: not after every commit of others.
        if self._self_pipe.wait((), min(max(0.0, self._told + _LOOK_EVERY_S - time.monotonic()), timeout_s)):
            return False
        while True:
            if self._watch.was_written():
                self._written = time.monotonic()
            version = self._version()
            if version != self._seen:
                self._seen, self._told = version, time.monotonic()
                return True
            now = time.monotonic()
            if now >= deadline:
                return False
            since = now - self._written
            # Or each page of a long write would be a look: that was two thirds of a core.
            told_by = self._watch.sources if since >= _SHORTEST_PAUSE_S else ()
            if self._self_pipe.wait(told_by, min(self._pause(since), deadline - now)):
                return False

    def _pause(self, since_written_s: float) -> float:
        """Until the next look, whatever the file tells before."""
        if since_written_s < _SEEN_WITHIN_S:
            return max(_SHORTEST_PAUSE_S, since_written_s)
        return _LOOK_ANYWAY_S if self._watch.sources else _LOOK_EVERY_S

    def _version(self) -> int:
        try:
            if self._connection is None:
                self._connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            return int(self._connection.execute("PRAGMA data_version").fetchone()[0])
        except sqlite3.Error:
            return self._seen  # the file is away, or being written over: the poll's own error will tell

    def wake(self) -> None:
        self._self_pipe.wake()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._watch.close()
        self._self_pipe.close()
