"""Tests of files that are sent during an attempt: they are invisible, then published or removed."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.contextvars import bound_contextvars, merge_contextvars
from structlog.testing import capture_logs

from euterpe.domain.leased_job import LeasedJob
from euterpe.worker.attempt_control import LeaseLost
from euterpe.worker.early_uploads import EarlyUploads
from tests.storage.conditional_store import ConditionalStore
from tests.storage.fake_stores import Call, Reply, calls
from tests.worker.upload_fakes import TIMEOUT_S, UploadBench, threads_named, upload_bench

CONTENT = b"film" * 100_000


@pytest.fixture
def bench(job: LeasedJob, tmp_path: Path) -> Iterator[UploadBench]:
    with upload_bench(job, tmp_path, least_early_bytes=1000) as opened:
        yield opened


def offer(early: EarlyUploads, bench: UploadBench, name: str = "film.mp4", content: bytes = CONTENT) -> None:
    """Offer a file, and wait until its upload has begun."""
    early.offer(name, bench.file(name, content).path, "video/mp4")
    bench.await_upload()


def bodies(bench: UploadBench) -> int:
    return sum(len(call.body) for call in calls(bench.server))


def test_a_file_that_was_sent_early_is_published_at_the_end(bench: UploadBench) -> None:
    with bench.early() as early:
        offer(early, bench)
        assert early.take("film.mp4") is not None
        assert bench.published() == []
        made = [bench.file("film.mp4", CONTENT)]
        (stored,) = bench.uploader(early).publish(made)
    assert (stored.size_bytes, bench.fence_checks) == (len(CONTENT), 1)
    assert bench.store.objects["/out/job/film.mp4"].content == CONTENT
    assert len(CONTENT) <= bodies(bench) < len(CONTENT) + 1000, "the bytes are sent once"
    assert sum(bench.sizes) == len(CONTENT)
    assert "DELETE" not in [call.method for call in calls(bench.server)], "nothing is left to remove"


def test_what_is_not_published_is_removed(bench: UploadBench) -> None:
    with bench.early() as early:
        for name in ("a.mp4", "b.mp4", "c.mp4"):
            offer(early, bench, name)
            assert early.take(name) is not None
        assert len(bench.store.unfinished) == 3
    assert bench.store.unfinished == set()
    assert bench.published() == []


def test_the_newest_credentials_remove_what_is_not_published(bench: UploadBench) -> None:
    """The credentials with which a file was sent an hour ago may have expired."""
    with bench.early() as early:
        offer(early, bench)
        assert early.take("film.mp4") is not None
        bench.access.renew("AKIANEWEST")
    (deleted,) = [call for call in calls(bench.server) if call.method == "DELETE"]
    assert "AKIANEWEST" in deleted.headers["authorization"]
    assert bench.store.unfinished == set()


def test_an_attempt_that_fails_removes_what_it_has_sent(bench: UploadBench) -> None:
    def fail() -> None:
        with bench.early() as early:
            offer(early, bench)
            assert early.take("film.mp4") is not None
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert bench.store.unfinished == set()
    assert threads_named("euterpe-early") == []


def test_a_lost_lease_ends_the_sending_and_removes_the_parts(bench: UploadBench) -> None:
    with bench.store.holding("PUT", "partNumber=1") as gate, bench.early() as early:
        offer(early, bench, content=CONTENT * 4)
        gate.await_reached()
        bench.control.end(LeaseLost("the job is not ours any more"))
        gate.open()
        assert early.take("film.mp4") is None
    assert bench.store.unfinished == set()
    assert bench.published() == []


def test_a_file_that_is_being_sent_is_waited_for(bench: UploadBench) -> None:
    with bench.store.holding("PUT", "partNumber=1") as gate, bench.early() as early:
        offer(early, bench)
        gate.await_reached()
        gate.open()
        bench.uploader(early).publish([bench.file("film.mp4", CONTENT)])
    assert bench.store.objects["/out/job/film.mp4"].content == CONTENT
    assert bodies(bench) < len(CONTENT) + 1000


def test_a_file_that_waits_behind_another_one_is_left_to_the_upload(bench: UploadBench) -> None:
    with bench.store.holding("PUT", "partNumber=1") as gate, bench.early() as early:
        offer(early, bench, "first.mp4")
        gate.await_reached()
        early.offer("film.mp4", bench.file("film.mp4", CONTENT).path, "video/mp4")
        assert early.take("film.mp4") is None
        gate.open()
        offer(early, bench, "last.mp4")
    begun = [call.path for call in calls(bench.server) if call.query == "uploads="]
    assert begun == ["/out/job/first.mp4", "/out/job/last.mp4"]


def test_a_file_that_changed_is_published_as_it_is_now(bench: UploadBench) -> None:
    with bench.early() as early:
        offer(early, bench)
        assert early.take("film.mp4") is not None
        bench.uploader(early).publish([bench.file("film.mp4", b"verified" * 1000)])
    assert bench.store.objects["/out/job/film.mp4"].content == b"verified" * 1000
    assert bench.store.unfinished == set()


def test_a_store_that_refuses_is_asked_once_and_the_upload_reports_it(job: LeasedJob, tmp_path: Path) -> None:
    """Further tries would use up credential refreshes, which the upload at the end may need."""
    store = ConditionalStore()

    def answer(call: Call) -> Reply:
        return Reply(403) if call.method == "POST" else store(call)

    with upload_bench(job, tmp_path, store=store, answer=answer, least_early_bytes=1000) as bench:
        with capture_logs() as logs, bench.early() as early:
            offer(early, bench, "a.mp4")
            assert early.take("a.mp4") is None
            early.offer("b.mp4", bench.file("b.mp4", CONTENT).path, "video/mp4")
            bench.uploader(early).publish([bench.file("a.mp4", CONTENT)])
        assert [call.method for call in calls(bench.server)].count("POST") == 1
    assert store.objects["/out/job/a.mp4"].content == CONTENT
    assert [log["code"] for log in logs if log["event"] == "early_upload_ended"] == ["output_forbidden"]


def test_small_and_missing_files_start_no_thread(bench: UploadBench) -> None:
    with bench.early() as early:
        early.offer("small.mp4", bench.file("small.mp4", b"small").path, "video/mp4")
        early.offer("missing.mp4", bench.folder / "missing.mp4", "video/mp4")
        assert threads_named("euterpe-early") == []
    assert calls(bench.server) == []


def test_a_link_is_not_followed(bench: UploadBench, tmp_path: Path) -> None:
    """A compromised ffmpeg can put a link in place of its output."""
    (tmp_path / "secret").write_bytes(CONTENT)
    link = bench.folder / "film.mp4"
    link.symlink_to(tmp_path / "secret")
    with bench.early() as early:
        early.offer("film.mp4", link, "video/mp4")
        assert early.take("film.mp4") is None
    assert bodies(bench) == 0


def test_a_file_that_is_offered_twice_is_published_once_and_nothing_is_left(bench: UploadBench) -> None:
    with bench.early() as early:
        offer(early, bench)
        assert early.take("film.mp4") is not None
        offer(early, bench)
        bench.uploader(early).publish([bench.file("film.mp4", CONTENT)])
    assert bench.store.objects["/out/job/film.mp4"].content == CONTENT
    assert bench.store.unfinished == set()


def test_forgotten_files_may_be_removed_and_others_are_still_sent(bench: UploadBench) -> None:
    """A discarded head start removes its files. The next encode offers new files with the same names."""
    with bench.store.holding("PUT", "partNumber=1") as gate, capture_logs() as logs, bench.early() as early:
        offer(early, bench, "a.mp4", CONTENT * 4)
        gate.await_reached()
        early.offer("b.mp4", bench.file("b.mp4", CONTENT).path, "video/mp4")
        early.forget()
        for path in bench.folder.glob("*.mp4"):
            path.unlink()
        gate.open()
        assert early.take("a.mp4") is None
        offer(early, bench, "b.mp4", b"again" * 1000)
        assert early.take("b.mp4") is not None
    assert bench.store.unfinished == set()
    assert [log["event"] for log in logs] == ["sent_early"]


def test_a_store_that_hangs_does_not_hold_the_attempt(bench: UploadBench) -> None:
    with bench.store.holding("PUT", "partNumber=1") as gate:
        with bench.early(end_wait_s=0.01) as early:
            offer(early, bench)
            gate.await_reached()
        (thread,) = [one for one in threading.enumerate() if one.name == "euterpe-early-upload"]
        gate.open()
        thread.join(TIMEOUT_S)
    assert bench.store.unfinished == set(), "the thread removes the parts later"


def test_a_file_that_is_being_sent_is_not_waited_for_after_a_stop(bench: UploadBench) -> None:
    with bench.store.holding("PUT", "partNumber=1") as gate, bench.early() as early:
        offer(early, bench)
        gate.await_reached()
        early.stop()
        assert early.take("film.mp4") is None
        gate.open()
    assert bench.store.unfinished == set()


def test_a_refused_abort_is_logged(job: LeasedJob, tmp_path: Path) -> None:
    store = ConditionalStore()

    def answer(call: Call) -> Reply:
        return Reply(403) if call.method == "DELETE" else store(call)

    with (
        upload_bench(job, tmp_path, store=store, answer=answer, least_early_bytes=1000) as bench,
        capture_logs() as logs,
        bench.early() as early,
    ):
        offer(early, bench)
        assert early.take("film.mp4") is not None
    left = [log for log in logs if log["event"] == "upload_left"]
    assert [(log["where"], log["code"]) for log in left] == [("s3://out/job/film.mp4", "output_forbidden")]


def test_the_log_lines_of_its_threads_have_the_fields_of_the_attempt(job: LeasedJob, tmp_path: Path) -> None:
    store = ConditionalStore()

    def answer(call: Call) -> Reply:
        return Reply(403) if call.method == "DELETE" else store(call)

    with (
        upload_bench(job, tmp_path, store=store, answer=answer, least_early_bytes=1000) as bench,
        capture_logs([merge_contextvars]) as logs,
        bound_contextvars(job_id="j1"),
        bench.early() as early,
    ):
        offer(early, bench)
        assert early.take("film.mp4") is not None
    assert [(log["event"], log.get("job_id")) for log in logs] == [
        ("sent_early", "j1"),
        ("upload_left", "j1"),
    ]
