"""Tests of files that are sent before they are published: invisible until then, and gone after an abort."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from euterpe.domain.spec import Output
from euterpe.storage.errors import StorageError
from euterpe.storage.publication import Owner
from euterpe.storage.storage import Storage
from euterpe.storage.transfer import Stored, UploadDestination
from tests.s3 import S3Server
from tests.storage.conditional_store import ConditionalStore
from tests.storage.conftest import PART, Serve
from tests.storage.fake_stores import Call, Reply, calls
from tests.storage.keys import AZ, GS, S3, credentials
from tests.storage.storage_calls import Fenced, destination

OWNER = Owner("job-ours", 2)
DOCUMENTS = {"s3": S3, "az": AZ}
LARGE = 1_200_000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (path := tmp_path / "film.mp4").write_bytes(b"f" * LARGE)
    return path


@pytest.fixture
def early(open_storage: Callable[..., Storage]) -> Callable[..., Storage]:
    """Return a function that opens storage. The storage sends files of at least 1000 bytes early."""
    return lambda *servers, **options: open_storage(*servers, least_early_bytes=1000, **options)


def put(to: UploadDestination, file: Path, sent: object, before_publish: Callable[[], None]) -> Stored:
    return to.put(
        "film.mp4",
        file,
        content_type="video/mp4",
        before_publish=before_publish,
        on_chunk=lambda _: None,
        sent=sent,  # type: ignore[arg-type]
    )


def send(to: UploadDestination, file: Path) -> object:
    return to.send("film.mp4", file, content_type="video/mp4", on_chunk=lambda _: None)


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_a_sent_file_is_published_under_the_fence_and_not_sent_again(
    serve: Serve, early: Callable[..., Storage], file: Path, kind: str
) -> None:
    store = ConditionalStore()
    server = serve(store)
    to = early(server).destination(Output(url=f"{kind}://out/"), credentials(DOCUMENTS[kind], server), OWNER)
    sent = send(to, file)
    assert sent is not None
    assert store.objects == {}, "nothing is visible before the fence"
    bodies = sum(len(call.body) for call in calls(server))
    visible: list[int] = []
    stored = put(to, file, sent, lambda: visible.append(len(store.objects)))
    assert visible == [0]
    assert store.objects["/out/film.mp4"].content == file.read_bytes()
    assert sum(len(call.body) for call in calls(server)) - bodies < 1000, "the bytes are sent once"
    to.check("film.mp4", stored)


def test_a_stale_worker_publishes_nothing_that_it_has_sent(
    serve: Serve, early: Callable[..., Storage], file: Path
) -> None:
    store = ConditionalStore()
    server = serve(store)
    to = early(server).destination(Output(url="s3://out/"), credentials(S3, server), OWNER)
    sent = to.send("film.mp4", file, content_type="video/mp4", on_chunk=lambda _: None)

    def is_stale() -> None:
        raise Fenced

    with pytest.raises(Fenced):
        put(to, file, sent, is_stale)
    assert store.objects == {}
    assert sent is not None
    sent.abort()
    assert store.unfinished == set()


@pytest.mark.parametrize("changed", [b"g" * LARGE, b"f" * (LARGE - 1)], ids=["bytes", "length"])
def test_a_file_that_changed_after_it_was_sent_is_sent_again(
    serve: Serve, early: Callable[..., Storage], file: Path, changed: bytes
) -> None:
    """The verified bytes must be published, even if the file changed after it was sent.

    A file changes when a segment is appended to it, or when another process writes to it.
    """
    store = ConditionalStore()
    server = serve(store)
    to = early(server).destination(Output(url="s3://out/"), credentials(S3, server), OWNER)
    sent = to.send("film.mp4", file, content_type="video/mp4", on_chunk=lambda _: None)
    file.write_bytes(changed)
    put(to, file, sent, lambda: None)
    assert store.objects["/out/film.mp4"].content == changed
    assert sent is not None
    sent.abort()
    assert store.unfinished == set()


def test_a_sent_file_is_published_with_newer_credentials(
    serve: Serve, early: Callable[..., Storage], file: Path
) -> None:
    store = ConditionalStore()
    server = serve(store)
    storage = early(server)
    sent = send(storage.destination(Output(url="s3://out/"), credentials(S3, server), OWNER), file)
    newer = credentials({**S3, "access_key_id": "AKIANEWER"}, server)
    put(storage.destination(Output(url="s3://out/"), newer, OWNER), file, sent, lambda: None)
    (completed,) = (call for call in calls(server) if call.method == "POST" and "uploadId" in call.query)
    assert "AKIANEWER" in completed.headers["authorization"]
    assert store.objects["/out/film.mp4"].content == file.read_bytes()


def test_a_file_whose_parts_the_store_has_lost_is_sent_again(
    serve: Serve, early: Callable[..., Storage], file: Path
) -> None:
    store = ConditionalStore()
    server = serve(store)
    to = early(server).destination(Output(url="s3://out/"), credentials(S3, server), OWNER)
    sent = send(to, file)
    store.unfinished.clear()  # a lifecycle rule of a bucket can remove parts, for example
    put(to, file, sent, lambda: None)
    assert store.objects["/out/film.mp4"].content == file.read_bytes()


def test_refused_credentials_at_the_publication_are_reported(
    serve: Serve, early: Callable[..., Storage], file: Path
) -> None:
    store = ConditionalStore()

    def answer(call: Call) -> Reply:
        is_end = call.method == "POST" and "uploadId" in call.query
        return Reply(403) if is_end else store(call)

    server = serve(answer)
    to = early(server).destination(Output(url="s3://out/"), credentials(S3, server), OWNER)
    with pytest.raises(StorageError) as refused:
        put(to, file, send(to, file), lambda: None)
    assert refused.value.code == "output_forbidden"


def test_a_send_that_is_stopped_leaves_no_parts(
    serve: Serve, early: Callable[..., Storage], file: Path
) -> None:
    store = ConditionalStore()
    server = serve(store)
    to = early(server).destination(Output(url="s3://out/"), credentials(S3, server), OWNER)
    stop = threading.Event()

    def on_chunk(_: int) -> None:
        if stop.is_set():
            raise Fenced
        if any("partNumber" in call.target for call in calls(server)):
            stop.set()

    with pytest.raises(Fenced):
        to.send("film.mp4", file, content_type="video/mp4", on_chunk=on_chunk)
    assert store.unfinished == set()
    assert store.objects == {}


def test_small_files_and_other_destinations_send_nothing_early(
    serve: Serve, open_storage: Callable[..., Storage], authority: object, file: Path, tmp_path: Path
) -> None:
    del authority
    store = ConditionalStore()
    server = serve(store)
    storage = open_storage(server, roots=(tmp_path,))
    signed = storage.destination(Output(urls={"film.mp4": "https://localhost/film.mp4"}), None)
    folder = storage.destination(Output(url=f"file://{tmp_path}/out/"), None)
    small = storage.destination(Output(url="s3://out/"), credentials(S3, server))
    assert [send(to, file) for to in (signed, folder, small)] == [None, None, None]
    assert calls(server) == []
    assert not (tmp_path / "out").exists()


def test_google_is_sent_early_only_what_it_would_get_in_parts_anyway(
    serve: Serve, early: Callable[..., Storage], file: Path
) -> None:
    """Google accepts a condition for an upload in one request, but not for the end of an upload in parts."""
    store = ConditionalStore()
    server = serve(store)
    to = early(server).destination(Output(url="gs://out/"), credentials(GS, server), OWNER)
    assert send(to, file) is not None
    file.write_bytes(b"f" * PART)
    assert send(to, file) is None


def test_a_real_store_publishes_what_was_sent(
    early: Callable[..., Storage], s3: S3Server, bucket: Path, file: Path
) -> None:
    to = destination(early(s3), f"s3://{bucket.name}/out/", s3.credentials())
    sent = send(to, file)
    assert not (bucket / "out/film.mp4").exists()
    stored = put(to, file, sent, lambda: None)
    assert (bucket / "out/film.mp4").read_bytes() == file.read_bytes()
    to.check("film.mp4", stored)


def test_a_sent_file_is_aborted_with_newer_credentials(
    serve: Serve, early: Callable[..., Storage], file: Path
) -> None:
    store = ConditionalStore()
    server = serve(store)
    old, new = (
        early(server).destination(
            Output(url="s3://out/"), credentials({**S3, "access_key_id": key}, server), OWNER
        )
        for key in ("AKIAOLD", "AKIANEW")
    )
    sent = old.send("film.mp4", file, content_type="video/mp4", on_chunk=lambda _: None)
    assert sent is not None
    sent.abort(new)
    assert store.unfinished == set()
    (deleted,) = [call for call in calls(server) if call.method == "DELETE"]
    assert "AKIANEW" in deleted.headers["authorization"]


def test_a_sent_file_is_aborted_after_the_time_of_the_attempt_is_over(
    serve: Serve, early: Callable[..., Storage], file: Path
) -> None:
    store, is_over = ConditionalStore(), threading.Event()

    def seconds_left() -> float:
        if is_over.is_set():
            raise Fenced
        return 60.0

    server = serve(store)
    storage = early(server).bounded(seconds_left)
    to = storage.destination(Output(url="s3://out/"), credentials(S3, server), OWNER)
    sent = to.send("film.mp4", file, content_type="video/mp4", on_chunk=lambda _: None)
    is_over.set()
    assert sent is not None
    sent.abort()
    assert store.unfinished == set()
