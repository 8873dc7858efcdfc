import threading

import pytest

from euterpe.store.turns import Turns


def test_whoever_came_first_goes_first() -> None:
    turns, order = Turns(), list[int]()
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
    turns = Turns()

    def fail() -> None:
        with turns.turn():
            raise RuntimeError("it broke")

    for _ in range(3):
        with pytest.raises(RuntimeError):
            fail()
    with turns.turn():
        assert len(turns._waiting) == 1
