"""Tests that each fault of a source has its error code, over S3 and over signed URLs."""

import os
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from euterpe.domain.error_codes import RetryClass
from euterpe.storage.errors import StorageError
from euterpe.storage.source import SourceObject
from euterpe.storage.source_file import SourceFile
from euterpe.storage.storage import Storage
from euterpe.storage.transfer import DEFAULT_RETRY, ObjectInfo
from tests.storage.conftest import Serve, keys_to
from tests.storage.fake_stores import Answer, Call, MemoryStore, Reply, etag_of
from tests.storage.storage_calls import NO_LIMIT, Download, Fenced, source

Open = Callable[[Answer], SourceObject]


@pytest.fixture(params=["s3", "https"])
def opened(
    request: pytest.FixtureRequest, serve: Serve, serve_tls: Serve, open_storage: Callable[..., Storage]
) -> Open:
    """Return a function that opens `/in/a.mov` in a store with the given replies, by S3 or a signed URL."""

    def open_it(answer: Answer) -> SourceObject:
        if request.param == "https":
            server = serve_tls(answer)
            url = f"https://localhost:{server.port}/in/a.mov?signature=s3cret"
            return source(open_storage(server), url)
        server = serve(answer)
        return source(open_storage(server), "s3://in/a.mov", keys_to(server))

    return open_it


def store_with(content: bytes) -> MemoryStore:
    return MemoryStore(**{"in/a.mov": content})


def refused(download: Download, origin: SourceObject, **options: object) -> StorageError:
    with pytest.raises(StorageError) as refusal:
        download.fetch(origin, **options)  # type: ignore[arg-type]
    assert "s3cret" not in str(refusal.value)
    return refusal.value


def test_a_stat_returns_size_and_etag(opened: Open) -> None:
    assert opened(store_with(b"media")).stat() == ObjectInfo(5, etag_of(b"media"))


def test_an_empty_source_is_refused(opened: Open) -> None:
    origin = opened(store_with(b""))
    assert origin.stat().size == 0
    assert refused(Download(), origin).code == "source_empty"


def test_a_source_that_is_too_large_is_refused_before_it_is_fetched(opened: Open) -> None:
    download = Download()
    error = refused(download, opened(store_with(b"x" * 101)), max_bytes=100)
    assert (error.code, error.retry_class) == ("source_too_large", RetryClass.PERMANENT)
    assert download.chunks == []


def test_a_source_of_just_the_limit_is_fetched(opened: Open) -> None:
    assert Download().fetch(opened(store_with(b"x" * 100)), max_bytes=100) == b"x" * 100


def test_a_source_whose_connections_break_is_fetched_in_pieces(opened: Open) -> None:
    content = os.urandom(500_000)
    store = store_with(content)

    def cut(call: Call) -> Reply:
        reply = store(call)
        return replace(reply, sent=100_000) if len(reply.body) > 100_000 else reply

    assert Download().fetch(opened(cut)) == content


def test_a_source_that_always_ends_early_is_truncated(opened: Open) -> None:
    store = store_with(b"x" * 200_000)
    store.ranges = False

    def cut(call: Call) -> Reply:
        return replace(store(call), sent=150_000)

    info = ObjectInfo(200_000, None)
    download = Download()
    error = refused(download, opened(cut), expect=info)
    assert (error.code, error.retry_class) == ("source_truncated", RetryClass.TRANSIENT)
    assert f"broke off after {len(download.content)} of 200000 bytes" in str(error)
    assert 0 < len(download.content) <= 150_000


def test_between_two_tries_a_fetch_can_be_stopped(opened: Open) -> None:
    calls = []

    def refuse(call: Call) -> Reply:
        calls.append(call)
        return Reply(503)

    def stop(_: int) -> None:
        raise Fenced

    with pytest.raises(Fenced):
        Download().fetch(opened(refuse), expect=ObjectInfo(5, None), on_chunk=stop)
    assert len(calls) == 1


def test_a_store_that_sends_one_byte_per_try_is_given_up(opened: Open) -> None:
    store = store_with(b"x" * 1000)
    calls = []

    def drop(call: Call) -> Reply:
        calls.append(call)
        return replace(store(call), sent=1)

    expect = ObjectInfo(1000, etag_of(b"x" * 1000))
    assert refused(Download(), opened(drop), expect=expect).code == "source_truncated"
    assert len(calls) == DEFAULT_RETRY.tries


def test_a_source_without_an_etag_is_not_resumed(opened: Open) -> None:
    """In an earlier version, the resumed fetch could continue with another object of the same size.

    A job with the mixed bytes then succeeded.
    """
    stores = iter((store_with(b"x" * 1000), store_with(b"y" * 1000)))

    def drop(call: Call) -> Reply:
        reply = next(stores)(call)
        return replace(reply, sent=500, headers={**reply.headers, "etag": ""})

    error = refused(Download(), opened(drop), expect=ObjectInfo(1000, None))
    assert (error.code, error.retry_class) == ("source_truncated", RetryClass.TRANSIENT)
    assert next(stores, None) is not None, "there was only one request"


