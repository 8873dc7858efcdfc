"""Wake-ups: a listener returns soon after a commit if the engine sends hints, else at its timeout."""

import contextlib
import resource
import sqlite3
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from queue import SimpleQueue

import pytest
import sqlalchemy as sa

from euterpe.store.engine import wakeup
from euterpe.store.engine.wakeup import Listener, Topic
from euterpe.store.store import Store
from tests.store.jobs import claim_one, enqueue

LONG_S = 30.0
# libSQL sends no hints and is only polled.
WITH_HINTS = pytest.mark.parametrize("engine", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def listener(store: Store) -> Iterator[Listener]:
    listener = store.database.listen(Topic.INBOX)
    yield listener
    listener.close()


def wakes_on_enqueue(listener: Listener, store: Store) -> bool:
    """Return whether an enqueue ends a wait that has begun, long before its timeout."""
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
    store: Store, has_inotify: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakeup, "_LOOK_ANYWAY_S", LONG_S)
    if has_inotify:
        monkeypatch.setattr(wakeup, "_LOOK_EVERY_S", LONG_S)
    else:
        monkeypatch.setattr(wakeup, "_inotify", lambda _: None)
    listener = store.database.listen(Topic.INBOX)
    assert wakes_on_enqueue(listener, store)
    listener.close()


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_link_to_the_database_is_followed_to_its_log(
    store: Store, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pause in ("_LOOK_ANYWAY_S", "_LOOK_EVERY_S"):
        monkeypatch.setattr(wakeup, pause, LONG_S)
    (tmp_path / "link.db").symlink_to(url.removeprefix("sqlite:///"))
    listener = wakeup.SqliteListener(sa.make_url(f"sqlite:///{tmp_path / 'link.db'}"))
    assert wakes_on_enqueue(listener, store)
    listener.close()


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_long_write_is_not_polled_page_by_page(
    store: Store, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = store.database.listen(Topic.INBOX)
    assert isinstance(listener, wakeup.SqliteListener)
    looks, look = count(1), listener._version
    monkeypatch.setattr(listener, "_version", lambda: (next(looks), look())[1])
    began = time.monotonic()
    waiting = threading.Thread(target=listener.wait, args=(LONG_S,))
    waiting.start()
    with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as writer:
        writer.execute("PRAGMA cache_size = 10")  # pages beyond the cache go to the file before the commit
        writer.execute("CREATE TABLE bulk (text)")
        writer.executemany("INSERT INTO bulk VALUES (?)", [("x" * 4_000,)] * 5_000)
        listener.wake()
        waiting.join()
        writer.rollback()
    assert next(looks) <= 10 + (time.monotonic() - began) / wakeup._SHORTEST_PAUSE_S
    listener.close()


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_hints_come_no_more_often_than_polls(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each hint leads to a claim, which takes the write lock."""
    listener = store.database.listen(Topic.INBOX)
    enqueue(store)
    assert isinstance(listener, wakeup.SqliteListener)
    assert listener.wait(LONG_S)
    enqueue(store)
    pauses: list[float] = []
    monkeypatch.setattr(listener._self_pipe, "wait", lambda _, timeout_s: pauses.append(timeout_s))
    monkeypatch.setattr(wakeup, "_LOOK_EVERY_S", LONG_S)
    assert listener.wait(2 * LONG_S)
    assert len(pauses) == 1
    assert LONG_S / 2 < pauses[0] <= LONG_S
    listener.close()


@pytest.mark.parametrize("engine", ["sqlite", "libsql"], indirect=True)
def test_a_wait_opens_no_file_descriptor(listener: Listener) -> None:
    """Otherwise it would fail where a claim has failed for lack of one, and end the claiming thread."""
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
    watch = wakeup.FileWatch([path])
    assert not watch.was_written()
    path.write_bytes(b"1")
    assert watch.was_written()
    assert not watch.was_written()
    watch.close()
    assert wakeup.FileWatch([path, tmp_path / "there is none"]).sources == ()


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_many_commits_are_one_hint(store: Store, listener: Listener) -> None:
    for _ in range(50):
        enqueue(store)
    hints = 0
    while listener.wait(0.2):
        hints += 1
    assert 1 <= hints < 50


@WITH_HINTS
def test_events_wake_the_dispatcher(store: Store) -> None:
    enqueue(store)
    listener = store.database.listen(Topic.OUTBOX)
    claim_one(store)
    assert listener.wait(LONG_S)
    listener.close()


def test_a_wait_without_a_hint_ends_at_its_timeout(listener: Listener) -> None:
    while listener.wait(0.05):  # hints of earlier commits
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
    with contextlib.closing(wakeup.SqliteListener(sa.make_url(f"sqlite:///{path}"))) as listener:
        assert not listener.wait(0.01)
        enqueue(store)
        with (
            contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as whole,
            contextlib.closing(sqlite3.connect(tmp_path / "whole.db")) as copy,
        ):
            whole.backup(copy)
        path.write_bytes((tmp_path / "whole.db").read_bytes())
        assert listener.wait(LONG_S)
