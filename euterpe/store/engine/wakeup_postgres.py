"""Wake-ups on Postgres, by LISTEN and NOTIFY.

A transaction that writes sends its NOTIFY itself. Under load, a thread sends one NOTIFY for many commits.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Collection

import psycopg
import sqlalchemy as sa
from psycopg.rows import TupleRow

from euterpe.runtime.background_loop import BackgroundLoop
from euterpe.store.engine.self_pipe import SelfPipe
from euterpe.store.engine.wakeup import Topic

# NOTIFY takes a lock that serialises the commits of all processes: each commit holds the lock for the time of
# an fsync. So the transactions of a process send at most this many notifications per second. After a quiet
# time, the transactions can send `_BURST` notifications at once.
_IN_TRANSACTIONS_PER_S, _BURST = 150.0, 20.0
# For all other commits within this time, a separate connection sends one NOTIFY per topic.
_DEBOUNCE_S = 0.010
_NOTIFY_IN = sa.text("SELECT pg_notify(topic, '') FROM unnest(CAST(:topics AS text[])) AS topic")
# A hint need not survive a crash, so the commit does not wait for the disk.
_NOTIFY = sa.text("SELECT set_config('synchronous_commit', 'off', true), pg_notify(:topic, '')")


class PostgresAnnouncer:
    """Send notifications in the transactions that announce them, or in a thread if there are too many.

    The first call of `announce` starts the thread, and `stop` ends it.
    """

    def __init__(
        self,
        engine: sa.Engine,
        *,
        per_second: float = _IN_TRANSACTIONS_PER_S,
        burst: float = _BURST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._per_second, self._burst, self._clock = per_second, burst, clock
        self._left, self._counted_at = burst, clock()
        self._engine = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._due: set[Topic] = set()
        self._changed = threading.Condition()
        self._loop = BackgroundLoop("euterpe-notify", self._notify)
        self._is_started = False

    def announce_in(self, connection: sa.Connection, topics: Collection[Topic]) -> bool:
        if not self._may_send():
            return False
        connection.execute(_NOTIFY_IN, {"topics": sorted(topics)})
        return True

    def _may_send(self) -> bool:
        """Return whether a transaction may send a notification now. If so, count this notification."""
        with self._changed:
            now = self._clock()
            gained = (now - self._counted_at) * self._per_second
            self._left, self._counted_at = min(self._burst, self._left + gained), now
            if self._left < 1:
                return False
            self._left -= 1
            return True

    def announce(self, topic: Topic) -> None:
        with self._changed:
            if topic in self._due or self._loop.is_stopping:
                return
            if not self._is_started:
                self._loop.start()
                self._is_started = True
            self._due.add(topic)
            self._changed.notify()

    def stop(self) -> None:
        with self._changed:
            self._loop.begin_stop()
            self._changed.notify()
        self._loop.stop()

    def _notify(self) -> float:
        with self._changed:
            self._changed.wait_for(lambda: self._due or self._loop.is_stopping)
            topics, self._due = self._due, set()
        # A hint that cannot be sent is lost; the poll finds the work.
        with contextlib.suppress(sa.exc.SQLAlchemyError), self._engine.connect() as connection:
            for topic in topics:
                connection.execute(_NOTIFY, {"topic": topic.value})
        return _DEBOUNCE_S


class PostgresListener:
    """A listener that runs LISTEN on its own connection.

    If the connection is lost, the next `wait` tries once to reconnect. If this fails, `wait` only sleeps.
    """

    def __init__(self, url: sa.URL, topic: Topic) -> None:
        self._url, self._topic = url, topic
        self._self_pipe = SelfPipe()
        self._connection: psycopg.Connection[TupleRow] | None = None
        self._listen()

    def _listen(self) -> None:
        # Ignore errors: a server in recovery and a standby refuse LISTEN, and the poll finds work anyway.
        with contextlib.suppress(psycopg.Error):
            self._connection = _connect(self._url)
            try:
                self._connection.execute(f"LISTEN {self._topic}")
            except psycopg.Error:
                self._disconnect()
                raise

    def wait(self, timeout_s: float) -> bool:
        if self._connection is None:
            self._listen()
        sources = () if self._connection is None else (self._connection.fileno(),)
        return not self._self_pipe.wait(sources, timeout_s) and self._drain()

    def _drain(self) -> bool:
        """Read all notifications that have arrived; return True if there was at least one."""
        if self._connection is None:
            return False
        try:
            return len(list(self._connection.notifies(timeout=0))) > 0
        except psycopg.Error:
            self._disconnect()
            return False

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def wake(self) -> None:
        self._self_pipe.wake()

    def close(self) -> None:
        self._disconnect()
        self._self_pipe.close()


def _connect(url: sa.URL) -> psycopg.Connection[TupleRow]:
    plain = url.set(drivername="postgresql")
    return psycopg.connect(plain.render_as_string(hide_password=False), autocommit=True, connect_timeout=10)
