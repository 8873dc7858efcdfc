"""Tests of the source of an attempt.

The attempt reserves disk space, and fetches the source or uses a kept source.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from euterpe.domain.source import Source
from euterpe.domain.spec import JobSpec, parse_spec
from euterpe.net.limits import OnWait
from euterpe.storage.source import SourceObject
from euterpe.storage.storage import Storage
from euterpe.storage.transfer import Body, ObjectInfo
from euterpe.worker.credentials import CredentialAccess
from euterpe.worker.disk import DiskLedger, DiskReservation
from euterpe.worker.kept_sources import KeptSources
from euterpe.worker.source_fetcher import SourceFetcher
from tests.storage.storage_calls import NO_LIMIT, Fenced
from tests.store.jobs import SPEC

MIB = 1 << 20
CONTENT = bytes(2 * MIB)


class SmallDisk:
    """A simulated disk of 4 MiB. The ledger keeps 1 MiB of the disk free."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def free_bytes(self) -> int:
        return 4 * MIB - sum(path.stat().st_size for path in self.path.rglob("*") if path.is_file())


class FakeStorage:
    """A storage with one source. The storage counts the requests for the bytes of this source."""

    def __init__(self) -> None:
        self.reads, self.opened = 0, list[Source]()
        self.where, self.etag = "fake://source", '"one"'

    def source(self, source: Source, _: object) -> SourceObject:
        self.opened.append(source)
        return SourceObject(self)

    def stat(self) -> ObjectInfo:
        return ObjectInfo(len(CONTENT), self.etag)

    @contextmanager
    def open(self, offset: int, on_wait: OnWait) -> Iterator[Body]:
        del on_wait
        self.reads += 1
        yield Body(self.stat(), offset, iter([CONTENT[:MIB], CONTENT[MIB:]]))


class FakeAccess:
    """Access to the credentials of one job. With `refreshes`, each call gets new credentials."""

    def __init__(self, *, refreshes: bool = False) -> None:
        self._refreshes = refreshes
        self._spec = parse_spec(SPEC)

    def on(self, _: str, work: Callable[[JobSpec, None], Any]) -> Any:
        self._spec = parse_spec(SPEC) if self._refreshes else self._spec
        return work(self._spec, None)


ACCESS = cast(CredentialAccess, FakeAccess())


@pytest.fixture
def disk(tmp_path: Path) -> SmallDisk:
    return SmallDisk(tmp_path)


@pytest.fixture
def kept(disk: SmallDisk) -> KeptSources:
    return KeptSources(disk, largest_share=1.0)


@pytest.fixture
def ledger(disk: SmallDisk, kept: KeptSources) -> DiskLedger:
    return DiskLedger(disk.free_bytes, slots=1, min_free_bytes=0, kept=kept)


@pytest.fixture
def storage() -> FakeStorage:
    return FakeStorage()


Attempt = Callable[..., tuple[SourceFetcher, DiskReservation]]


@pytest.fixture
def begin(tmp_path: Path, storage: FakeStorage, kept: KeptSources, ledger: DiskLedger) -> Attempt:
    """Return a function that begins an attempt. All of these attempts belong to one job."""

    def begin_attempt(on_received: Callable[[int], None] = lambda _: None) -> tuple[Any, DiskReservation]:
        room = ledger.open()

        def hold(size: int, received: int, _: int | None) -> None:
            room.hold(received)
            on_received(size)

        fetcher = SourceFetcher(
            tmp_path / "source",
            cast(Storage, storage),
            kept,
            room,
            job_id="job",
            max_source_bytes=NO_LIMIT,
            on_received=hold,
        )
        return fetcher, room

    return begin_attempt


def test_a_second_attempt_takes_the_source_of_the_first(
    begin: Attempt, storage: FakeStorage, kept: KeptSources, tmp_path: Path
) -> None:
    first, room = begin()
    assert first.fetch(ACCESS) == len(CONTENT)
    first.keep()
    room.close()
    assert (kept.size_bytes, (tmp_path / "source").exists()) == (len(CONTENT), False)
    second, room = begin()
    assert second.fetch(ACCESS) == len(CONTENT), "the disk has room for one copy only"
    assert (tmp_path / "source").read_bytes() == CONTENT
    assert (storage.reads, kept.size_bytes, room.used) == (1, 0, len(CONTENT))
    second.keep()
    assert "job" in kept, "for a third attempt"


def test_a_replaced_source_is_fetched_in_place_of_the_kept_one(
    begin: Attempt, storage: FakeStorage, kept: KeptSources
) -> None:
    first, room = begin()
    first.fetch(ACCESS)
    first.keep()
    room.close()
    storage.etag = '"two"'
    second, _ = begin()
    assert second.fetch(ACCESS) == len(CONTENT)
    assert (storage.reads, kept.size_bytes) == (2, 0)


def test_a_source_that_is_not_whole_is_not_kept(begin: Attempt, kept: KeptSources) -> None:
    def stop(size: int) -> None:
        if size:
            raise Fenced

    fetcher, _ = begin(stop)
    with pytest.raises(Fenced):
        fetcher.fetch(ACCESS)
    fetcher.keep()
    assert kept.size_bytes == 0


def test_other_credentials_open_the_source_again(begin: Attempt, storage: FakeStorage) -> None:
    fetcher, _ = begin()
    fetcher.fetch(cast(CredentialAccess, FakeAccess(refreshes=True)))
    assert len(storage.opened) == 2