@pytest.mark.parametrize("now", [b"media!", b"mediums"])
def test_a_source_that_is_another_one_now_has_changed(opened: Open, now: bytes) -> None:
    store = store_with(b"medium")
    origin = opened(store)
    info = origin.stat()
    store.objects["/in/a.mov"] = now
    error = refused(Download(), origin, expect=info)
    assert (error.code, error.retry_class) == ("source_changed", RetryClass.PERMANENT)


def test_a_source_that_changes_while_it_is_resumed_has_changed(opened: Open) -> None:
    before, after = os.urandom(300_000), os.urandom(300_000)
    store = store_with(before)

    def change(call: Call) -> Reply:
        reply = store(call)
        if call.method == "GET" and len(reply.body) > 1:
            store.objects["/in/a.mov"] = after
            return replace(reply, sent=100_000)
        return reply

    download = Download()
    assert refused(download, opened(change)).code == "source_changed"
    assert before.startswith(download.content)
    assert 0 < len(download.content) <= 100_000


def test_a_source_that_has_shrunk_below_what_is_there_has_changed(opened: Open) -> None:
    store = store_with(b"short")
    assert refused(Download(b"longer"), opened(store), expect=ObjectInfo(10, None)).code == "source_changed"


def test_nothing_beyond_the_content_length_is_read(opened: Open) -> None:
    store = store_with(b"x" * 1000 + b"surplus")

    def send_surplus(call: Call) -> Reply:
        reply = store(call)
        headers = {**reply.headers, "content-length": "1000", "content-range": ""}
        return Reply(200, headers, reply.body)

    assert Download().fetch(opened(send_surplus), expect=ObjectInfo(1000, None)) == b"x" * 1000


def test_what_is_fetched_already_is_not_requested_again(opened: Open) -> None:
    calls = []
    store = store_with(b"media")

    def record(call: Call) -> Reply:
        calls.append(call)
        return store(call)

    origin, download = opened(record), Download()
    info = origin.stat()
    download.fetch(origin, expect=info)
    call_count = len(calls)
    assert download.fetch(origin, expect=info) == b"media"
    assert len(calls) == call_count


def test_a_store_that_was_unavailable_for_a_moment_is_retried(opened: Open) -> None:
    store, calls = store_with(b"media"), count()

    def answer_every_third(call: Call) -> Reply:
        return store(call) if next(calls) % 3 == 2 else Reply(503)

    assert Download().fetch(opened(answer_every_third)) == b"media"


@pytest.mark.parametrize(
    ("status", "code", "retry_class"),
    [
        (401, "source_forbidden", RetryClass.CREDENTIALS),
        (403, "source_forbidden", RetryClass.CREDENTIALS),
        (404, "source_not_found", RetryClass.PERMANENT),
        (429, "storage_throttled", RetryClass.THROTTLED),
        (500, "source_unreachable", RetryClass.TRANSIENT),
        (504, "source_unreachable", RetryClass.TRANSIENT),
    ],
)
def test_what_a_store_answers_decides_what_comes_next(
    opened: Open, status: int, code: str, retry_class: RetryClass
) -> None:
    origin = opened(lambda _: Reply(status, body=b"<Error><Code>ItsWord</Code></Error>"))
    error = refused(Download(), origin, expect=ObjectInfo(5, None))
    assert (error.code, error.retry_class) == (code, retry_class)
    assert f"answered {status}" in str(error)


def test_a_disk_that_is_full_ends_the_fetch(opened: Open) -> None:
    origin = opened(store_with(b"media"))
    with Path("/dev/full").open("wb", buffering=0) as full:
        file = SourceFile(full.fileno(), ObjectInfo(5, None))
        with pytest.raises(StorageError) as failed:
            origin.fetch(file, max_bytes=NO_LIMIT, on_chunk=lambda _: None)
    assert (failed.value.code, failed.value.retry_class) == ("disk_full", RetryClass.TRANSIENT)


def test_a_stopped_fetch_leaves_no_connection_open(
    serve: Serve, open_storage: Callable[..., Storage]
) -> None:
    server = serve(MemoryStore(**{"in/a.mov": bytes(64 << 20)}))
    origin = source(open_storage(server), "s3://in/a.mov", keys_to(server))

    def on_chunk(_: int) -> None:
        raise Fenced

    with pytest.raises(Fenced):
        Download().fetch(origin, expect=ObjectInfo(64 << 20, None), on_chunk=on_chunk)
    assert server.hung_up.acquire(timeout=30)
