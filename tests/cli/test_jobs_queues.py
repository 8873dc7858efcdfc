from euterpe.cli.commands import opened
from tests.cli.command_runner import Cli, submit
from tests.store.jobs import claim_one


def test_the_list_tells_the_backlog_of_each_queue(installed: Cli) -> None:
    for _ in range(3):
        submit()
    submit(queue="later", not_before="2199-01-01T00:00:00Z")
    for _ in range(2):
        submit(queue="grouped", group={"id": "g", "limit": 1})
    none = {"ready": 0, "delayed": 0, "blocked": 0, "capped": 0, "leased": 0, "paused": False}
    with opened() as store:
        claim_one(store)
    assert installed.json("queues", "list") == [
        {**none, "queue": "default", "ready": 2, "leased": 1},
        {**none, "queue": "grouped", "ready": 1, "blocked": 1},
        {**none, "queue": "later", "delayed": 1},
    ]


def test_a_paused_queue_is_shown_and_gives_no_jobs_until_it_is_resumed(installed: Cli) -> None:
    submit()
    assert "no job" not in installed.ok("queues", "pause", "default").out
    assert installed.json("queues", "list")[0]["paused"]
    with opened() as store:
        assert store.inbox.claim("w1", 1) == []
    installed.ok("queues", "resume", "default")
    with opened() as store:
        assert len(store.inbox.claim("w1", 1)) == 1


def test_a_queue_without_jobs_is_paused_and_that_it_has_none_is_said(installed: Cli) -> None:
    submit()
    assert "no job waits or runs in it" in installed.ok("queues", "pause", "defualt").out
    assert [row["queue"] for row in installed.json("queues", "list") if row["paused"]] == ["defualt"]


def test_a_bad_queue_name_is_wrong_usage(installed: Cli) -> None:
    for command in ("pause", "resume"):
        assert "queue" in installed.fails("queues", command, "Not A Queue", code=2)
