import signal
import threading

import pytest

from euterpe.store.engine.deadlines import deadline_after, seconds_left, write_deadline
from euterpe.store.engine.fifo_lock import FifoLock
from euterpe.store.errors import StoreUnavailable


def test_whoever_came_first_goes_first() -> None:
    turns, order = FifoLock(), list[int]()
    queued, first_may_end = threading.Semaphore(0), threading.Event()

    def hold() -> None:
        with turns.turn():
            queued.release()
            first_may_end.wait(30)

    def follow(number: int) -> None:
        with turns.turn():
            order.append(number)

    holder = threading.Thread(target=hold)
    holder.start()
    queued.acquire()
    followers = []
    for number in range(20):
        followers.append(threading.Thread(target=follow, args=(number,)))
        followers[-1].start()
        while len(turns._waiting) < number + 2:  # until it stands in line behind the last one
            pass
    first_may_end.set()
    for thread in (holder, *followers):
        thread.join(30)
    assert order == list(range(20))


def test_a_turn_that_ends_in_an_error_is_handed_on() -> None:
    turns = FifoLock()

    def fail() -> None:
        with turns.turn():
            raise RuntimeError("it broke")

    for _ in range(3):
        with pytest.raises(RuntimeError):
            fail()
    with turns.turn():
        assert len(turns._waiting) == 1


def test_whoever_is_interrupted_in_the_line_leaves_it() -> None:
    turns, main = FifoLock(), threading.main_thread()
    assert threading.current_thread() is main, "no other is interrupted by a signal"
    holding, interrupted, followed = threading.Event(), threading.Event(), threading.Event()

    def hold() -> None:
        with turns.turn():
            holding.set()
            while len(turns._waiting) < 2:
                pass
            signal.pthread_kill(main.ident or 0, signal.SIGINT)
            interrupted.wait(30)

    def follow() -> None:
        with turns.turn():
            followed.set()

    threads = [threading.Thread(target=act, daemon=True) for act in (hold, follow)]
    threads[0].start()
    holding.wait(30)
    with pytest.raises(KeyboardInterrupt), turns.turn():
        pass
    threads[1].start()
    interrupted.set()
    assert followed.wait(30)
    for thread in threads:
        thread.join(30)


def test_whoever_waited_too_long_for_a_turn_leaves_the_line() -> None:
    turns, may_end, holding = FifoLock(), threading.Event(), threading.Event()

    def hold() -> None:
        with turns.turn():
            holding.set()
            may_end.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    holding.wait(30)
    with write_deadline(deadline_after(0.01)):
        for _ in range(3):
            with pytest.raises(StoreUnavailable), turns.turn():
                pass
    assert len(turns._waiting) == 1
    may_end.set()
    holder.join(30)
    with turns.turn():
        assert len(turns._waiting) == 1


def test_an_earlier_deadline_of_the_caller_holds() -> None:
    with write_deadline(deadline_after(1_000)):
        with write_deadline(deadline_after(2_000)):
            assert 0 < seconds_left() <= 1_000
        with write_deadline(deadline_after(-1)):
            assert seconds_left() == 0
        assert seconds_left() > 0
