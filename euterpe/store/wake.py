"""Wake-ups: how a waiting worker hears of new work sooner than its next poll.

A wake-up is a hint and may be lost; the jittered poll underneath is what correctness rests on.
"""

import sqlite3
import threading
import time
from enum import StrEnum
from typing import Protocol

import sqlalchemy as sa

from euterpe.store.engines import Engines, Kind

# PRAGMA data_version reads one word of shared memory; with all around it eighty looks a second cost 0.9 % of
# a core.
_LOOK_EVERY_S = 0.0125


class Topic(StrEnum):
    INBOX = "euterpe_inbox"
    OUTBOX = "euterpe_outbox"


class Listener(Protocol):
    def wait(self, timeout_s: float) -> bool:
        """Returns at the next hint (true), or when the time is up or `wake` was called (false)."""
        ...

    def wake(self) -> None:
        """Ends a wait from another thread, this one or the next."""
        ...

    def close(self) -> None: ...


def listen(engines: Engines, topic: Topic) -> Listener:
    if engines.kind is Kind.POSTGRES:
        from euterpe.store.notify import PostgresListener  # noqa: PLC0415  psycopg is an extra

        return PostgresListener(engines.write.url, topic)
    if engines.kind is Kind.SQLITE:
        return SqliteListener(engines.write.url)
    return PollOnly()


class Announcer(Protocol):
    def announce(self, topic: Topic) -> None:
        """To be called after the commit; costs the caller nothing."""
        ...

    def stop(self) -> None: ...


def announcer(engines: Engines) -> Announcer:
    if engines.kind is Kind.POSTGRES:
        from euterpe.store.notify import PostgresAnnouncer  # noqa: PLC0415  psycopg is an extra

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
        self._woken = threading.Event()

    def wait(self, timeout_s: float) -> bool:
        if self._woken.wait(timeout_s):
            self._woken.clear()
        return False

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        self.wake()


class SqliteListener:
    """`data_version` changes when any other connection, of any process, has committed."""

    def __init__(self, url: sa.URL) -> None:
        self._path = str(url.database)
        self._woken = threading.Event()
        self._connection: sqlite3.Connection | None = None
        self._seen = 0
        self._seen = self._version()

    def wait(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while True:
            version = self._version()
            if version != self._seen:
                self._seen = version
                return True
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            if self._woken.wait(min(_LOOK_EVERY_S, left)):
                self._woken.clear()
                return False

    def _version(self) -> int:
        try:
            if self._connection is None:
                self._connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            return int(self._connection.execute("PRAGMA data_version").fetchone()[0])
        except sqlite3.OperationalError:
            return self._seen  # the file is away: the poll's own error will tell

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        self.wake()
        if self._connection is not None:
            self._connection.close()
