"""Tests of sources that several requests fetch: two objects are never mixed, and all threads end."""

import errno
import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import sleep

import pytest
from structlog.testing import capture_logs

from euterpe.net.limits import OnWait
from euterpe.net.pace import MinimumPace, TransferPace
from euterpe.storage.errors import StorageError
from euterpe.storage.source import SourceObject
from euterpe.storage.storage import Storage
from euterpe.storage.transfer import Body, ObjectInfo
from tests.s3 import S3Server
from tests.storage.conftest import EAGER, Serve, keys_to
from tests.storage.fake_stores import Call, MemoryStore, Reply
from tests.storage.storage_calls import Download, Fenced, source

MIB = 1024 * 1024
SIZE = 4 * MIB
NEVER = 1000
PATH = "/in/a.mov"
_EXACT = re.compile(r"bytes=([0-9]+)-([0-9]+)")
Fault = Callable[[Reply], Reply]


def span_of(call: Call) -> tuple[int, int] | None:
    """Return the range that a call requests, or None for the front request and for the stat."""
    asked = _EXACT.fullmatch(call.headers.get("range", ""))
    return (int(asked[1]), int(asked[2]) + 1) if asked and asked[0] != "bytes=0-0" else None


@dataclass
class RangeStore:
    """A store whose response to the front request pauses after 100 KB until some ranges were answered.
    `fault` is applied to the responses to ranges, and `fault_of_front` to the response to the front request.
    """

    content: bytes
    fault: Fault = lambda reply: reply
    fault_of_front: Fault = lambda reply: reply
    until: int = 3  # the pause ends after this number of ranges
    etag_at_end: str | None = None  # the ETag in answers to HEAD after the first range
    spans: list[tuple[int, int]] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = MemoryStore(**{PATH[1:]: self.content})
        self.go_on = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, call: Call) -> Reply:
        reply, span = self.store(call), span_of(call)
        with self._lock:
            self.calls.append(call)
            if span is None:
                if call.method == "HEAD" or call.headers.get("range") == "bytes=0-0":
                    etag = self.etag_at_end if self.spans else None
                    return replace(reply, headers=reply.headers | ({"etag": etag} if etag else {}))
                return self.fault_of_front(replace(reply, pause_at=100_000, until=self.go_on))
            self.spans.append(span)
            if len(self.spans) == self.until:
                self.go_on.set()
            return self.fault(reply)


@pytest.fixture
def content() -> bytes:
    return os.urandom(SIZE)


Open = Callable[[RangeStore], SourceObject]


@pytest.fixture(params=["s3", "https"])
def opened(
    request: pytest.FixtureRequest, serve: Serve, serve_tls: Serve, open_storage: Callable[..., Storage]
) -> Open:
    """Return a function that opens the object of a store, by S3 and by a signed URL."""

    def open_it(store: RangeStore) -> SourceObject:
        if request.param == "https":
            server = serve_tls(store)
            url = f"https://localhost:{server.port}{PATH}?signature=s3cret"
            return source(open_storage(server, parallel=EAGER), url)
        server = serve(store)
        return source(open_storage(server, parallel=EAGER), f"s3:/{PATH}", keys_to(server))

    return open_it


def range_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "euterpe-ranges"]


@pytest.fixture(autouse=True)
def _no_thread_stays() -> Iterator[None]:
    yield
    assert range_threads() == []


def error_of(origin: SourceObject, **options: object) -> StorageError:
    with pytest.raises(StorageError) as refused:
        Download().fetch(origin, **options)  # type: ignore[arg-type]
    assert "s3cret" not in str(refused.value)
    return refused.value


def test_ranges_come_from_the_end_while_the_front_is_slow(opened: Open, content: bytes) -> None:
    store = RangeStore(content, until=4)
    assert Download().fetch(opened(store)) == content
    last, *others = sorted(store.spans, reverse=True)
    assert last == (3 * MIB, 4 * MIB)
    assert [end for _, end in others] == [start for start, _ in (last, *others[:-1])], "without a gap"
    conditions = {
        call.headers.get("if-match") or call.headers.get("if-range") for call in store.calls if span_of(call)
    }
    assert conditions == {store.store(store.calls[0]).headers["etag"]}


def test_one_connection_means_one_request(
    serve: Serve, open_storage: Callable[..., Storage], content: bytes
) -> None:
    store = RangeStore(content)
    store.go_on.set()
    server = serve(store)
    storage = open_storage(server, parallel=replace(EAGER, connections=1))
    assert Download().fetch(source(storage, f"s3:/{PATH}", keys_to(server))) == content
    assert store.spans == []


