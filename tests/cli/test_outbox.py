import pytest

from euterpe.domain.retry import Delivered, Redeliver
from tests.cli.command_runner import Cli, deliver_all, fail_one, submit


@pytest.fixture
def newsroom(installed: Cli) -> str:
    """Return the id of a requester that has a failed job with two pending events."""
    requester_id: str = installed.json("requester", "create", "newsroom")["requester_id"]
    submit(requester_id)
    fail_one()
    return requester_id


def test_the_list_can_be_narrowed(installed: Cli, newsroom: str) -> None:
    submit("somebody-else")
    fail_one()
    dead = deliver_all()
    assert len(dead) == 4
    rows = installed.json("outbox", "list", "--status", "dead_letter", "--requester", "newsroom")
    assert {row["requester_id"] for row in rows} == {newsroom}
    assert [row["event_id"] for row in rows] == sorted((row["event_id"] for row in rows), reverse=True)
    assert installed.json("outbox", "list", "--status", "delivered") == []
    older = installed.json("outbox", "list", "--before", rows[0]["event_id"], "--requester", "newsroom")
    assert [row["event_id"] for row in older] == [rows[1]["event_id"]]
    table = installed.ok("outbox", "list").out
    assert all(event_id in table for event_id in dead)
    assert "answered 410" in table


def test_the_events_of_one_job_are_listed(installed: Cli, newsroom: str) -> None:
    other = submit(newsroom)
    fail_one()
    rows = installed.json("outbox", "list", "--job", other)
    assert [(row["job_id"], row["type"]) for row in rows] == [(other, "job.failed"), (other, "job.claimed")]


def test_one_event_is_shown_with_its_exact_body(installed: Cli, newsroom: str) -> None:
    (event, *_) = installed.json("outbox", "list", "--requester", newsroom)
    shown = installed.json("outbox", "show", event["event_id"])
    assert {name: shown[name] for name in event} == event
    assert shown["payload"] in installed.ok("outbox", "show", event["event_id"]).out


def test_one_event_is_replayed(installed: Cli, newsroom: str) -> None:
    (first, _) = deliver_all(Delivered())
    assert "1 event will be sent again" in installed.ok("outbox", "replay", first).out
    (again,) = installed.json("outbox", "list", "--status", "pending", "--requester", newsroom)
    assert (again["event_id"], again["attempt_count"]) == (first, 0)


@pytest.mark.usefixtures("newsroom")
def test_an_event_that_waits_for_its_next_attempt_is_sent_at_once(installed: Cli) -> None:
    (event, _) = deliver_all(Redeliver(900_000, "answered 503"))
    assert deliver_all() == []
    installed.ok("outbox", "replay", event)
    assert deliver_all(Delivered()) == [event]


def test_all_dead_letters_of_a_requester_are_replayed(installed: Cli, newsroom: str) -> None:
    submit("somebody-else")
    fail_one()
    deliver_all()
    assert installed.json("outbox", "replay", "--requester", newsroom) == {"replayed": 2}
    assert "has no dead letters" in installed.fails("outbox", "replay", "--requester", "newsroom")


@pytest.mark.usefixtures("newsroom")
def test_a_range_of_time_is_replayed(installed: Cli) -> None:
    deliver_all(Delivered())
    for window in (("--since", "2199-01-01T00:00:00Z"), ("--since", "2h", "--until", "1h")):
        assert "nothing was replayed" in installed.fails("outbox", "replay", *window)
    assert "2 events" in installed.ok("outbox", "replay", "--since", "1h").out


def test_all_that_waits_is_sent_at_once_and_keeps_its_budget(installed: Cli, newsroom: str) -> None:
    waiting = deliver_all(Redeliver(900_000, "answered 503"))
    assert installed.json("outbox", "replay", "--pending") == {"replayed": 2}
    rows = installed.json("outbox", "list", "--requester", newsroom)
    assert [row["attempt_count"] for row in rows] == [1, 1]
    assert sorted(deliver_all(Delivered())) == sorted(waiting)


def test_what_waits_of_one_requester_is_sent_at_once(installed: Cli, newsroom: str) -> None:
    own = deliver_all(Redeliver(900_000, "answered 503"))
    submit("somebody-else")
    fail_one()
    deliver_all(Redeliver(900_000, "answered 503"))
    shown = installed.ok("outbox", "replay", "--pending", "--requester", "newsroom").out
    assert "2 events will be sent again" in shown
    assert sorted(deliver_all(Delivered())) == sorted(own)
    error = installed.fails("outbox", "replay", "--pending", "--requester", newsroom)
    assert error == f"nothing was replayed: no event of {newsroom} waits for its next attempt"


@pytest.mark.usefixtures("newsroom")
def test_what_is_due_already_is_nothing_to_replay(installed: Cli) -> None:
    error = installed.fails("outbox", "replay", "--pending")
    assert error == "nothing was replayed: no event waits for its next attempt"


@pytest.mark.usefixtures("newsroom")
def test_replaying_nothing_is_a_failure_that_says_so(installed: Cli) -> None:
    assert "no delivered, dead or waiting event 'nope'" in installed.fails("outbox", "replay", "nope")
    assert "'nobody'" in installed.fails("outbox", "replay", "--requester", "nobody")


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--until", "1h"),
        ("an-event", "--since", "1h"),
        ("--requester", "x", "--since", "1h"),
        ("--pending", "an-event"),
        ("--pending", "--since", "1h"),
        ("--pending", "--until", "1h"),
        ("--since", "yesterday"),
        ("--since", "1h", "--until", "soon"),
    ],
)
def test_a_replay_of_no_one_thing_is_wrong_usage(installed: Cli, options: tuple[str, ...]) -> None:
    installed.fails("outbox", "replay", *options, code=2)


def test_an_unknown_event_is_named(installed: Cli) -> None:
    assert "there is no event 'nope'" in installed.fails("outbox", "show", "nope")
