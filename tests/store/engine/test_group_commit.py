"""GroupCommit: callers that arrive while a transaction runs share the next transaction."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import pytest
from structlog.testing import capture_logs

from euterpe.domain.states import JobStatus
from euterpe.store.engine.group_commit import GroupCommit
from euterpe.store.errors import StoreUnavailable
from euterpe.store.queue.transition import Transition
from euterpe.store.store import Store
from tests.store.attempts import release_job
from tests.store.jobs import claim_one, enqueue


class GatedFlush:
    """A flush that waits until the test opens it, and records its batches."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.entered, self.open = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, items: Sequence[int]) -> list[int | Exception]:
        self.batches.append(list(items))
        self.entered.release()
        self.open.acquire()
        if -1 in items:
            raise ValueError("one of them is bad")
        return [KeyError(item) if item == 13 else item * 10 for item in items]


@pytest.fixture
def gate() -> GatedFlush:
    return GatedFlush()


def started(gate: GatedFlush, **options: int) -> GroupCommit[int, int]:
    commits: GroupCommit[int, int] = GroupCommit(gate, name="test", **options)
    commits.start()
    return commits


def test_items_that_arrive_during_a_flush_share_the_next_one(gate: GatedFlush) -> None:
    commits = started(gate)
    first = commits.submit(1)
    gate.entered.acquire()
    others = [commits.submit(number) for number in (2, 3, 4)]
    gate.open.release(2)
    assert [future.result(10) for future in (first, *others)] == [10, 20, 30, 40]
    assert gate.batches == [[1], [2, 3, 4]]
    commits.stop()


def test_an_exception_as_an_answer_reaches_only_its_caller(gate: GatedFlush) -> None:
    commits = started(gate)
    gate.open.release(9)
    bad, good = commits.submit(13), commits.submit(2)
    assert isinstance(bad.exception(10), KeyError)
    assert good.result(10) == 20
    commits.stop()


def test_one_bad_item_fails_by_itself(gate: GatedFlush) -> None:
    commits = started(gate)
    first = commits.submit(1)
    gate.entered.acquire()
    others = [commits.submit(number) for number in (2, -1, 4)]
    gate.open.release(9)
    wait([first, *others], 10)
    assert [future.exception() is None for future in others] == [True, False, True]
    commits.stop()


def test_an_unavailable_database_fails_the_whole_batch_without_single_retries() -> None:
    calls: list[int] = []
    release = threading.Event()

    def away(items: Sequence[int]) -> list[int | Exception]:
        release.wait(10)
        calls.append(len(items))
        raise StoreUnavailable("away")

    commits: GroupCommit[int, int] = GroupCommit(away, name="test")
    commits.start()
    futures = [commits.submit(number) for number in range(5)]
    release.set()
    assert all(isinstance(future.exception(10), StoreUnavailable) for future in futures)
    assert len(calls) <= 2
    assert sum(calls) == 5
    commits.stop()


class Crash(BaseException):
    """An exception that `except Exception` does not catch."""


def crash(_: Sequence[int]) -> list[int | Exception]:
    raise Crash


def forget_the_results(_: Sequence[int]) -> Any:
    return None


@pytest.mark.parametrize(("broken", "error"), [(crash, Crash), (forget_the_results, TypeError)])
def test_an_unexpected_error_reaches_every_caller_and_the_next_write_works(
    broken: Callable[[Sequence[int]], list[int | Exception]], error: type[BaseException]
) -> None:
    release = threading.Event()
    flushes = [broken, broken]

    def flush(items: Sequence[int]) -> Sequence[int | Exception]:
        release.wait(10)
        return flushes.pop()(items) if flushes else [item * 10 for item in items]

    commits: GroupCommit[int, int] = GroupCommit(flush, name="test", max_batch=5)
    futures = [commits.submit(number) for number in range(10)]
    commits.start()
    given_up = futures[7].cancel()
    release.set()
    assert given_up
    assert all(isinstance(future.exception(10), error) for future in futures[:7] + futures[8:])
    assert commits.submit(3).result(10) == 30
    commits.stop()


def test_a_crash_of_a_flush_is_logged() -> None:
    """The error is logged, because the caller may have ended without reading it from the future."""
    commits: GroupCommit[int, int] = GroupCommit(crash, name="test")
    with capture_logs() as logs:
        commits.start()
        assert isinstance(commits.submit(1).exception(10), Crash)
        commits.stop()
    assert [(log["event"], log["log_level"]) for log in logs] == [("group_commit_crashed", "error")]


