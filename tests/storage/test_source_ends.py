"""Tests of reading the beginning and the end of a source into a sparse file."""

import os
from collections.abc import Callable
from tempfile import TemporaryFile

import pytest

from euterpe.storage.errors import StorageError
from euterpe.storage.source import SourceObject
from euterpe.storage.source_ends import EndBytes
from euterpe.storage.storage import Storage
from tests.storage.conftest import Serve, keys_to
from tests.storage.fake_stores import Answer, Call, MemoryStore, Reply
from tests.storage.storage_calls import NO_LIMIT, Fenced, source

CONTENT = bytes(range(256)) * 40  # 10,240 bytes
ENDS = EndBytes(front=1000, back=500)
Open = Callable[[Answer], SourceObject]


def nothing() -> None:
    """Do nothing, so that the transfer continues."""


@pytest.fixture
def opened(serve: Serve, open_storage: Callable[..., Storage]) -> Open:
    """Return a function that opens `s3://in/a.mov` in a store with the given replies."""

    def open_it(answer: Answer) -> SourceObject:
        server = serve(answer)
        return source(open_storage(server), "s3://in/a.mov", keys_to(server))

    return open_it


def store() -> MemoryStore:
    return MemoryStore(**{"in/a.mov": CONTENT})


def read(
    origin: SourceObject, max_bytes: int = NO_LIMIT, on_wait: Callable[[], None] = nothing
) -> tuple[bool, bytes]:
    with TemporaryFile() as file:
        is_whole = origin.read_ends(file.fileno(), max_bytes=max_bytes, on_wait=on_wait, ends=ENDS)
        return is_whole, os.pread(file.fileno(), len(CONTENT) + 1, 0)


def refused(origin: SourceObject, max_bytes: int = NO_LIMIT) -> str:
    with pytest.raises(StorageError) as refusal:
        read(origin, max_bytes)
    assert refusal.value.side == "source"
    return refusal.value.code


def test_a_large_source_has_a_hole_between_its_ends(opened: Open) -> None:
    is_whole, content = read(opened(store()))
    assert not is_whole
    assert content == CONTENT[:1000] + bytes(len(CONTENT) - 1500) + CONTENT[-500:]


def test_a_small_source_is_read_as_a_whole(opened: Open) -> None:
    small = MemoryStore(**{"in/a.mov": CONTENT[:1500]})
    assert read(opened(small)) == (True, CONTENT[:1500])


def test_a_server_without_ranges_is_refused_for_a_large_source(opened: Open) -> None:
    without = store()
    without.ranges = False
    assert refused(opened(without)) == "source_unsupported"


def test_a_source_above_the_limit_is_refused_before_it_is_read(opened: Open) -> None:
    calls: list[Call] = []

    def answer(call: Call) -> Reply:
        calls.append(call)
        return content(call)

    content = store()
    assert refused(opened(answer), max_bytes=len(CONTENT) - 1) == "source_too_large"
    assert [call.method for call in calls] == ["HEAD"]


def test_an_empty_source_is_refused(opened: Open) -> None:
    assert refused(opened(MemoryStore(**{"in/a.mov": b""}))) == "source_empty"


def test_a_source_that_changes_between_its_ends_is_refused(opened: Open) -> None:
    changing = store()
    gets = 0

    def answer(call: Call) -> Reply:
        nonlocal gets
        gets += call.method == "GET"
        if gets == 2:
            changing.objects["/in/a.mov"] = bytes(len(CONTENT))
        return changing(call)

    assert refused(opened(answer)) == "source_changed"


def test_a_broken_connection_is_resumed_where_it_broke(opened: Open) -> None:
    whole, offsets = store(), list[str]()

    def answer(call: Call) -> Reply:
        reply = whole(call)
        if call.method != "GET":
            return reply
        offsets.append(call.headers.get("range", ""))
        return Reply(reply.status, reply.headers, reply.body, sent=600) if len(offsets) == 1 else reply

    assert read(opened(answer))[1][:1000] == CONTENT[:1000]
    assert offsets[1].startswith("bytes=600-")


def test_the_caller_can_stop_the_transfer(opened: Open) -> None:
    def stop() -> None:
        raise Fenced

    with pytest.raises(Fenced):
        read(opened(store()), on_wait=stop)
