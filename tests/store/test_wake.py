"""Wake-ups are hints: they come soon where the engine can tell, and nothing depends on them."""

import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest

from euterpe.store import file_watch, wake
from euterpe.store.store import Store
from euterpe.store.wake import Listener, Topic
from tests.store.jobs import claim_one, enqueue

LONG_S = 30.0
# libSQL cannot tell: it is polled and nothing else.
TELLING = pytest.mark.parametrize("engine", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def listener(store: Store) -> Iterator[Listener]:
    listener = store.database.listen(Topic.INBOX)
    yield listener
    listener.close()


@TELLING
def test_new_work_wakes_a_waiting_worker(store: Store, listener: Listener) -> None:
    enqueue(store)
    assert listener.wait(LONG_S)


@TELLING
def test_work_that_came_before_the_wait_is_not_missed(store: Store, listener: Listener) -> None:
    enqueue(store)
    assert len(store.inbox.claim("w1", 1)) == 1
    enqueue(store)
    assert listener.wait(LONG_S)


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
@pytest.mark.parametrize("is_told", [True, False])
def test_sqlite_is_looked_at_when_the_file_tells_and_by_itself_where_it_cannot(
    store: Store, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wake, "_LOOK_ANYWAY_S" if is_told else "_LOOK_EVERY_S", LONG_S if is_told else 0.001)
    if not is_told:
        monkeypatch.setattr(file_watch, "_inotify", lambda _: None)
    listener = store.database.listen(Topic.INBOX)
    heard: SimpleQueue[bool] = SimpleQueue()
    threading.Thread(target=lambda: heard.put(listener.wait(2 * LONG_S))).start()
    enqueue(store)
    assert heard.get(timeout=LONG_S / 2)
    listener.close()


def test_a_file_tells_of_each_write_once(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.touch()
    watch = file_watch.FileWatch([path, tmp_path / "there is none"])
    assert not watch.was_written()
    path.write_bytes(b"1")
    assert watch.was_written()
    assert not watch.was_written()
    watch.close()
    assert file_watch.FileWatch([tmp_path / "there is none"]).sources == ()


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_many_commits_are_one_hint(store: Store, listener: Listener) -> None:
    for _ in range(50):
        enqueue(store)
    hints = 0
    while listener.wait(0.2):
        hints += 1
    assert 1 <= hints < 50


@TELLING
def test_events_wake_the_dispatcher(store: Store) -> None:
    enqueue(store)
    listener = store.database.listen(Topic.OUTBOX)
    claim_one(store)
    assert listener.wait(LONG_S)
    listener.close()


def test_without_news_a_wait_ends_at_its_time(listener: Listener) -> None:
    while listener.wait(0.05):  # what came before
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


def test_whoever_is_closed_may_be_closed_and_woken_again(store: Store) -> None:
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
