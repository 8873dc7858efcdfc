"""Watching a job over connections that break, with both clients."""

import json

import pytest

from euterpe.client import Client, Event, Gone, NotFound, Progress, UnexpectedAnswer, Unreachable
from tests.client.scripted_server import (
    AT_ONCE,
    BEAT,
    HELLO,
    JOB_ID,
    HangsUp,
    Says,
    Server,
    Streams,
    event,
    problem,
    progress,
    told,
)

ODD = "a\u2028b\u0085c\x0bd é 🎞"


def sequences(client: Client) -> list[int]:
    return [seen.sequence for seen in client.watch(JOB_ID) if isinstance(seen, Event)]


def resumed_from(server: Server) -> list[str | None]:
    return [asked.headers.get("last-event-id") for asked in server.asked]


def test_events_and_progress_come_as_they_happen(server: Server, client: Client) -> None:
    server.will(
        Streams(
            [HELLO, told(1, "claimed"), BEAT, progress(41.5), told(2, "succeeded", outputs=[{"name": "mp4"}])]
        )
    )
    first, second, last = client.watch(JOB_ID)
    assert isinstance(first, Event)
    assert (first.sequence, first.type, first.document) == (1, "job.claimed", event(1, "claimed"))
    assert isinstance(second, Progress)
    assert (second.progress, second.eta_seconds, second.speed) == (41.5, 12.0, 3.1)
    assert isinstance(last, Event)
    assert last.outputs == [{"name": "mp4"}]
    assert server.calls == [f"GET /transcode/{JOB_ID}/events"]
    assert server.asked[0].headers["accept"] == "text/event-stream"


@pytest.mark.parametrize("cut", [1, 17, 60, 250])
def test_a_lost_connection_is_taken_up_after_the_last_event(server: Server, client: Client, cut: int) -> None:
    """Wherever it breaks, in the middle of an event too."""
    server.will(
        Streams([HELLO, told(1, "claimed"), told(2, "fetching")[:cut]], whole=False),
        HangsUp(),
        problem(503, "overloaded", headers=AT_ONCE),
        Streams([HELLO, told(2, "fetching"), told(3, "succeeded")]),
    )
    assert sequences(client) == [1, 2, 3]
    assert resumed_from(server) == [None, "1", "1", "1"]


def test_a_watch_tells_of_each_outage_once(server: Server, client: Client, outages: list[str]) -> None:
    server.will(
        Streams([HELLO, told(1, "claimed")], whole=False),
        HangsUp(),
        Streams([HELLO, told(2, "fetching")], whole=False),
        Streams([HELLO, told(3, "succeeded")]),
    )
    assert sequences(client) == [1, 2, 3]
    assert outages == ["unreachable"] * 2


def test_an_event_that_comes_again_is_told_once(server: Server, client: Client) -> None:
    server.will(
        Streams([HELLO, told(1, "claimed"), told(2, "fetching")], whole=False),
        Streams([HELLO, told(1, "claimed"), told(2, "fetching"), told(3, "succeeded")]),
    )
    assert sequences(client) == [1, 2, 3]


def test_a_stream_that_the_server_ends_early_is_opened_again(server: Server, client: Client) -> None:
    """A service that restarts ends its streams in good order, and so does one that has had enough of them."""
    server.will(Streams([HELLO, told(1, "claimed")]), Streams([HELLO, told(2, "succeeded")]))
    assert sequences(client) == [1, 2]


def test_a_failure_that_rests_is_the_end(server: Server, client: Client) -> None:
    server.will(Streams([HELLO, told(1, "claimed"), told(2, "failed")]))
    assert sequences(client) == [1, 2]


def test_a_dead_letter_after_a_failure_is_waited_for(server: Server, client: Client) -> None:
    server.will(
        Streams([HELLO, told(1, "failed")], whole=False),
        Streams([HELLO, told(2, "dead_letter")], whole=False),
    )
    assert sequences(client) == [1, 2]


def test_there_is_nothing_more_after_a_failure_that_rests(server: Server, client: Client) -> None:
    server.will(Streams([HELLO, told(1, "failed")], whole=False), Says(204))
    assert sequences(client) == [1]


def test_a_failed_job_that_was_retried_goes_on(server: Server, client: Client) -> None:
    server.will(Streams([HELLO, told(1, "failed"), told(2, "queued"), told(3, "succeeded")]))
    assert sequences(client) == [1, 2, 3]


def test_text_is_what_it_was_whatever_separators_it_has(server: Server, client: Client) -> None:
    server.will(Streams([HELLO, told(1, "succeeded", external_id=ODD)]))
    (seen,) = client.watch(JOB_ID)
    assert isinstance(seen, Event)
    assert seen.external_id == ODD


@pytest.mark.parametrize(("status", "kind"), [(404, NotFound), (410, Gone)])
def test_a_job_that_is_not_there_is_an_error(
    server: Server, client: Client, status: int, kind: type[Exception]
) -> None:
    server.will(problem(status, "not_found"))
    with pytest.raises(kind):
        list(client.watch(JOB_ID))


def test_a_server_that_stays_away_is_told_in_the_end(
    server: Server, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("euterpe.client.retries.ATTEMPTS", 2)
    server.will(Streams([HELLO, told(1, "claimed")], whole=False), HangsUp())
    with pytest.raises(Unreachable):
        list(client.watch(JOB_ID))


@pytest.mark.parametrize(
    "reply",
    [
        Says(200, b"<html>hello</html>", {"content-type": "text/html"}),
        Streams(["event: job.claimed\ndata: {\n\n"]),
        Streams(["event: job.claimed\ndata: []\n\n"]),
        Streams([f"event: job.claimed\ndata: {json.dumps({'sequence': 'one'})}\n\n"]),
        Streams(["event: progress\ndata: {}\n\n"]),
        Streams(["data: " + "x" * 1024 * 1024] * 5),
    ],
    ids=["html", "no json", "no object", "no sequence", "no progress", "endless"],
)
def test_a_stream_of_another_program_is_told_as_one(
    server: Server, client: Client, reply: Says | Streams
) -> None:
    server.will(reply)
    with pytest.raises(UnexpectedAnswer):
        list(client.watch(JOB_ID))


def test_whoever_stops_watching_leaves_nothing_open(server: Server, client: Client) -> None:
    server.will(Streams([HELLO, told(1, "claimed")]))
    for _ in client.watch(JOB_ID):
        break
