"""Concurrent callers share a batch. Each caller gets only its own result or its own error."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from euterpe.store.engine.combined_writes import CombinedWrites
from euterpe.store.errors import StoreError, StoreUnavailable

SLOW_S = 60.0


class Held:
    """A flush that waits during its first batch until the test sets `go`."""

    def __init__(self, answer: Callable[[int], int | Exception]) -> None:
        self.batches: list[list[int]] = []
        self.began, self.go = threading.Event(), threading.Event()
        self._answer = answer

    def __call__(self, items: Sequence[int]) -> list[int | Exception]:
        self.batches.append(list(items))
        if len(self.batches) == 1:
            self.began.set()
            assert self.go.wait(SLOW_S)
        return [self._answer(item) for item in items]


def call_together(
    writes: CombinedWrites[int, int], held: Held, items: Sequence[int]
) -> list[int | BaseException]:
    """Write the value 0, and add `items` before this write ends. Return the results of `items`."""
    with ThreadPoolExecutor(len(items) + 1) as pool:
        first = pool.submit(writes.write, 0)
        assert held.began.wait(SLOW_S)
        others = [pool.submit(writes.write, item) for item in items]
        while len(writes._waiting) < len(items):
            pass
        held.go.set()
        assert first.result(SLOW_S) == 0
        return [other.exception(SLOW_S) or other.result() for other in others]


def test_a_lone_caller_writes_in_its_own_thread() -> None:
    threads: list[int] = []

    def flush(items: Sequence[int]) -> list[int]:
        threads.append(threading.get_ident())
        return [2 * item for item in items]

    assert CombinedWrites(flush, share=lambda _: 0).write(4) == 8
    assert threads == [threading.get_ident()]


def test_callers_that_wait_share_the_next_batch() -> None:
    held = Held(lambda item: 2 * item)
    writes = CombinedWrites(held, share=lambda _: 0)
    assert call_together(writes, held, [1, 2, 3]) == [2, 4, 6]
    assert [sorted(batch) for batch in held.batches] == [[0], [1, 2, 3]]


def test_only_items_of_one_kind_share_a_batch() -> None:
    held = Held(lambda item: item)
    writes = CombinedWrites(held, share=lambda item: item % 2)
    assert call_together(writes, held, [1, 2, 3, 4]) == [1, 2, 3, 4]
    assert sorted(sorted(batch) for batch in held.batches) == [[0], [1, 3], [2, 4]]


def test_a_batch_has_a_limit() -> None:
    held = Held(lambda item: item)
    writes = CombinedWrites(held, share=lambda _: 0, max_batch=2)
    assert call_together(writes, held, [1, 2, 3, 4, 5]) == [1, 2, 3, 4, 5]
    assert [len(batch) for batch in held.batches] == [1, 2, 2, 1]


def test_an_answer_that_is_an_exception_is_raised_to_its_caller_alone() -> None:
    refused = StoreError("no")
    held = Held(lambda item: refused if item == 2 else item)
    assert call_together(CombinedWrites(held, share=lambda _: 0), held, [1, 2, 3]) == [1, refused, 3]


def test_a_bad_item_does_not_fail_its_batch() -> None:
    def answer(item: int) -> int:
        if item == 2:
            raise ValueError("bad item")
        return item

    held = Held(answer)
    good, bad, other = call_together(CombinedWrites(held, share=lambda _: 0), held, [1, 2, 3])
    assert (good, other) == (1, 3)
    assert isinstance(bad, ValueError)


def test_an_outage_fails_the_batch_once() -> None:
    def answer(item: int) -> int:
        if item:
            raise StoreUnavailable("away")
        return item

    held = Held(answer)
    failed = call_together(CombinedWrites(held, share=lambda _: 0), held, [1, 2])
    assert all(isinstance(error, StoreUnavailable) for error in failed)
    assert len(held.batches) == 2


def test_an_interrupted_writer_leaves_no_caller_waiting() -> None:
    def answer(item: int) -> int:
        if item:
            raise KeyboardInterrupt
        return item

    held = Held(answer)
    failed = call_together(CombinedWrites(held, share=lambda _: 0), held, [1, 2])
    assert {type(error) for error in failed} == {KeyboardInterrupt, StoreError}


@pytest.mark.parametrize("threads", [1, 16])
def test_every_caller_gets_its_own_result(threads: int) -> None:
    def squares(items: Sequence[int]) -> list[int]:
        return [item * item for item in items]

    writes = CombinedWrites(squares, share=lambda item: item % 3)
    with ThreadPoolExecutor(threads) as pool:
        assert list(pool.map(writes.write, range(500))) == [number * number for number in range(500)]
