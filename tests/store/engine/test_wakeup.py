"""Wake-ups: a listener returns soon after a commit if the engine sends hints, or else at its timeout."""

import contextlib
import os
import resource
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from euterpe.store.engine.self_pipe import SelfPipe
from euterpe.store.engine.wakeup import FileWatch, Listener, SqliteListener, Topic, WakeupTimings
from euterpe.store.engine.wakeup_postgres import PostgresAnnouncer
from euterpe.store.store import Store
from tests.store.jobs import claim_one, enqueue

LONG_S = 30.0
NEVER = WakeupTimings(look_every_s=LONG_S, look_anyway_s=LONG_S)  # the listener does not poll during a test
# libSQL sends no hints, so its listeners poll.
WITH_HINTS = pytest.mark.parametrize("engine", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def listener(store: Store) -> Iterator[Listener]:
    listener = store.database.listen(Topic.INBOX)
    yield listener
    listener.close()


@contextlib.contextmanager
def sqlite_listener(url: str, **options: Any) -> Iterator[SqliteListener]:
    with contextlib.closing(SqliteListener(sa.make_url(url), **options)) as listener:
        yield listener


@contextlib.contextmanager
def closing_descriptor(descriptor: int) -> Iterator[int]:
    yield descriptor
    os.close(descriptor)


def wakes_on_enqueue(listener: Listener, store: Store) -> bool:
    """Return whether an enqueue ends the wait of another thread long before its timeout."""
    woken: SimpleQueue[bool] = SimpleQueue()
    threading.Thread(target=lambda: woken.put(listener.wait(2 * LONG_S))).start()
    enqueue(store)
    return woken.get(timeout=LONG_S / 2)


@WITH_HINTS
def test_new_work_wakes_a_waiting_worker(store: Store, listener: Listener) -> None:
    enqueue(store)
    assert listener.wait(LONG_S)


@WITH_HINTS
def test_work_that_came_before_the_wait_is_not_missed(store: Store, listener: Listener) -> None:
    enqueue(store)
    assert len(store.inbox.claim("w1", 1)) == 1
    enqueue(store)
    assert listener.wait(LONG_S)


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
@pytest.mark.parametrize("has_inotify", [True, False])
def test_sqlite_is_polled_on_file_events_and_periodically_without_inotify(
    store: Store, url: str, has_inotify: bool
) -> None:
    timings = NEVER if has_inotify else WakeupTimings(look_anyway_s=LONG_S)
    with sqlite_listener(url, timings=timings, watches_files=has_inotify) as listener:
        assert wakes_on_enqueue(listener, store)


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_link_to_the_database_is_followed_to_its_log(store: Store, url: str, tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(url.removeprefix("sqlite:///"))
    with sqlite_listener(f"sqlite:///{tmp_path / 'link.db'}", timings=NEVER) as listener:
        assert wakes_on_enqueue(listener, store)


class ScriptedPipe(SelfPipe):
    """A self-pipe that records its waits, and advances a clock instead of sleeping."""

    def __init__(self, *, waits: int, before_wait: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self.now, self.waits = 100.0, list[tuple[tuple[int, ...], float]]()
        self._left, self._before_wait = waits, before_wait

    def wait(self, others: Iterable[int], timeout_s: float) -> bool:
        """Record the wait.

        Return False before the call number `waits`. Then return True, as if `wake` had been called.
        """
        self._before_wait()
        self.waits.append((tuple(others), timeout_s))
        self.now += timeout_s
        self._left -= 1
        return self._left <= 0


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_long_write_is_not_polled_page_by_page(store: Store, url: str) -> None:
    enqueue(store)
    path = Path(url.removeprefix("sqlite:///"))
    wal = path.with_name(path.name + "-wal")
    pipe = ScriptedPipe(waits=50, before_wait=lambda: os.pwrite(log, os.pread(log, 1, 0), 0))
    with (
        sqlite_listener(url, self_pipe=pipe, clock=lambda: pipe.now) as listener,
        closing_descriptor(os.open(wal, os.O_RDWR)) as log,
    ):
        assert not listener.wait(LONG_S)
    shortest = WakeupTimings().shortest_pause_s
    assert pipe.waits == [((), 0.0), *[((), shortest)] * 49], "no wait for the next write to the log"


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_hints_come_no_more_often_than_polls(store: Store, url: str) -> None:
    """Each hint leads to a claim. A claim takes the write lock, so hints must be rare."""
    pipe = ScriptedPipe(waits=100)
    timings = WakeupTimings(look_every_s=7.0)
    with sqlite_listener(url, timings=timings, self_pipe=pipe, clock=lambda: pipe.now) as listener:
        enqueue(store)
        assert listener.wait(LONG_S)
        enqueue(store)
        pipe.waits.clear()
        assert listener.wait(LONG_S)
    assert pipe.waits == [((), 7.0)]


@pytest.mark.parametrize("engine", ["sqlite", "libsql"], indirect=True)
def test_a_wait_opens_no_file_descriptor(listener: Listener) -> None:
    """A process can run out of free descriptors.

    A wait that opens a descriptor would then fail, as a claim does.
    """
    while listener.wait(0.05):
        pass
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        assert not listener.wait(0.01)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_file_watch_reports_each_write_once(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.touch()
    watch = FileWatch([path])
    assert not watch.was_written()
    path.write_bytes(b"1")
    assert watch.was_written()
    assert not watch.was_written()
    watch.close()
    assert FileWatch([path, tmp_path / "there is none"]).sources == ()


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_many_commits_are_one_hint(store: Store, listener: Listener) -> None:
    for _ in range(50):
        enqueue(store)
    hints = 0
    while listener.wait(0.2):
        hints += 1
    assert 1 <= hints < 50


@pytest.fixture
def announcer(store: Store) -> Iterator[PostgresAnnouncer]:
    announcer = PostgresAnnouncer(store.database.engines.write, per_second=10.0, burst=2, clock=lambda: 0.0)
    yield announcer
    announcer.stop()


def announce_in(announcer: PostgresAnnouncer, store: Store) -> bool:
    with store.database.engines.write.begin() as connection:
        return announcer.announce_in(connection, {Topic.INBOX, Topic.OUTBOX})


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_a_hint_needs_no_transaction_of_its_own(store: Store) -> None:
    begun: list[object] = []
    sa.event.listen(store.database.engines.write, "begin", begun.append)
    sa.event.listen(
        store.database.engines.write, "before_cursor_execute", lambda *args: begun.append(args[0])
    )
    listener = store.database.listen(Topic.INBOX)
    enqueue(store)
    assert listener.wait(LONG_S)
    assert len({id(connection) for connection in begun}) == 1
    listener.close()


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_too_many_commits_leave_their_hints_to_the_thread(
    store: Store, url: str, announcer: PostgresAnnouncer
) -> None:
    topic = Topic.INBOX.value
    with psycopg.connect(sa.make_url(url).set(drivername="postgresql").render_as_string(False)) as connection:
        connection.autocommit = True
        connection.execute(f"LISTEN {topic}")
        connection.execute("LISTEN last")
        assert [announce_in(announcer, store) for _ in range(4)] == [True, True, False, False]
        connection.execute("NOTIFY last")
        assert channels(connection, until="last") == [topic, topic, "last"]
        announcer.announce(Topic.INBOX)
        assert channels(connection, until=topic) == [topic]


def channels(connection: psycopg.Connection, *, until: str) -> list[str]:
    """Return the channels of the notifications, up to the first one on the channel `until`."""
    found = list[str]()
    for one in connection.notifies(timeout=LONG_S):
        found.append(one.channel)
        if one.channel == until:
            break
    return found


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_a_pause_allows_more_hints_in_transactions(store: Store) -> None:
    now = [0.0]
    announcer = PostgresAnnouncer(
        store.database.engines.write, per_second=10.0, burst=2, clock=lambda: now[0]
    )
    assert [announce_in(announcer, store) for _ in range(3)] == [True, True, False]
    now[0] += 0.1
    assert [announce_in(announcer, store) for _ in range(2)] == [True, False]
    now[0] += 60.0
    assert [announce_in(announcer, store) for _ in range(3)] == [True, True, False]


@WITH_HINTS
def test_events_wake_the_dispatcher(store: Store) -> None:
    enqueue(store)
    listener = store.database.listen(Topic.OUTBOX)
    claim_one(store)
    assert listener.wait(LONG_S)
    listener.close()


def test_a_wait_without_a_hint_ends_at_its_timeout(listener: Listener) -> None:
    while listener.wait(0.05):  # read the hints of earlier commits
        pass
    assert not listener.wait(0.01)


def test_a_wait_can_be_ended_from_another_thread_before_or_during(listener: Listener) -> None:
    while listener.wait(0.05):
        pass
    listener.wake()
    assert not listener.wait(LONG_S)
    waiting = threading.Thread(target=listener.wait, args=(LONG_S,))
    waiting.start()
    listener.wake()
    waiting.join(LONG_S)
    assert not waiting.is_alive()


def test_a_closed_listener_may_be_closed_and_woken_again(store: Store) -> None:
    listener = store.database.listen(Topic.INBOX)
    for _ in range(2):
        listener.close()
        listener.wake()


def test_a_rolled_back_transaction_announces_nothing(store: Store, listener: Listener) -> None:
    while listener.wait(0.05):
        pass

    def fail_after_announcing() -> None:
        with store.database.transaction() as connection:
            store.database.announce(connection, Topic.INBOX)
            raise RuntimeError("rolled back")

    with pytest.raises(RuntimeError):
        fail_after_announcing()
    assert not listener.wait(0.1)


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_file_that_is_being_written_over_ends_no_wait_in_an_error(
    store: Store, url: str, tmp_path: Path
) -> None:
    path = tmp_path / "restored.db"
    path.write_bytes(b"half of a backup" * 512)
    with contextlib.closing(SqliteListener(sa.make_url(f"sqlite:///{path}"))) as listener:
        assert not listener.wait(0.01)
        enqueue(store)
        with (
            contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as whole,
            contextlib.closing(sqlite3.connect(tmp_path / "whole.db")) as copy,
        ):
            whole.backup(copy)
        path.write_bytes((tmp_path / "whole.db").read_bytes())
        assert listener.wait(LONG_S)


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_an_announcer_whose_thread_could_not_start_starts_it_at_the_next_announcement(
    store: Store, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a new start, the topic would stay marked as due, and would never be announced."""
    announcer = PostgresAnnouncer(store.database.engines.write)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", fail_to_start)
        with pytest.raises(RuntimeError, match="new thread"):
            announcer.announce(Topic.INBOX)
    announcer.announce(Topic.INBOX)
    assert listener.wait(LONG_S)
    announcer.stop()


def fail_to_start(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")
