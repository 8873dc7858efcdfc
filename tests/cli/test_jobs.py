import pytest

from euterpe.cli.commands import opened
from euterpe.store.queue.jobs import Jobs
from tests.cli.command_runner import CANARY, Cli, fail_one, submit
from tests.store.attempts import release_job
from tests.store.jobs import claim_one


def test_the_list_is_newest_first_and_in_pages(installed: Cli) -> None:
    jobs = [submit() for _ in range(3)]
    assert [row["job_id"] for row in installed.json("jobs", "list")] == jobs[::-1]
    page = installed.json("jobs", "list", "--limit", "2")
    assert [row["job_id"] for row in page] == [jobs[2], jobs[1]]
    rest = installed.json("jobs", "list", "--before", jobs[1])
    assert [row["job_id"] for row in rest] == [jobs[0]]


def test_the_list_can_be_narrowed(installed: Cli) -> None:
    newsroom = installed.json("requester", "create", "newsroom")["requester_id"]
    failed, other, theirs = submit(), submit(), submit(newsroom)
    assert fail_one() == failed
    assert [row["job_id"] for row in installed.json("jobs", "list", "--status", "failed")] == [failed]
    both = installed.json("jobs", "list", "--status", "failed", "--status", "queued")
    assert {row["job_id"] for row in both} == {failed, other, theirs}
    mine = installed.json("jobs", "list", "--requester", "newsroom")
    assert [row["job_id"] for row in mine] == [theirs]


def test_a_table_is_never_cut_short(installed: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    job_id = submit(queue="a-queue-with-a-name-of-its-own")
    fail_one("a-queue-with-a-name-of-its-own")
    header, line = installed.ok("jobs", "list").out.splitlines()
    assert header.split() == ["job", "status", "queue", "attempts", "age", "last", "error"]
    assert line.split()[:4] == [job_id, "failed", "a-queue-with-a-name-of-its-own", "1/3"]
    assert line.endswith("source_forbidden")


def test_jobs_have_the_attempts_of_the_settings(installed: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EUTERPE_JOB_MAX_ATTEMPTS", "7")
    assert installed.json("jobs", "show", submit())["max_attempts"] == 7


def test_one_job_is_shown_with_its_attempts_and_events(installed: Cli) -> None:
    job_id = submit(external_id="asset-42", metadata={"shown": "\x1b[31m"})
    fail_one()
    job = installed.json("jobs", "show", job_id)
    assert (job["status"], job["external_id"], job["requester_id"]) == ("failed", "asset-42", "r1")
    assert [attempt["outcome"] for attempt in job["attempts"]] == ["failed"]
    assert [event["type"] for event in job["events"]] == ["job.claimed", "job.failed"]
    shown = installed.ok("jobs", "show", job_id).out
    assert "the source answered 403" in shown
    assert all(event["event_id"] in shown for event in job["events"])
    assert "\x1b" not in shown, "a requester's text must not steer the terminal"


def test_on_a_terminal_a_job_is_shown_for_people(installed: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = submit(external_id="asset-42", metadata={"show": "news"}, timeout_seconds=5400)
    fail_one()
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    text = installed.ok("jobs", "show", job_id).out
    assert text.startswith(f"{job_id}  failed\n")
    assert text.count("the source answered 403") == 1
    assert text.count("asset-42") == 1
    assert "90m" in text
    assert not set('{}[]"') & set(text)
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "attempts\n" in text
    assert "events and their webhooks\n" in text
    assert installed.json("jobs", "show", job_id)["external_id"] == "asset-42"


def test_a_job_with_very_many_events_is_shown_whole(installed: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = submit()
    page = Jobs.events
    monkeypatch.setattr(
        Jobs, "events", lambda jobs, job_id, *, after: page(jobs, job_id, after=after, limit=1)
    )
    fail_one()
    assert [event["sequence"] for event in installed.json("jobs", "show", job_id)["events"]] == [1, 2]


def test_a_shown_attempt_has_what_it_used_and_whether_that_is_final(installed: Cli) -> None:
    job_id = submit()
    usage = {"cpu_seconds": 2.5, "bytes_in": 4096, "measured": "last_beat"}
    with opened() as store:
        job = claim_one(store)
        store.inbox.heartbeat([job], used={job_id: usage})
    assert "≥ 2.5" in installed.ok("jobs", "show", job_id).out
    with opened() as store:
        release_job(store, job, timings={**usage, "measured": "final"})
    (attempt,) = installed.json("jobs", "show", job_id)["attempts"]
    assert attempt["timings"] == {**usage, "measured": "final"}
    shown = installed.ok("jobs", "show", job_id).out
    assert "4096" in shown
    assert "≥" not in shown


def test_credentials_are_never_shown(installed: Cli) -> None:
    job_id = submit(source={"url": f"https://cdn.example/a.mov?signature={CANARY}"}, credentials=None)
    submit()
    fail_one()
    for command in (("jobs", "list"), ("jobs", "show", job_id), ("outbox", "list")):
        for options in ((), ("--json",)):
            assert CANARY not in installed.ok(*command, *options).out


def test_a_failed_job_is_retried_while_it_has_attempts_left(installed: Cli) -> None:
    job_id = submit(max_attempts=2)
    fail_one()
    assert "queued again" in installed.ok("jobs", "retry", job_id).out
    assert "\nerror " in installed.ok("jobs", "show", job_id).out
    fail_one()
    assert installed.json("jobs", "show", job_id)["status"] == "dead_letter"
    assert "only a failed job" in installed.fails("jobs", "retry", job_id)


def test_a_waiting_job_is_canceled_at_once_and_a_running_one_is_asked(installed: Cli) -> None:
    waiting = submit()
    assert "is canceled" in installed.ok("jobs", "cancel", waiting).out
    assert "cannot be canceled" in installed.fails("jobs", "cancel", waiting)
    running = submit()
    with opened() as store:
        claim_one(store)
    assert "stops it at the next heartbeat" in installed.ok("jobs", "cancel", running).out
    assert installed.json("jobs", "cancel", running)["cancel_requested"]


def test_an_unknown_job_is_named(installed: Cli) -> None:
    for command in ("show", "retry", "cancel"):
        assert "there is no job 'nope'" in installed.fails("jobs", command, "nope")
