"""Tests that transfers resume after faults between a client and a real S3 server."""

import os
import socket
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from euterpe.domain.error_codes import RetryClass
from euterpe.storage.errors import StorageError
from euterpe.storage.storage import Storage
from euterpe.storage.transfer import ObjectInfo
from tests.net.servers import Server, silent
from tests.s3 import S3Server
from tests.storage.conftest import Serve, keys_to
from tests.storage.fake_stores import Call, Reply, calls, fail_every, forward_to
from tests.storage.storage_calls import Download, Fenced, Upload, destination, source

MIB = 1024 * 1024


def test_a_store_that_fails_every_third_call_is_good_enough(
    open_storage: Callable[..., Storage], serve: Serve, s3: S3Server, bucket: Path, large: Path
) -> None:
    proxy = serve(fail_every(3, forward_to(s3.endpoint), lambda _: Reply(503)))
    storage, keys = open_storage(proxy), keys_to(proxy)
    to = destination(storage, f"s3://{bucket.name}/", keys)
    for name in ("1.mp4", "2.mp4", "3.mp4"):
        assert Upload().put(to, name, large).size_bytes == large.stat().st_size
        assert Download().fetch(source(storage, f"s3://{bucket.name}/{name}", keys)) == large.read_bytes()


def test_a_store_that_breaks_off_every_other_answer_is_resumed(
    open_storage: Callable[..., Storage], serve: Serve, s3: S3Server, bucket: Path
) -> None:
    (bucket / "a.mov").write_bytes(content := os.urandom(5 * MIB))
    proxy = serve(fail_every(2, forward_to(s3.endpoint), lambda reply: replace(reply, sent=MIB)))
    origin = source(open_storage(proxy), f"s3://{bucket.name}/a.mov", keys_to(proxy))
    assert Download().fetch(origin) == content
    first, second = [call.headers.get("range", "") for call in calls(proxy) if call.method == "GET"]
    assert first == ""
    assert MIB // 2 < int(second.strip("bytes=-")) <= MIB


def test_new_keys_go_on_where_the_old_ones_were_refused(
    open_storage: Callable[..., Storage], serve: Serve, s3: S3Server, bucket: Path
) -> None:
    (bucket / "a.mov").write_bytes(content := os.urandom(3 * MIB))
    forward, gets = forward_to(s3.endpoint), count(1)

    def expire_second_get(call: Call) -> Reply:
        nth = next(gets) if call.method == "GET" else 0
        if nth == 2:
            return Reply(400, body=b"<Error><Code>ExpiredToken</Code></Error>")
        return replace(forward(call), sent=MIB if nth == 1 else None)

    proxy = serve(expire_second_get)
    storage, url, download = open_storage(proxy), f"s3://{bucket.name}/a.mov", Download()
    first = source(storage, url, keys_to(proxy))
    info = first.stat()
    with pytest.raises(StorageError) as refused:
        download.fetch(first, expect=info)
    assert (refused.value.code, refused.value.retry_class) == ("source_forbidden", RetryClass.CREDENTIALS)
    assert download.fetch(source(storage, url, keys_to(proxy)), expect=info) == content
    assert sum(download.chunks) == len(content)


def test_a_store_without_ranges_is_read_again_from_the_start(
    storage: Storage, s3: S3Server, bucket: Path
) -> None:
    (bucket / "a.mov").write_bytes(content := os.urandom(3 * MIB))
    assert (
        Download(content[:MIB]).fetch(source(storage, f"s3://{bucket.name}/a.mov", s3.credentials()))
        == content
    )


def test_a_completion_whose_answer_was_lost_is_not_a_missing_bucket(
    open_storage: Callable[..., Storage], serve: Serve, s3: S3Server, bucket: Path, large: Path
) -> None:
    forward, completions = forward_to(s3.endpoint), count(1)

    def lose_first_completion(call: Call) -> Reply:
        reply = forward(call)
        lost = call.method == "POST" and "uploadId" in call.query and next(completions) == 1
        return Reply(500) if lost else reply

    proxy = serve(lose_first_completion)
    upload = Upload()
    to = destination(open_storage(proxy), f"s3://{bucket.name}/", keys_to(proxy))
    assert upload.put(to, "mp4.mp4", large).size_bytes == sum(upload.chunks)
    assert (bucket / "mp4.mp4").read_bytes() == large.read_bytes()


def test_a_dripping_fetch_can_be_stopped_at_any_byte(open_storage: Callable[..., Storage]) -> None:
    def drip(server: Server, sock: socket.socket) -> None:
        server.read_request(sock)
        sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n")
        server.drip(sock, bytes(100))

    def stop(_: int) -> None:
        raise Fenced

    download = Download()
    with Server(drip) as dripping:
        origin = source(open_storage(dripping), "s3://in/a.mov", keys_to(dripping))
        with pytest.raises(Fenced):
            download.fetch(origin, expect=ObjectInfo(100, None), on_chunk=stop)
        assert dripping.hung_up.acquire(timeout=10)
    assert 0 < len(download.content) < 100


def test_an_upload_that_hangs_is_not_sent_again_for_ever(
    open_storage: Callable[..., Storage], small: Path
) -> None:
    with Server(silent) as hanging:
        to = destination(open_storage(hanging, idle_s=0.05), "s3://out/", keys_to(hanging))
        with pytest.raises(StorageError) as failed:
            Upload().put(to, "mp4.mp4", small)
    assert (failed.value.code, failed.value.retry_class) == ("output_unreachable", RetryClass.TRANSIENT)
    assert hanging.accepted <= 2 * 3  # two puts, each with at most three tries


def test_an_endpoint_without_a_listener_is_unreachable(open_storage: Callable[..., Storage]) -> None:
    with Server(lambda _, __: None) as closed:
        storage, keys = open_storage(closed), keys_to(closed)
    with pytest.raises(StorageError) as failed:
        source(storage, "s3://in/a.mov", keys).stat()
    assert (failed.value.code, failed.value.retry_class) == ("source_unreachable", RetryClass.TRANSIENT)
