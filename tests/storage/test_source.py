"""What may be wrong with a source, however it is reached: each case with its code."""

import io
import os
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from euterpe.domain.retry import RetryClass
from euterpe.storage import transfer
from euterpe.storage.errors import StorageError
from euterpe.storage.source import SourceObject
from euterpe.storage.storage import Storage
from euterpe.storage.transfer import ObjectInfo
from tests.storage.conftest import Serve, keys_to
from tests.storage.fake_stores import Answer, Call, Reply, Shelf, etag_of
from tests.storage.storage_calls import PLENTY, Download, Fenced, source

Open = Callable[[Answer], SourceObject]


@pytest.fixture(params=["s3", "https"])
def opened(
    request: pytest.FixtureRequest, serve: Serve, serve_tls: Serve, open_storage: Callable[..., Storage]
) -> Open:
    """The object `/in/a.mov` of a store that answers like this, as S3 and as a signed URL."""

    def open_it(answer: Answer) -> SourceObject:
        if request.param == "https":
            server = serve_tls(answer)
            url = f"https://localhost:{server.port}/in/a.mov?signature=s3cret"
            return source(open_storage(server), url)
        server = serve(answer)
        return source(open_storage(server), "s3://in/a.mov", keys_to(server))

    return open_it


def shelf(content: bytes) -> Shelf:
    return Shelf(**{"in/a.mov": content})


def refused(download: Download, origin: SourceObject, **how: object) -> StorageError:
    with pytest.raises(StorageError) as refusal:
        download.fetch(origin, **how)  # type: ignore[arg-type]
    assert "s3cret" not in str(refusal.value)
    return refusal.value


def test_a_store_says_what_it_knows(opened: Open) -> None:
    assert opened(shelf(b"media")).stat() == ObjectInfo(5, etag_of(b"media"))


def test_an_empty_source_is_refused(opened: Open) -> None:
    origin = opened(shelf(b""))
    assert origin.stat().size == 0
    assert refused(Download(), origin).code == "source_empty"


def test_a_source_that_is_too_large_is_refused_before_it_is_fetched(opened: Open) -> None:
    download = Download()
    error = refused(download, opened(shelf(b"x" * 101)), max_bytes=100)
    assert (error.code, error.retry_class) == ("source_too_large", RetryClass.PERMANENT)
    assert download.chunks == []


def test_a_source_of_just_the_limit_is_fetched(opened: Open) -> None:
    assert Download().fetch(opened(shelf(b"x" * 100)), max_bytes=100) == b"x" * 100


def test_a_source_that_is_cut_is_fetched_in_pieces(opened: Open) -> None:
    content = os.urandom(500_000)
    whole = shelf(content)

    def cut(call: Call) -> Reply:
        reply = whole(call)
        return replace(reply, sent=100_000) if len(reply.body) > 100_000 else reply

    assert Download().fetch(opened(cut)) == content


def test_a_source_that_always_ends_early_is_truncated(opened: Open) -> None:
    whole = shelf(b"x" * 200_000)
    whole.ranges = False

    def cut(call: Call) -> Reply:
        return replace(whole(call), sent=150_000)

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
        opened(refuse).fetch(io.BytesIO(), expect=ObjectInfo(5, None), max_bytes=PLENTY, on_chunk=stop)
    assert len(calls) == 1


def test_a_store_that_gives_a_few_bytes_at_a_time_gets_nowhere(opened: Open) -> None:
    whole = shelf(b"x" * 1000)
    calls = []

    def drop(call: Call) -> Reply:
        calls.append(call)
        return replace(whole(call), sent=1)

    assert refused(Download(), opened(drop), expect=ObjectInfo(1000, None)).code == "source_truncated"
    assert len(calls) == transfer.TRIES


@pytest.mark.parametrize("now", [b"media!", b"mediums"])
def test_a_source_that_is_another_one_now_has_changed(opened: Open, now: bytes) -> None:
    store = shelf(b"medium")
    origin = opened(store)
    info = origin.stat()
    store.objects["/in/a.mov"] = now
    error = refused(Download(), origin, expect=info)
    assert (error.code, error.retry_class) == ("source_changed", RetryClass.PERMANENT)


def test_a_source_that_changes_while_it_is_resumed_has_changed(opened: Open) -> None:
    before, after = os.urandom(300_000), os.urandom(300_000)
    store = shelf(before)

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
    store = shelf(b"short")
    download = Download(io.BytesIO(), [])
    download.file.write(b"longer")
    assert refused(download, opened(store), expect=ObjectInfo(10, None)).code == "source_changed"


def test_of_more_than_the_content_length_nothing_is_read(opened: Open) -> None:
    store = shelf(b"x" * 1000 + b"surplus")

    def lying(call: Call) -> Reply:
        reply = store(call)
        headers = {**reply.headers, "content-length": "1000", "content-range": ""}
        return Reply(200, headers, reply.body)

    assert Download().fetch(opened(lying), expect=ObjectInfo(1000, None)) == b"x" * 1000


def test_what_is_fetched_already_is_not_asked_for_again(opened: Open) -> None:
    calls = []
    store = shelf(b"media")

    def listening(call: Call) -> Reply:
        calls.append(call)
        return store(call)

    origin, download = opened(listening), Download()
    info = origin.stat()
    download.fetch(origin, expect=info)
    asked = len(calls)
    assert download.fetch(origin, expect=info) == b"media"
    assert len(calls) == asked


def test_a_store_that_was_away_for_a_moment_is_asked_again(opened: Open) -> None:
    store, calls = shelf(b"media"), count()

    def waking(call: Call) -> Reply:
        return store(call) if next(calls) % 3 == 2 else Reply(503)

    assert Download().fetch(opened(waking)) == b"media"


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
    with Path("/dev/full").open("wb", buffering=0) as full, pytest.raises(StorageError) as failed:
        opened(shelf(b"media")).fetch(
            full, expect=ObjectInfo(5, None), max_bytes=PLENTY, on_chunk=lambda _: None
        )
    assert (failed.value.code, failed.value.retry_class) == ("disk_full", RetryClass.TRANSIENT)


def test_who_stops_a_fetch_leaves_no_connection_behind(
    serve: Serve, open_storage: Callable[..., Storage]
) -> None:
    server = serve(Shelf(**{"in/a.mov": bytes(64 << 20)}))
    origin = source(open_storage(server), "s3://in/a.mov", keys_to(server))

    def on_chunk(_: int) -> None:
        raise Fenced

    with pytest.raises(Fenced):
        origin.fetch(io.BytesIO(), expect=ObjectInfo(64 << 20, None), max_bytes=PLENTY, on_chunk=on_chunk)
    assert server.hung_up.acquire(timeout=30)