def test_a_fast_or_small_source_needs_one_request(
    serve: Serve, open_storage: Callable[..., Storage], content: bytes
) -> None:
    store = RangeStore(content)
    store.go_on.set()
    server = serve(store)
    for needs in ({"from_bytes": SIZE}, {"from_s": 3600.0}, {"settle_s": 3600.0}):
        storage = open_storage(server, parallel=replace(EAGER, **needs))
        assert Download().fetch(source(storage, f"s3:/{PATH}", keys_to(server))) == content
    assert store.spans == []


@pytest.mark.parametrize("etag", [None, 'W/"weak"', "bare", '""'])
def test_without_a_strong_etag_there_are_no_ranges(opened: Open, content: bytes, etag: str | None) -> None:
    def rename(reply: Reply) -> Reply:
        headers = {name: value for name, value in reply.headers.items() if name != "etag"}
        return replace(reply, headers=headers | ({"etag": etag} if etag else {}))

    store = RangeStore(content, fault_of_front=rename)
    store.go_on.set()
    assert Download().fetch(opened(store), expect=ObjectInfo(SIZE, etag)) == content
    assert store.spans == []


# -- What a range must not do


def wrong(reply: Reply, **headers: str) -> Reply:
    """Return the reply with other headers, and with other bytes, which must not get into the file."""
    length = int(headers.get("content-length", len(reply.body)))
    return replace(reply, headers={**reply.headers, **headers}, body=bytes(length))


def chunked(reply: Reply, body: bytes) -> Reply:
    headers = {**reply.headers, "content-length": "", "transfer-encoding": "chunked"}
    return replace(reply, headers=headers, body=b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))


