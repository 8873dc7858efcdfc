"""Tests of bucket storage against a real S3 server that checks signatures."""

import os
from collections.abc import Callable
from hashlib import sha256
from itertools import count
from pathlib import Path
from urllib.parse import quote

import pytest

from euterpe.domain.error_codes import RetryClass
from euterpe.storage.buckets import PART, part_size
from euterpe.storage.errors import StorageError
from euterpe.storage.storage import Storage
from tests.s3 import S3Server
from tests.storage.conftest import Serve, keys_to
from tests.storage.fake_stores import Call, Reply, calls, forward_to
from tests.storage.storage_calls import Download, Fenced, Upload, destination, source

MIB = 1024 * 1024


def files_in(bucket: Path) -> list[str]:
    return sorted(str(path.relative_to(bucket)) for path in bucket.rglob("*") if path.is_file())


def test_an_object_is_fetched(storage: Storage, s3: S3Server, bucket: Path) -> None:
    (bucket / "a.mov").write_bytes(content := os.urandom(3 * MIB + 1))
    download = Download()
    assert download.fetch(source(storage, f"s3://{bucket.name}/a.mov", s3.credentials())) == content
    assert max(download.chunks) <= 2 * MIB


@pytest.mark.parametrize("key", ["a b+ü%20.mov", "x*^~|#[]{}!$&'(),;=@:.mov", 'deep/er/"q".mov'])
def test_any_key_is_found_by_its_escapes(
    storage: Storage, s3: S3Server, bucket: Path, small: Path, key: str
) -> None:
    (bucket / key).parent.mkdir(parents=True, exist_ok=True)
    (bucket / key).write_bytes(b"media")
    url = f"s3://{bucket.name}/{quote(key)}"
    assert Download().fetch(source(storage, url, s3.credentials())) == b"media"
    stored = Upload().put(destination(storage, f"{url}-out/", s3.credentials()), "hls/a.ts", small)
    assert stored.url == f"{url}-out/hls/a.ts"
    assert (bucket / f"{key}-out/hls/a.ts").read_bytes() == small.read_bytes()


def test_an_output_is_stored_with_its_type(storage: Storage, s3: S3Server, bucket: Path, small: Path) -> None:
    upload = Upload()
    to = destination(storage, f"s3://{bucket.name}/out/a/", s3.credentials())
    stored = upload.put(to, "mp4.mp4", small)
    assert (bucket / "out/a/mp4.mp4").read_bytes() == small.read_bytes()
    assert stored.url == f"s3://{bucket.name}/out/a/mp4.mp4"
    assert (stored.size_bytes, stored.sha256) == (100_000, sha256(small.read_bytes()).hexdigest())
    assert (upload.fence_checks, sum(upload.chunks)) == (1, 100_000)


