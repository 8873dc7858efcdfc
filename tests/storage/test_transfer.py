"""Tests of transfers: retries, progress, and the files that are sent."""

import os
from hashlib import sha256
from pathlib import Path

import pytest

from euterpe.domain.error_codes import ErrorCode
from euterpe.storage.errors import StorageError, StorageUnreachable
from euterpe.storage.transfer import CHUNK, Outgoing, Stored, TransferRetry


class Flaky:
    """A call that fails `failures` times. Before each failure, it transfers `bytes_each` bytes."""

    def __init__(self, failures: int, bytes_each: int = 0) -> None:
        self.failures_left, self.bytes_each = failures, bytes_each
        self.calls = self.received = 0

    def __call__(self) -> str:
        self.calls += 1
        if self.failures_left == 0:
            return "done"
        self.failures_left -= 1
        self.received += self.bytes_each
        raise StorageUnreachable("s3://in/a", "answered 503", side="source")


AT_ONCE = TransferRetry(first_pause_s=0.0)


def test_a_few_failures_are_survived() -> None:
    flaky = Flaky(AT_ONCE.tries - 1)
    assert AT_ONCE.run(flaky) == "done"


def test_after_too_many_failures_in_a_row_the_last_is_raised() -> None:
    flaky = Flaky(100)
    with pytest.raises(StorageUnreachable):
        AT_ONCE.run(flaky)
    assert flaky.calls == AT_ONCE.tries


def test_failures_that_make_progress_are_retried_without_limit() -> None:
    flaky = Flaky(100, bytes_each=64 * 1024)
    assert AT_ONCE.run(flaky, progress=lambda: flaky.received) == "done"


def test_a_few_bytes_are_no_progress() -> None:
    flaky = Flaky(100, bytes_each=10)
    with pytest.raises(StorageUnreachable):
        AT_ONCE.run(flaky, progress=lambda: flaky.received)
    assert flaky.calls == AT_ONCE.tries


def test_a_permanent_error_is_not_retried() -> None:
    calls = []

    def refuse() -> None:
        calls.append(1)
        raise StorageError(ErrorCode.SOURCE_NOT_FOUND, "gone", side="source")

    with pytest.raises(StorageError):
        AT_ONCE.run(refuse)
    assert calls == [1]


def test_a_file_on_its_way_out_is_hashed_and_counted_once(tmp_path: Path) -> None:
    content = b"a" * CHUNK + b"b" * CHUNK + b"c" * 10
    (tmp_path / "made").write_bytes(content)
    counted: list[int] = []
    outgoing = Outgoing(tmp_path / "made", counted.append)
    first_try = outgoing.chunks()
    next(first_try), next(first_try)
    assert b"".join(outgoing.chunks()) == content
    assert sum(counted) == outgoing.size == len(content)
    assert outgoing.stored("s3://out/made") == Stored(
        "s3://out/made", len(content), sha256(content).hexdigest()
    )


@pytest.mark.parametrize("name", ["link", "linked/made", "fifo", "folder"])
def test_only_a_regular_file_that_no_link_leads_to_is_sent(tmp_path: Path, name: str) -> None:
    """A compromised child can make a link in place of the file, and the link can point to a worker's file."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/made").write_text("secret")
    (tmp_path / "link").symlink_to("folder/made")
    (tmp_path / "linked").symlink_to("folder")
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(StorageError) as refused:
        Outgoing(tmp_path / name, lambda _: None)
    assert refused.value.code == "output_undecodable"


def test_a_file_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "made").write_text("made")
    outgoing = Outgoing(tmp_path / "made", lambda _: None)
    (tmp_path / "made").unlink()
    (tmp_path / "made").symlink_to("secret")
    with pytest.raises(StorageError):
        list(outgoing.chunks())
