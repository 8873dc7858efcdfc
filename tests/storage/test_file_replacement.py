"""Tests of `file://`: a worker that is stopped between its fence check and its rename replaces nothing."""

import errno
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from euterpe.domain.error_codes import RetryClass
from euterpe.domain.spec import Output
from euterpe.storage.errors import StorageError
from euterpe.storage.publication import Owner
from euterpe.storage.storage import Storage
from euterpe.storage.transfer import UploadDestination
from tests.storage.storage_calls import Fenced, Upload


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (root := tmp_path / "root").mkdir()
    return root


@pytest.fixture
def to(open_storage: Callable[..., Storage], root: Path) -> Callable[..., UploadDestination]:
    storage = open_storage(roots=(root,))

    def open_it(job_id: str = "job", claim: int = 1, **clock: float) -> UploadDestination:
        now = (lambda: clock["now"]) if clock else (lambda: 0.0)
        return storage.destination(
            Output(url=f"file://{root}/out/"), None, Owner(job_id, claim, now, began=0.0)
        )

    return open_it


def made(folder: Path, content: bytes) -> Path:
    file = folder / f"{content.decode()}.mp4"
    file.write_bytes(content)
    return file


def put(
    to: UploadDestination,
    file: Path,
    before_publish: Callable[[], None] = lambda: None,
    name: str = "a.mp4",
) -> None:
    to.put(name, file, content_type="video/mp4", before_publish=before_publish, on_chunk=lambda _: None)


@pytest.mark.parametrize("before", [None, b"before"], ids=["new", "replaced"])
def test_a_later_claim_disarms_the_rename_of_an_earlier_one(
    to: Callable[..., UploadDestination], root: Path, tmp_path: Path, before: bytes | None
) -> None:
    if before:
        put(to("job-of-before"), made(tmp_path, before))
    checks: list[str] = []

    def publish_as_a_later_claim() -> None:
        if checks:
            raise Fenced
        checks.append("passed")
        assert len(list((root / "out").glob(".euterpe-job-1-*.part"))) == 1
        put(to(claim=2), made(tmp_path, b"new"))
        assert list((root / "out").glob(".euterpe-job-1-*.part")) == [], "no file is left to rename"

    with pytest.raises(Fenced):
        put(to(claim=1), made(tmp_path, b"old"), publish_as_a_later_claim)
    assert (root / "out" / "a.mp4").read_bytes() == b"new"
    assert [path.name for path in (root / "out").iterdir()] == ["a.mp4"]


def test_of_two_jobs_that_find_no_file_only_one_publishes(
    to: Callable[..., UploadDestination], root: Path, tmp_path: Path
) -> None:
    other = made(tmp_path, b"theirs")
    with pytest.raises(StorageError) as refused:
        put(to("ours", now=100.0), made(tmp_path, b"ours"), lambda: put(to("theirs"), other))
    assert (refused.value.code, refused.value.retry_class) == ("output_conflict", RetryClass.PERMANENT)
    assert (root / "out" / "a.mp4").read_bytes() == b"theirs"


def test_two_jobs_that_make_the_same_bytes_are_no_conflict(
    to: Callable[..., UploadDestination], root: Path, tmp_path: Path
) -> None:
    file, other_jobs = made(tmp_path, b"same"), iter(["theirs"])

    def publish_as_another_job() -> None:
        for job_id in other_jobs:
            put(to(job_id), file)

    put(to("ours", now=100.0), file, publish_as_another_job)
    assert (root / "out" / "a.mp4").read_bytes() == b"same"


def test_a_file_that_was_replaced_before_the_end_is_reported(
    to: Callable[..., UploadDestination], root: Path, tmp_path: Path
) -> None:
    ours = to("ours")
    stored = Upload().put(ours, "a.mp4", made(tmp_path, b"ours"))
    ours.check("a.mp4", stored)
    (root / "out" / "a.mp4").write_bytes(b"other")
    with pytest.raises(StorageError, match="was replaced") as refused:
        ours.check("a.mp4", stored)
    assert refused.value.code == "output_changed"
    put(to("theirs"), made(tmp_path, b"theirs"))
    with pytest.raises(StorageError) as refused:
        ours.check("a.mp4", stored)
    assert refused.value.code == "output_conflict"


def test_files_of_one_attempt_without_tmpfile_do_not_remove_each_other(
    to: Callable[..., UploadDestination], root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On NFS, a part file gets its name before its lock.

    Until its writer has locked the file, the file looks as if this writer had ended.
    """
    really_open, created, go_on = os.open, threading.Event(), threading.Event()

    def open_without_tmpfile(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        descriptor = really_open(path, flags, mode, dir_fd=dir_fd)
        if flags & os.O_EXCL and threading.current_thread() is not threading.main_thread():
            created.set()
            assert go_on.wait(30)
        return descriptor

    monkeypatch.setattr(os, "open", open_without_tmpfile)
    attempt = to()
    with ThreadPoolExecutor() as pool:
        other = pool.submit(put, attempt, made(tmp_path, b"other"), name="b.mp4")
        assert created.wait(30)
        put(attempt, made(tmp_path, b"first"))
        go_on.set()
        other.result()
    assert (root / "out" / "b.mp4").read_bytes() == b"other"
    assert sorted(path.name for path in (root / "out").iterdir()) == ["a.mp4", "b.mp4"]


def test_no_file_of_a_claim_is_published_before_the_parts_of_earlier_claims_are_removed(
    to: Callable[..., UploadDestination], root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread of the attempt may still be removing these parts."""
    really_list, listing, checked = os.listdir, threading.Event(), threading.Event()
    was_early: list[bool] = []

    def list_slowly(folder: int) -> list[str]:
        listing.set()
        was_early.append(checked.wait(0.5))
        return really_list(folder)

    monkeypatch.setattr(os, "listdir", list_slowly)
    attempt = to(claim=2)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(put, attempt, made(tmp_path, b"first"))
        assert listing.wait(30)
        put(attempt, made(tmp_path, b"other"), checked.set, name="b.mp4")
        first.result()
    assert was_early == [False]
    assert sorted(path.name for path in (root / "out").iterdir()) == ["a.mp4", "b.mp4"]
