"""Tests of publishing an attempt's files: in parallel, playlists last, and each file after a fence check."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from structlog.contextvars import bound_contextvars, get_contextvars

from euterpe.domain.leased_job import LeasedJob
from euterpe.net.pace import MinimumPace
from euterpe.storage.errors import StorageError
from euterpe.worker.attempt_control import CancelRequested, LeaseLost
from euterpe.worker.uploader import SharedCheck
from tests.storage.conditional_store import ConditionalStore
from tests.storage.fake_stores import Call, Reply, calls
from tests.storage.storage_calls import Fenced
from tests.worker.upload_fakes import TIMEOUT_S, UploadBench, threads_named, upload_bench

SEGMENTS = [f"hls/720p_{number:05}.m4s" for number in range(1, 13)]
NEVER = 1 << 40


@pytest.fixture
def bench(job: LeasedJob, tmp_path: Path) -> Iterator[UploadBench]:
    with upload_bench(job, tmp_path, least_early_bytes=NEVER) as opened:
        yield opened


class Together:
    """A fake response that holds PUT requests back until `count` of them have arrived.

    When `count` requests have arrived, the response calls `on_arrival`.
    """

    def __init__(
        self, store: ConditionalStore, count: int, on_arrival: Callable[[], None] = lambda: None
    ) -> None:
        self._store = store
        self._barrier = threading.Barrier(count, on_arrival, timeout=TIMEOUT_S)

    def __call__(self, call: Call) -> Reply:
        if call.method == "PUT" and call.path.endswith(".m4s"):
            self._barrier.wait()
        return self._store(call)


def test_segments_are_published_several_at_a_time(job: LeasedJob, tmp_path: Path) -> None:
    store = ConditionalStore()
    with upload_bench(
        job, tmp_path, store=store, answer=Together(store, 4), least_early_bytes=NEVER
    ) as bench:
        made = [bench.file(name) for name in SEGMENTS]
        stored = bench.uploader(bench.early()).publish(made)
    assert [one.url for one in stored] == [f"s3://out/job/{name}" for name in SEGMENTS], "in the given order"
    assert sorted(bench.published()) == SEGMENTS


def test_uploads_that_wait_at_the_same_time_are_no_slow_transfer(job: LeasedJob, tmp_path: Path) -> None:
    """Four uploads at once each wait 6 s for the store. These waits count as 6 s, and not as 24 s."""
    store, seconds = ConditionalStore(), [0.0]

    def let_time_pass() -> None:
        seconds.append(seconds[-1] + 6.0)

    answer = Together(store, 4, let_time_pass)
    pace = MinimumPace(bytes_per_s=1000, window_s=20.0)
    with upload_bench(
        *(job, tmp_path),
        store=store,
        answer=answer,
        least_early_bytes=NEVER,
        pace=pace,
        clock=lambda: seconds[-1],
    ) as bench:
        bench.uploader(bench.early()).publish([bench.file(name) for name in SEGMENTS])
    assert sorted(bench.published()) == SEGMENTS


def test_a_playlist_is_published_after_its_segments_and_before_the_next_file(bench: UploadBench) -> None:
    names = [*SEGMENTS, "hls/720p.m3u8", "hls/master.m3u8", "film.mp4", "sprite/1.jpg", "sprite/sprite.vtt"]
    lists = {"hls/720p.m3u8", "hls/master.m3u8", "sprite/sprite.vtt"}
    made = [bench.file(name, refers=name in lists) for name in names]
    bench.uploader(bench.early()).publish(made)
    published = bench.published()
    assert set(published[:12]) == set(SEGMENTS)
    assert published[12:14] == ["hls/720p.m3u8", "hls/master.m3u8"]
    assert set(published[14:16]) == {"film.mp4", "sprite/1.jpg"}
    assert published[16:] == ["sprite/sprite.vtt"]


def test_no_object_becomes_visible_without_a_fence_check_that_began_after_it_was_due(
    bench: UploadBench,
) -> None:
    made = [bench.file(name) for name in SEGMENTS]
    visible_at_check: list[int] = []
    bench.on_fence = lambda: visible_at_check.append(len(bench.store.published))
    bench.uploader(bench.early()).publish(made)
    assert visible_at_check[0] == 0, "the first check comes before the first object"
    assert 2 <= bench.fence_checks <= len(SEGMENTS), "threads that wait share a check"


def test_the_threads_of_uploads_log_with_the_fields_of_the_attempt(bench: UploadBench) -> None:
    fields: list[dict[str, object]] = []
    bench.on_fence = lambda: fields.append(get_contextvars())
    with bound_contextvars(job_id="j1"):
        bench.uploader(bench.early()).publish([bench.file(name) for name in SEGMENTS])
    assert fields == [{"job_id": "j1"}] * bench.fence_checks


def test_a_stale_worker_publishes_nothing_more(bench: UploadBench) -> None:
    def lose() -> None:
        if bench.fence_checks > 1:
            raise Fenced

    bench.on_fence = lose
    made = [bench.file(name) for name in [*SEGMENTS, *(f"b{name}" for name in SEGMENTS)]]
    with pytest.raises(Fenced):
        bench.uploader(bench.early()).publish(made)
    count = len(bench.store.published)
    assert count <= 8, "only what the first check allowed"
    assert threads_named("euterpe-upload") == []


def test_an_error_of_one_file_ends_the_others(job: LeasedJob, tmp_path: Path) -> None:
    store = ConditionalStore()

    def answer(call: Call) -> Reply:
        return Reply(403) if call.path.endswith("00003.m4s") else store(call)

    with upload_bench(job, tmp_path, store=store, answer=answer, least_early_bytes=NEVER) as bench:
        made = [bench.file(name) for name in SEGMENTS] + [bench.file("hls/720p.m3u8", refers=True)]
        with pytest.raises(StorageError) as refused:
            bench.uploader(bench.early()).publish(made)
        assert refused.value.code == "output_forbidden"
        assert "hls/720p.m3u8" not in bench.published()
        assert threads_named("euterpe-upload") == []
        sent = len(calls(bench.server))
    assert len(calls(bench.server)) == sent, "no request follows"


def test_a_cancel_ends_an_upload_of_many_files(bench: UploadBench) -> None:
    made = [bench.file(name) for name in SEGMENTS]
    bench.on_fence = lambda: bench.control.end(CancelRequested("the job was canceled"))
    with pytest.raises(CancelRequested):
        bench.uploader(bench.early()).publish(made)
    assert threads_named("euterpe-upload") == []


def test_large_files_are_not_all_in_memory_at_once(job: LeasedJob, tmp_path: Path) -> None:
    store, running, most = ConditionalStore(), threading.Semaphore(0), list[int]()

    def answer(call: Call) -> Reply:
        if call.method == "PUT":
            running.release()
            most.append(running._value)
        reply = store(call)
        if call.method == "PUT":
            running.acquire()
        return reply

    with upload_bench(
        job, tmp_path, store=store, answer=answer, least_early_bytes=NEVER, part_bytes=32 << 20
    ) as bench:
        made = [bench.file(f"{number}.mp4", bytes(16 << 20)) for number in range(4)]
        bench.uploader(bench.early()).publish(made)
    assert max(most) <= 2
    assert len(store.published) == 4


def test_a_shared_check_begins_after_each_of_its_callers() -> None:
    """A check that began before a call does not prove that the lease was valid at the time of the call."""
    began, go_on, runs = threading.Semaphore(0), threading.Event(), list[int]()

    def check() -> None:
        runs.append(len(runs))
        began.release()
        assert go_on.wait(TIMEOUT_S)

    shared = SharedCheck(check)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(shared)
        assert began.acquire(timeout=TIMEOUT_S)
        others = [pool.submit(shared) for _ in range(3)]
        go_on.set()
        for future in (first, *others):
            future.result(TIMEOUT_S)
    assert 2 <= len(runs) <= 4


def test_a_shared_check_that_fails_fails_for_all() -> None:
    def check() -> None:
        raise Fenced

    shared = SharedCheck(check)
    for _ in range(2):
        with pytest.raises(Fenced):
            shared()


def test_a_failure_does_not_wait_for_a_file_that_is_still_being_sent(job: LeasedJob, tmp_path: Path) -> None:
    def lose() -> None:
        raise LeaseLost("the job is not ours any more")

    with (
        upload_bench(job, tmp_path, least_early_bytes=1000) as bench,
        bench.store.holding("PUT", "partNumber=1") as gate,
        bench.early() as early,
    ):
        slow, small = bench.file("slow.mp4", b"slow" * 1000), bench.file("small.mp4")
        early.offer(slow.name, slow.path, "video/mp4")
        gate.await_reached()
        bench.on_fence = lose
        with pytest.raises(LeaseLost):
            bench.uploader(early).publish([slow, small])
        gate.open()
    assert bench.published() == []
    assert bench.store.unfinished == set()
