"""Client.watch with connections that break, for both clients."""

import json

import pytest

from euterpe.client import Client, Event, Gone, NotFound, Progress, RetryPolicy, UnexpectedAnswer, Unreachable
from tests.client.scripted_server import (
    AT_ONCE,
    BEAT,
    HELLO,
    JOB_ID,
    Answer,
    Disconnect,
    Server,
    SseStream,
    event,
    frame,
    problem,
    progress,
)

OUTPUTS = [{"name": "mp4"}]
UNUSUAL = "a\u2028b\u0085c\x0bd é 🎞"


def sequences(client: Client) -> list[int]:
    return [update.sequence for update in client.watch(JOB_ID) if isinstance(update, Event)]


def resumed_from(server: Server) -> list[str | None]:
    return [request.headers.get("last-event-id") for request in server.requests]


def test_events_and_progress_come_as_they_happen(server: Server, client: Client) -> None:
    server.script(
        SseStream([HELLO, frame(1, "claimed"), BEAT, progress(41.5), frame(2, "succeeded", outputs=OUTPUTS)])
    )
    first, second, last = client.watch(JOB_ID)
    assert isinstance(first, Event)
    assert (first.sequence, first.type, first.document) == (1, "job.claimed", event(1, "claimed"))
    assert isinstance(second, Progress)
    assert (second.progress, second.eta_seconds, second.speed) == (41.5, 12.0, 3.1)
    assert isinstance(last, Event)
    assert last.outputs == OUTPUTS
    assert server.calls == [f"GET /transcode/{JOB_ID}/events"]
    assert server.requests[0].headers["accept"] == "text/event-stream"


@pytest.mark.parametrize("cut", [1, 17, 60, 250])
def test_a_lost_connection_is_taken_up_after_the_last_event(server: Server, client: Client, cut: int) -> None:
    """The connection may break in the middle of an event."""
    server.script(
        SseStream([HELLO, frame(1, "claimed"), frame(2, "fetching")[:cut]], whole=False),
        Disconnect(),
        problem(503, "overloaded", headers=AT_ONCE),
        SseStream([HELLO, frame(2, "fetching"), frame(3, "succeeded")]),
    )
    assert sequences(client) == [1, 2, 3]
    assert resumed_from(server) == [None, "1", "1", "1"]


def test_a_watch_reports_each_outage_once(server: Server, client: Client, outages: list[str]) -> None:
    server.script(
        SseStream([HELLO, frame(1, "claimed")], whole=False),
        Disconnect(),
        SseStream([HELLO, frame(2, "fetching")], whole=False),
        SseStream([HELLO, frame(3, "succeeded")]),
    )
    assert sequences(client) == [1, 2, 3]
    assert outages == ["unreachable"] * 2


def test_an_event_that_comes_again_is_yielded_once(server: Server, client: Client) -> None:
    server.script(
        SseStream([HELLO, frame(1, "claimed"), frame(2, "fetching")], whole=False),
        SseStream([HELLO, frame(1, "claimed"), frame(2, "fetching"), frame(3, "succeeded")]),
    )
    assert sequences(client) == [1, 2, 3]


def test_a_stream_that_the_server_ends_early_is_opened_again(server: Server, client: Client) -> None:
    """The service closes all streams when it restarts, and closes each stream after an hour."""
    server.script(SseStream([HELLO, frame(1, "claimed")]), SseStream([HELLO, frame(2, "succeeded")]))
    assert sequences(client) == [1, 2]


def test_a_watch_ends_after_a_failure_without_an_automatic_retry(server: Server, client: Client) -> None:
    server.script(SseStream([HELLO, frame(1, "claimed"), frame(2, "failed")]))
    assert sequences(client) == [1, 2]


def test_a_dead_letter_after_a_failure_is_waited_for(server: Server, client: Client) -> None:
    server.script(
        SseStream([HELLO, frame(1, "failed")], whole=False),
        SseStream([HELLO, frame(2, "dead_letter")], whole=False),
    )
    assert sequences(client) == [1, 2]


def test_a_204_after_a_failure_ends_the_watch(server: Server, client: Client) -> None:
    server.script(SseStream([HELLO, frame(1, "failed")], whole=False), Answer(204))
    assert sequences(client) == [1]


def test_a_failed_job_that_was_retried_goes_on(server: Server, client: Client) -> None:
    server.script(SseStream([HELLO, frame(1, "failed"), frame(2, "queued"), frame(3, "succeeded")]))
    assert sequences(client) == [1, 2, 3]


def test_text_is_what_it_was_whatever_separators_it_has(server: Server, client: Client) -> None:
    server.script(SseStream([HELLO, frame(1, "succeeded", external_id=UNUSUAL)]))
    (update,) = client.watch(JOB_ID)
    assert isinstance(update, Event)
    assert update.external_id == UNUSUAL


@pytest.mark.parametrize(("status", "kind"), [(404, NotFound), (410, Gone)])
def test_a_job_that_is_not_there_is_an_error(
    server: Server, client: Client, status: int, kind: type[Exception]
) -> None:
    server.script(problem(status, "not_found"))
    with pytest.raises(kind):
        list(client.watch(JOB_ID))


@pytest.mark.parametrize("retry", [RetryPolicy(attempts=2)], ids=["two attempts"])
def test_a_server_that_stays_unreachable_is_an_error_in_the_end(server: Server, client: Client) -> None:
    server.script(SseStream([HELLO, frame(1, "claimed")], whole=False), Disconnect())
    with pytest.raises(Unreachable):
        list(client.watch(JOB_ID))


@pytest.mark.parametrize(
    "reply",
    [
        Answer(200, b"<html>hello</html>", {"content-type": "text/html"}),
        SseStream(["event: job.claimed\ndata: {\n\n"]),
        SseStream(["event: job.claimed\ndata: []\n\n"]),
        SseStream([f"event: job.claimed\ndata: {json.dumps({'sequence': 'one'})}\n\n"]),
        SseStream(["event: progress\ndata: {}\n\n"]),
        SseStream(["data: " + "x" * 1024 * 1024] * 5),
    ],
    ids=["html", "no json", "no object", "no sequence", "no progress", "endless"],
)
def test_a_stream_of_another_program_is_reported_as_such(
    server: Server, client: Client, reply: Answer | SseStream
) -> None:
    server.script(reply)
    with pytest.raises(UnexpectedAnswer):
        list(client.watch(JOB_ID))


def test_whoever_stops_watching_leaves_nothing_open(server: Server, client: Client) -> None:
    server.script(SseStream([HELLO, frame(1, "claimed")]))
    for _ in client.watch(JOB_ID):
        break