LIES: dict[str, Fault] = {
    "another start": lambda reply: wrong(reply, **{"content-range": f"bytes 0-{MIB - 1}/{SIZE}"}),
    "another size": lambda reply: wrong(
        reply, **{"content-range": reply.headers["content-range"].replace(f"/{SIZE}", f"/{SIZE + 1}")}
    ),
    "an unknown size": lambda reply: wrong(
        reply, **{"content-range": reply.headers["content-range"].replace(f"/{SIZE}", "/*")}
    ),
    "no range": lambda reply: wrong(reply, **{"content-range": ""}),
    "two ranges": lambda reply: wrong(reply, **{"content-range": "", "content-type": "multipart/byteranges"}),
    "another etag": lambda reply: wrong(reply, etag='"another"'),
    "a weak etag": lambda reply: wrong(reply, etag="W/" + reply.headers["etag"]),
    "no etag": lambda reply: wrong(reply, etag=""),
    "a longer body": lambda reply: wrong(reply, **{"content-length": str(len(reply.body) + 1)}),
    "a shorter body": lambda reply: wrong(reply, **{"content-length": str(len(reply.body) - 1)}),
    "the whole object": lambda reply: Reply(200, {"etag": reply.headers["etag"]}, bytes(SIZE)),
    "not modified": lambda _: Reply(412),
    "not satisfiable": lambda _: Reply(416, {"content-range": f"bytes */{SIZE}"}),
    "a redirect": lambda _: Reply(302, {"location": "https://localhost/"}),
    "too many bytes": lambda reply: chunked(reply, reply.body + bytes(10)),
    "forbidden": lambda _: Reply(403),
    "throttled": lambda _: Reply(429),
    "unavailable": lambda _: Reply(503),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_range_that_is_not_what_was_asked_for_is_left_to_the_front(
    opened: Open, content: bytes, lie: str
) -> None:
    store = RangeStore(content, fault=LIES[lie], until=1)
    with capture_logs() as logs:
        assert Download().fetch(opened(store)) == content
    assert "parallel_fetch_reduced" in [entry["event"] for entry in logs]
    assert len(store.spans) <= 3 * 5, "no thread asks for ever"


def test_an_object_that_is_replaced_between_ranges_is_never_mixed(opened: Open, content: bytes) -> None:
    """The front request continues to read the old object, as a single request does."""
    store = RangeStore(content, until=NEVER)

    def replace_it(reply: Reply) -> Reply:
        store.store.objects[PATH] = bytes(SIZE)
        return reply

    def go_on_alone(_: int) -> None:
        if len(store.spans) > 1 and not range_threads():
            store.go_on.set()

    store.fault = replace_it
    assert Download().fetch(opened(store), on_chunk=go_on_alone) == content


def test_an_object_that_is_replaced_when_the_front_breaks_off_has_changed(
    opened: Open, content: bytes
) -> None:
    store = RangeStore(content, fault_of_front=lambda reply: replace(reply, sent=200_000))

    def replace_it(reply: Reply) -> Reply:
        store.store.objects[PATH] = bytes(SIZE)
        return reply

    store.fault = replace_it
    error = error_of(opened(store))
    assert (error.code, error.retryable) == ("source_changed", False), "as without ranges"


def test_an_object_that_was_replaced_unseen_has_changed(opened: Open, content: bytes) -> None:
    """A store that reads the ETag before the bytes can send new bytes with the old ETag."""
    store = RangeStore(content, fault=wrong, etag_at_end='"another"')
    error = error_of(opened(store))
    assert (error.code, error.retryable) == ("source_changed", True)


# -- Connections that break, or are slow


def test_a_range_whose_connection_breaks_goes_on_where_it_stopped(opened: Open, content: bytes) -> None:
    faults = iter([200_000])

    def break_the_first(reply: Reply) -> Reply:
        return replace(reply, sent=next(faults, None))

    store = RangeStore(content, fault=break_the_first, until=4)
    assert Download().fetch(opened(store)) == content
    first: dict[int, int] = {}
    resumed = [start - first[end] for start, end in store.spans if first.setdefault(end, start) != start]
    assert 0 < resumed[0] <= 200_000


def test_a_range_that_ends_early_goes_on_where_it_stopped(opened: Open, content: bytes) -> None:
    store = RangeStore(content, until=6)
    store.fault = lambda reply: chunked(reply, reply.body[: len(reply.body) * 2 // 3])
    assert Download().fetch(opened(store)) == content


def test_ranges_go_on_while_the_front_is_resumed(opened: Open, content: bytes) -> None:
    faults = iter([150_000, 150_000])

    def break_twice(reply: Reply) -> Reply:
        return replace(reply, sent=next(faults, None))

    store = RangeStore(content, fault_of_front=break_twice)
    assert Download().fetch(opened(store)) == content


def test_a_slow_range_is_taken_over_by_the_front(opened: Open, content: bytes) -> None:
    never, slow = threading.Event(), iter([MIB - 100_000])

    def pause_the_first(reply: Reply) -> Reply:
        at = next(slow, None)
        return reply if at is None else replace(reply, pause_at=at, until=never)

    store = RangeStore(content, fault=pause_the_first)
    assert Download().fetch(opened(store)) == content
    start, end = store.spans[0]
    assert [last for _, last in store.spans].count(end) == 1, "the range was not asked for again"
    fronts = [call.headers.get("range") for call in store.calls if span_of(call) is None]
    assert f"bytes={start + MIB - 100_000}-" in fronts


def test_what_the_ranges_fetched_is_not_requested_again_with_new_keys(opened: Open, content: bytes) -> None:
    def expire(reply: Reply) -> Reply:
        return replace(reply, sent=100_000) if reply.status == 200 else Reply(403)

    store = RangeStore(content, fault_of_front=expire)
    download, origin = Download(), opened(store)
    with pytest.raises(StorageError) as refused:
        download.fetch(origin)
    assert refused.value.code == "source_forbidden"
    assert download.target is not None
    received = download.target.received
    assert received > len(download.content)
    store.fault_of_front = lambda reply: reply
    store.calls.clear()
    assert download.fetch(origin) == content
    front = next(call for call in store.calls if call.method == "GET" and span_of(call) is None)
    assert front.headers["range"] == "bytes=100000-"
    assert sum(download.chunks) == SIZE


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (403, "source_forbidden"),
        (404, "source_not_found"),
        (412, "source_changed"),
        (429, "storage_throttled"),
        (500, "source_unreachable"),
    ],
)
def test_the_front_decides_the_error_as_without_ranges(
    opened: Open, content: bytes, status: int, code: str
) -> None:
    def break_off(reply: Reply) -> Reply:
        return replace(reply, sent=150_000) if reply.status == 200 else Reply(status)

    store = RangeStore(content, fault=lambda _: Reply(status), fault_of_front=break_off, until=1)
    assert error_of(opened(store)).code == code


def test_ranges_that_always_end_early_leave_a_truncated_source(opened: Open, content: bytes) -> None:
    store = RangeStore(content, until=1)
    store.fault = store.fault_of_front = lambda reply: replace(reply, sent=min(10_000, len(reply.body) - 1))
    error = error_of(opened(store))
    assert (error.code, error.retryable) == ("source_truncated", True)
    assert "broke off after" in str(error)


# -- The end of a fetch


def test_a_stopped_fetch_stops_all_of_its_threads(opened: Open, content: bytes) -> None:
    never = threading.Event()
    store = RangeStore(content, fault=lambda reply: replace(reply, pause_at=1000, until=never))
    store.go_on = never

    def stop(_: int) -> None:
        if len(store.spans) == 3:
            raise Fenced

    with pytest.raises(Fenced):
        Download().fetch(opened(store), on_chunk=stop)


# -- Limits of this process


@dataclass
class FakeReader:
    """A reader without a network.

    The reader calls `pause` in the front request, and `on_range` in each range.
    """

    content: bytes
    pause: Callable[[OnWait], None]
    on_range: Callable[[], None] = lambda: None
    where: str = "fake://source"
    pace: TransferPace = field(default_factory=lambda: TransferPace(MinimumPace(1000, 1.0)))

    def stat(self) -> ObjectInfo:
        return ObjectInfo(len(self.content), '"fake"')

    @contextmanager
    def open(self, offset: int, on_wait: OnWait) -> Iterator[Body]:
        yield Body(self.stat(), offset, self._front(offset, on_wait))

    def _front(self, offset: int, on_wait: OnWait) -> Iterator[bytes]:
        yield self.content[offset : offset + 1000]
        self.pause(on_wait)
        yield self.content[offset + 1000 :]

    @contextmanager
    def open_range(
        self, start: int, end: int, expect: ObjectInfo, *, idle_s: float, on_wait: OnWait
    ) -> Iterator[Iterator[bytes]]:
        del expect, idle_s, on_wait
        yield self._range(start, end)

    def _range(self, start: int, end: int) -> Iterator[bytes]:
        for at in range(start, end, 1000):
            self.on_range()
            yield self.content[at : min(at + 1000, end)]


def test_the_threads_pause_until_their_bytes_are_counted(content: bytes) -> None:
    download = Download()

    def look(_: OnWait) -> None:
        """Wait until the threads have written the allowed bytes, and check that they write no more."""
        assert download.target is not None
        if len(download.chunks) > 1:
            return
        while download.target.received < 100_000:
            sleep(0.001)
        sleep(0.05)
        assert download.target.received <= 1000 + 100_000 + 3 * 1000

    limited = replace(EAGER, most_uncounted_bytes=100_000)
    assert download.fetch(SourceObject(FakeReader(content, look), parallel=limited)) == content


def test_an_error_of_the_worker_in_a_thread_ends_the_fetch(content: bytes) -> None:
    def fail() -> None:
        raise OSError(errno.EIO, "the disk is broken")

    def wait(on_wait: OnWait) -> None:
        while True:
            on_wait()

    with pytest.raises(OSError, match="the disk is broken"):
        Download().fetch(SourceObject(FakeReader(content, wait, fail), parallel=EAGER))


def test_without_threads_the_front_reads_everything(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    download = Download()
    assert download.fetch(SourceObject(FakeReader(content, lambda _: None), parallel=EAGER)) == content
    assert download.chunks == [1000, SIZE - 1000, 0]


def test_the_bytes_of_ranges_count_for_the_minimum_pace(content: bytes) -> None:
    def wait(on_wait: OnWait) -> None:
        reader.pace.add(0.9, 0)
        while reader.pace.seconds_left < 1.0:
            on_wait()

    reader = FakeReader(content, wait)
    assert Download().fetch(SourceObject(reader, parallel=EAGER)) == content


# -- A real store


def test_an_object_of_a_real_store_that_is_replaced_is_never_mixed(
    s3: S3Server, bucket: Path, open_storage: Callable[..., Storage]
) -> None:
    """All bytes of a version have the same value, so a single byte of another version would be noticed."""
    size, (here, there) = 16 * MIB, (bucket / "a.mov", bucket / "b.mov")
    storage = open_storage(s3, parallel=EAGER)
    origin = source(storage, f"s3://{bucket.name}/a.mov", s3.credentials())
    ends = Counter[str]()
    for turn in range(30):
        here.write_bytes(bytes([turn]) * size)
        there.write_bytes(bytes([turn + 100]) * size)
        expect, download, at = origin.stat(), Download(), turn * size // 40

        def replace_it(_: int, download: Download = download, at: int = at) -> None:
            if download.target is not None and download.target.received >= at and there.exists():
                there.rename(here)

        try:
            assert download.fetch(origin, expect=expect, on_chunk=replace_it) == bytes([turn]) * size
            ends["whole"] += 1
        except StorageError as error:
            ends[str(error.code)] += 1
    assert set(ends) <= {"whole", "source_changed"}
