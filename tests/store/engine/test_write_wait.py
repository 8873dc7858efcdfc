"""FifoLock and the deadline of a writer: order of waiters, errors, interrupts and deadlines."""

import signal
import threading
from collections import deque
from typing import Any

import pytest

from euterpe.store.engine.write_wait import FifoLock, deadline_after, seconds_left, write_deadline
from euterpe.store.errors import StoreUnavailable


def test_the_lock_is_first_in_first_out() -> None:
    lock, order = FifoLock(), list[int]()
    queued, first_may_end = threading.Semaphore(0), threading.Event()

    def hold() -> None:
        with lock.turn():
            queued.release()
            first_may_end.wait(30)

    def follow(number: int) -> None:
        with lock.turn():
            order.append(number)

    holder = threading.Thread(target=hold)
    holder.start()
    queued.acquire()
    followers = []
    for number in range(20):
        followers.append(threading.Thread(target=follow, args=(number,)))
        followers[-1].start()
        while len(lock._waiting) < number + 2:  # wait until the thread is in the queue
            pass
    first_may_end.set()
    for thread in (holder, *followers):
        thread.join(30)
    assert order == list(range(20))


def test_the_lock_is_released_after_an_error() -> None:
    lock = FifoLock()

    def fail() -> None:
        with lock.turn():
            raise RuntimeError("it broke")

    for _ in range(3):
        with pytest.raises(RuntimeError):
            fail()
    with lock.turn():
        assert len(lock._waiting) == 1


def test_an_interrupted_waiter_leaves_the_queue() -> None:
    lock, main = FifoLock(), threading.main_thread()
    assert threading.current_thread() is main, "a signal interrupts the main thread only"
    holding, interrupted, followed = threading.Event(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock.turn():
            holding.set()
            while len(lock._waiting) < 2:
                pass
            signal.pthread_kill(main.ident or 0, signal.SIGINT)
            interrupted.wait(30)

    def follow() -> None:
        with lock.turn():
            followed.set()

    threads = [threading.Thread(target=target, daemon=True) for target in (hold, follow)]
    threads[0].start()
    holding.wait(30)
    with pytest.raises(KeyboardInterrupt), lock.turn():
        pass
    threads[1].start()
    interrupted.set()
    assert followed.wait(30)
    for thread in threads:
        thread.join(30)


def test_an_interrupt_on_entering_leaves_no_place_in_the_queue() -> None:
    class Interrupted(deque[Any]):
        def append(self, waiter: Any) -> None:
            super().append(waiter)
            raise KeyboardInterrupt

    lock = FifoLock()
    lock._waiting = Interrupted()
    with pytest.raises(KeyboardInterrupt), lock.turn():
        pass
    assert len(lock._waiting) == 0


def test_a_second_interrupt_on_leaving_leaves_no_place_in_the_queue() -> None:
    class Interrupted(deque[Any]):
        interrupts = 1

        def remove(self, waiter: Any) -> None:
            if self.interrupts:
                self.interrupts -= 1
                raise KeyboardInterrupt
            super().remove(waiter)

    lock = FifoLock()
    lock._waiting = Interrupted()
    with pytest.raises(KeyboardInterrupt), lock.turn():
        pass
    assert len(lock._waiting) == 0


def test_a_waiter_that_times_out_leaves_the_queue() -> None:
    lock, may_end, holding = FifoLock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock.turn():
            holding.set()
            may_end.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    holding.wait(30)
    with write_deadline(deadline_after(0.01)):
        for _ in range(3):
            with pytest.raises(StoreUnavailable), lock.turn():
                pass
    assert len(lock._waiting) == 1
    may_end.set()
    holder.join(30)
    with lock.turn():
        assert len(lock._waiting) == 1


def test_an_earlier_deadline_of_the_caller_holds() -> None:
    with write_deadline(deadline_after(1_000)):
        with write_deadline(deadline_after(2_000)):
            assert 0 < seconds_left() <= 1_000
        with write_deadline(deadline_after(-1)):
            assert seconds_left() == 0
        assert seconds_left() > 0