def test_an_empty_output_is_stored(storage: Storage, s3: S3Server, bucket: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    to = destination(storage, f"s3://{bucket.name}/out/", s3.credentials())
    assert Upload().put(to, "a.vtt", tmp_path / "empty").size_bytes == 0
    assert files_in(bucket) == ["out/a.vtt"]


def test_the_fence_is_checked_when_all_parts_have_arrived(
    open_storage: Callable[..., Storage], serve: Serve, s3: S3Server, bucket: Path, large: Path
) -> None:
    proxy = serve(forward_to(s3.endpoint))
    seen: list[tuple[int, list[str]]] = []

    def record() -> None:
        parts = [call for call in calls(proxy) if "partNumber" in call.query]
        seen.append((sum(len(call.body) for call in parts), files_in(bucket)))

    to = destination(open_storage(proxy), f"s3://{bucket.name}/", keys_to(proxy))
    to.put("large.mp4", large, content_type="video/mp4", before_publish=record, on_chunk=lambda _: None)
    ((arrived, visible),) = seen
    assert arrived == large.stat().st_size
    assert "large.mp4" not in visible
    assert files_in(bucket) == ["large.mp4"]
    assert (bucket / "large.mp4").read_bytes() == large.read_bytes()
    assert {call.headers["content-type"] for call in calls(proxy) if call.query == "uploads="} == {
        "video/mp4"
    }


def test_a_stale_worker_leaves_nothing(
    storage: Storage, s3: S3Server, bucket: Path, small: Path, large: Path
) -> None:
    to = destination(storage, f"s3://{bucket.name}/", s3.credentials())
    for file in (small, large):
        with pytest.raises(Fenced):
            Upload().put(to, "mp4.mp4", file, stale=True)
        assert files_in(bucket) == []


def test_a_stale_worker_aborts_its_own_upload(
    open_storage: Callable[..., Storage], serve: Serve, s3: S3Server, bucket: Path, large: Path
) -> None:
    proxy = serve(forward_to(s3.endpoint))
    to = destination(open_storage(proxy), f"s3://{bucket.name}/", keys_to(proxy))
    with pytest.raises(Fenced):
        Upload().put(to, "mp4.mp4", large, stale=True)
    assert [call.method for call in calls(proxy)] == ["POST", "PUT", "PUT", "PUT", "HEAD", "DELETE"]


def test_an_upload_that_its_chunk_callback_stops_leaves_nothing(
    storage: Storage, s3: S3Server, bucket: Path, large: Path
) -> None:
    to = destination(storage, f"s3://{bucket.name}/", s3.credentials())
    with pytest.raises(Fenced):
        to.put("a", large, content_type="video/mp4", before_publish=stop, on_chunk=stop_after(2))
    assert files_in(bucket) == []


def test_a_download_that_its_chunk_callback_stops_keeps_what_was_written(
    storage: Storage, s3: S3Server, bucket: Path
) -> None:
    (bucket / "a.mov").write_bytes(content := os.urandom(3 * MIB))
    origin, download = source(storage, f"s3://{bucket.name}/a.mov", s3.credentials()), Download()
    with pytest.raises(Fenced):
        download.fetch(origin, on_chunk=stop_after(1))
    assert 0 < len(download.content) < len(content)
    assert content.startswith(download.content)


@pytest.mark.parametrize("wrong", [{"secret_access_key": "wrong"}, {"access_key_id": "AKIANOBODY"}])
def test_wrong_keys_are_forbidden_on_either_side(
    open_storage: Callable[..., Storage], s3: S3Server, bucket: Path, large: Path, wrong: dict[str, str]
) -> None:
    storage, small = open_storage(s3), bucket / "a.mov"
    (bucket / "a.mov").write_bytes(b"media")
    keys = s3.credentials(**wrong)
    with pytest.raises(StorageError) as refused:
        source(storage, f"s3://{bucket.name}/a.mov", keys).stat()
    assert (refused.value.code, refused.value.retry_class) == ("source_forbidden", RetryClass.CREDENTIALS)
    for file in (small, large):
        with pytest.raises(StorageError) as refused:
            Upload().put(destination(storage, f"s3://{bucket.name}/out/", keys), "mp4.mp4", file)
        assert (refused.value.code, refused.value.retry_class) == ("output_forbidden", RetryClass.CREDENTIALS)
    assert files_in(bucket) == ["a.mov"]


def test_a_missing_object_has_the_code_of_its_side(
    storage: Storage, s3: S3Server, bucket: Path, small: Path
) -> None:
    for url in (f"s3://{bucket.name}/a.mov", "s3://no-such-bucket/a.mov"):
        with pytest.raises(StorageError) as refused:
            source(storage, url, s3.credentials()).stat()
        assert refused.value.code == "source_not_found"
    with pytest.raises(StorageError) as refused:
        Upload().put(destination(storage, "s3://no-such-bucket/out/", s3.credentials()), "a.mp4", small)
    assert refused.value.code == "output_not_found"


def test_an_object_that_changed_after_its_stat_is_noticed(
    storage: Storage, s3: S3Server, bucket: Path
) -> None:
    (bucket / "a.mov").write_bytes(b"before")
    origin = source(storage, f"s3://{bucket.name}/a.mov", s3.credentials())
    info = origin.stat()
    (bucket / "a.mov").write_bytes(b"after!")
    with pytest.raises(StorageError) as refused:
        Download().fetch(origin, expect=info)
    assert refused.value.code == "source_changed"


def test_no_error_quotes_a_key_or_an_answer(
    open_storage: Callable[..., Storage], serve: Serve, large: Path
) -> None:
    def quote_signature(call: Call) -> Reply:
        signature = call.headers["authorization"]
        return Reply(403, body=f"<Error><Code>AccessDenied</Code>{signature}</Error>".encode())

    proxy = serve(quote_signature)
    storage, keys = open_storage(proxy), keys_to(proxy)
    with pytest.raises(StorageError) as refused:
        Upload().put(destination(storage, "s3://out/", keys), "mp4.mp4", large)
    error: BaseException | None = refused.value
    assert str(error).startswith("s3://out/mp4.mp4: answered 403 (AccessDenied): ")
    while error is not None:
        assert "AKIA" not in repr(error)
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize("size", [PART + 1, 3 * PART, 10**9 + 7, 50 << 30, 156 << 30, 157 << 30, 5 << 40])
def test_an_object_has_at_most_ten_thousand_parts_which_grow_above_156_gib(size: int) -> None:
    assert -(-size // part_size(size)) <= 10_000
    assert (part_size(size) == PART) == (size <= 156 << 30)


def stop() -> None:
    raise Fenced


def stop_after(chunks: int) -> Callable[[int], None]:
    left = count(chunks, -1)

    def on_chunk(_: int) -> None:
        if next(left) == 0:
            raise Fenced

    return on_chunk