@pytest.mark.parametrize("drain", [True, False])
def test_callbacks_of_refused_callers_run_without_the_lock(drain: bool) -> None:
    commits: GroupCommit[int, int] = GroupCommit(crash, name="test")
    pool, refused = ThreadPoolExecutor(1), threading.Event()

    def submit_from_another_thread(_: Future[int]) -> None:
        if isinstance(pool.submit(commits.submit, 2).exception(10), StoreUnavailable):
            refused.set()

    commits.submit(1).add_done_callback(submit_from_another_thread)
    commits.stop(drain=drain)
    pool.shutdown()
    assert refused.is_set()


def test_a_stop_before_the_start_refuses_the_callers() -> None:
    commits: GroupCommit[int, int] = GroupCommit(crash, name="test")
    future = commits.submit(1)
    commits.stop()
    assert isinstance(future.exception(0), StoreUnavailable)


def test_batches_and_the_queue_are_bounded(gate: GatedFlush) -> None:
    commits = started(gate, max_batch=2, max_waiting=3)
    first = commits.submit(0)
    gate.entered.acquire()
    waiting = [commits.submit(number) for number in (1, 2, 3)]
    with pytest.raises(StoreUnavailable, match="too many"):
        commits.submit(4)
    gate.open.release(9)
    assert [future.result(10) for future in (first, *waiting)] == [0, 10, 20, 30]
    assert gate.batches == [[0], [1, 2], [3]]
    commits.stop()


@pytest.mark.parametrize("drain", [True, False])
def test_stopping_answers_every_caller(gate: GatedFlush, drain: bool) -> None:
    commits = started(gate)
    first = commits.submit(1)
    gate.entered.acquire()
    second: Future[int] = commits.submit(2)
    stopper = threading.Thread(target=commits.stop, kwargs={"drain": drain})
    stopper.start()
    if not drain:
        assert isinstance(second.exception(10), StoreUnavailable)
    gate.open.release(2)
    stopper.join(10)
    assert first.result(0) == 10
    assert (second.exception(0) is None) is drain
    with pytest.raises(StoreUnavailable):
        commits.submit(3)


def test_a_cancelled_caller_is_skipped(gate: GatedFlush) -> None:
    commits = started(gate)
    first = commits.submit(1)
    gate.entered.acquire()
    given_up, other = commits.submit(2), commits.submit(3)
    assert given_up.cancel()
    gate.open.release(2)
    assert (first.result(10), other.result(10)) == (10, 30)
    assert gate.batches == [[1], [3]]
    commits.stop()


def test_single_steps_of_many_jobs_share_commits_and_each_is_fenced(store: Store) -> None:
    enqueue(store, 20)
    jobs = store.inbox.claim("w1", 20)
    release_job(store, jobs[3])
    steps = [
        store.inbox.submit_advance(Transition.advance(job, JobStatus.CLAIMED, JobStatus.FETCHING))
        for job in jobs
    ]
    held = [future.result(60) for future in steps]
    assert held == [number != 3 for number in range(20)]


def test_the_same_step_twice_at_once_is_one_step(store: Store) -> None:
    (job_id,) = enqueue(store)
    step = Transition.advance(claim_one(store), JobStatus.CLAIMED, JobStatus.FETCHING)
    futures = [store.inbox.submit_advance(step) for _ in range(10)]
    assert sorted(future.result(60) for future in futures) == [False] * 9 + [True]
    assert [event.type for event in store.jobs.events(job_id)] == ["job.claimed", "job.fetching"]


def gathering(batches: list[list[int]]) -> GroupCommit[int, int]:
    """Return a group commit that writes a second batch only if this batch is full, urgent or the last one."""

    def flush(items: Sequence[int]) -> list[int]:
        batches.append(list(items))
        return list(items)

    commits = GroupCommit(flush, name="gathering", max_batch=3, pause_s=60.0)
    commits.start()
    assert commits.submit(0).result(30) == 0, "the first item does not wait"
    return commits


def test_a_batch_gathers_items_for_a_while_and_no_longer_than_until_it_is_full() -> None:
    batches: list[list[int]] = []
    commits = gathering(batches)
    futures = [commits.submit(number) for number in (1, 2, 3)]
    assert [future.result(30) for future in futures] == [1, 2, 3]
    last = commits.submit(4)
    commits.stop()  # a stop does not wait for more items
    assert last.result(30) == 4
    assert batches == [[0], [1, 2, 3], [4]]


def test_an_urgent_item_does_not_wait_for_more() -> None:
    batches: list[list[int]] = []
    commits = gathering(batches)
    first, urgent = commits.submit(1), commits.submit(2, is_urgent=True)
    assert [first.result(30), urgent.result(30)] == [1, 2]
    last = commits.submit(3)
    commits.stop()
    assert last.result(30) == 3
    assert batches == [[0], [1, 2], [3]]
