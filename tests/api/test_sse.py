"""EventStream: slow clients, database outages, keep-alive comments, and the end of a stream."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Message

from euterpe.api.service import DEFAULT_TIMINGS, ApiTimings
from euterpe.api.sse import BEAT, EventPage, EventStream
from euterpe.api.watcher import Watch
from euterpe.domain.rows import EventRow, JobRow
from euterpe.store.errors import StoreUnavailable
from tests.rows import row_of

LIVE = row_of(JobRow, status="queued", event_sequence=0)
ENDED = row_of(JobRow, status="succeeded", event_sequence=1)
LAST = row_of(EventRow, sequence=1, type="job.succeeded", payload="{}")


class Client:
    """A fake ASGI client that records the bytes that are sent to it."""

    def __init__(
        self, read: Callable[[int], Awaitable[EventPage]], timings: ApiTimings = DEFAULT_TIMINGS
    ) -> None:
        self.sent: list[bytes] = []
        self.disconnected = False
        self.watch: Watch | None = None
        self._read, self._timings = read, timings

    async def follow(self) -> None:
        response = EventStream("j", 0, self._read, nullcontext, self._watch, timings=self._timings)
        try:
            await response({"type": "http"}, self._receive, self.send)
        except ClientDisconnect:
            self.disconnected = True

    async def send(self, message: Message) -> None:
        self.sent.append(message.get("body", b""))

    async def _receive(self) -> Any:
        await asyncio.Event().wait()

    @contextmanager
    def _watch(self) -> Iterator[Watch]:
        self.watch = Watch(["j"])
        yield self.watch


def test_an_idle_stream_sends_comments_to_stay_alive() -> None:
    async def read(last_sequence: int) -> EventPage:
        return (
            EventPage(ENDED, [LAST], last_sequence)
            if client.sent.count(BEAT) == 3
            else EventPage(LIVE, [], last_sequence)
        )

    client = Client(read, ApiTimings(stream_beat_s=0.001))
    asyncio.run(client.follow())
    assert client.sent.count(BEAT) == 3
    assert client.sent[-2:] == [b"id: 1\nevent: job.succeeded\ndata: {}\n\n", b""]


def test_a_database_that_is_away_for_a_while_does_not_end_the_stream() -> None:
    reads = 0

    async def read(last_sequence: int) -> EventPage:
        nonlocal reads
        reads += 1
        if reads < 4:
            raise StoreUnavailable("away")
        return EventPage(ENDED, [LAST], last_sequence)

    client = Client(read, ApiTimings(stream_retry_s=0.001))
    asyncio.run(client.follow())
    assert client.sent[-2].startswith(b"id: 1\n")


class StuckClient(Client):
    """A client that accepts the headers and then blocks."""

    async def send(self, message: Message) -> None:
        await super().send(message)
        if message["type"] == "http.response.body":
            self.on_body()
            await asyncio.Event().wait()

    def on_body(self) -> None:
        pass


async def nothing_new(last_sequence: int) -> EventPage:
    return EventPage(LIVE, [], last_sequence)


def test_a_client_that_reads_nothing_is_disconnected() -> None:
    client = StuckClient(nothing_new, ApiTimings(stream_send_s=0.01))
    asyncio.run(client.follow())
    assert client.disconnected


def test_a_service_that_stops_does_not_wait_for_a_client_that_takes_nothing() -> None:
    class StuckAtShutdown(StuckClient):
        def on_body(self) -> None:
            assert self.watch is not None
            self.watch.end()

    client = StuckAtShutdown(nothing_new, ApiTimings(stream_send_s=3600.0))
    asyncio.run(client.follow())
    assert client.disconnected


def test_a_service_that_stops_still_says_that_the_stream_is_over() -> None:
    async def read(last_sequence: int) -> EventPage:
        assert client.watch is not None
        client.watch.end()
        return EventPage(LIVE, [], last_sequence)

    client = Client(read)
    asyncio.run(client.follow())
    assert client.sent[-1] == b""
    assert not client.disconnected


def test_a_full_page_of_events_is_not_waited_after_and_is_not_the_last() -> None:
    async def read(last_sequence: int) -> EventPage:
        return EventPage(ENDED, [] if last_sequence else [LAST], last_sequence, is_full=not last_sequence)

    client = Client(read, ApiTimings(stream_beat_s=3600.0))
    asyncio.run(client.follow())
    assert BEAT not in client.sent
    assert client.sent[-2:] == [b"id: 1\nevent: job.succeeded\ndata: {}\n\n", b""]


def test_a_stream_ends_after_its_time_so_that_the_key_is_looked_at_again() -> None:
    async def read(last_sequence: int) -> EventPage:
        raise AssertionError(last_sequence)

    client = Client(read, ApiTimings(stream_s=0.0))
    asyncio.run(client.follow())
    assert client.sent[1:] == [b'event: hello\ndata: {"job_id":"j"}\n\n', b""]


def test_an_error_that_nobody_expected_is_not_swallowed() -> None:
    async def read(last_sequence: int) -> EventPage:
        raise ZeroDivisionError(last_sequence)

    with pytest.raises(ZeroDivisionError):
        asyncio.run(Client(read).follow())
