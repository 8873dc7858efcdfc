"""ApiServer: it binds its port before it starts, drains when it stops, and leaves no thread or port open."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from threading import Semaphore

import httpx
import pytest

from euterpe.api.app import create_app
from euterpe.api.backpressure import ApiLimits
from euterpe.api.server import ApiServer
from euterpe.api.service import ApiTimings
from euterpe.domain.rows import EventRow
from euterpe.net.policy import EgressPolicy
from euterpe.store.store import Store
from tests.api.serving import OneBucketForbidden, Requester
from tests.rows import row_of


def server_over(store: Store, host: str = "127.0.0.1", port: int = 0) -> ApiServer:
    return ApiServer(create_app(store, ApiLimits(), OneBucketForbidden(), EgressPolicy()), host, port)


def test_a_port_that_is_taken_is_an_error_at_once(sqlite_store: Store) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        server_over(sqlite_store, port=taken.getsockname()[1])


def test_a_request_under_way_is_answered_before_the_server_stops(
    sqlite_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    called, may_return = threading.Event(), threading.Event()

    def slow() -> list[dict[str, object]]:
        called.set()
        may_return.wait()
        return []

    monkeypatch.setattr(sqlite_store.jobs, "backlog", slow)
    server = server_over(sqlite_store)
    server.start()
    with ThreadPoolExecutor(2) as pool:
        under_way = pool.submit(httpx.get, f"{server.url}/metrics", trust_env=False)
        called.wait()
        stopping = pool.submit(server.stop)
        may_return.set()
        assert under_way.result().status_code == 200
        stopping.result()


def test_a_stopped_server_leaves_no_thread_and_no_port(sqlite_store: Store) -> None:
    before = set(threading.enumerate())
    server = server_over(sqlite_store)
    server.start()
    httpx.get(f"{server.url}/readyz", trust_env=False)
    server.stop()
    assert set(threading.enumerate()) == before
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{server.url}/healthz", trust_env=False)


def test_a_server_listens_on_ipv6_too(sqlite_store: Store) -> None:
    if not socket.has_dualstack_ipv6():
        pytest.fail("this machine has no IPv6 loopback")
    server = server_over(sqlite_store, "::1")
    server.start()
    assert httpx.get(f"{server.url}/healthz", trust_env=False).status_code == 200
    server.stop()


def test_a_client_that_stopped_reading_its_stream_does_not_keep_the_server_from_stopping(
    sqlite_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, large_payload = Semaphore(0), '"' + "x" * 65_536 + '"'
    event = row_of(EventRow, sequence=1, type="job.claimed", payload=large_payload)

    def events(*_: object, limit: int, **__: object) -> list[EventRow]:
        reads.release()
        return [event] * limit

    monkeypatch.setattr(sqlite_store.jobs, "events", events)
    app = create_app(
        sqlite_store,
        ApiLimits(),
        OneBucketForbidden(),
        EgressPolicy(),
        timings=ApiTimings(stream_send_s=3600.0),
    )
    server = ApiServer(app, "127.0.0.1", 0, grace_s=3600.0)
    server.start()
    requester = Requester(sqlite_store, server.url, "studio")
    with requester.http as http, http.stream("GET", f"/transcode/{requester.submit()}/events"):
        # Wait for three reads of events: a read before the stream, a read of the first page, and a read of
        # the page that cannot be sent.
        for _ in range(3):
            reads.acquire()
        server.stop()
