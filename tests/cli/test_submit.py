"""submit, status and watch, against a real HTTP server that answers by a script."""

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from euterpe.cli.follow import follow
from euterpe.cli.output import note
from euterpe.cli.submit import WATCH_RETRY
from euterpe.client import Client, Event, JobFailed, Progress, RetryPolicy, Unreachable
from euterpe.crypto import apikeys
from tests.cli.command_runner import CANARY, Cli
from tests.client.scripted_server import (
    HELLO,
    JOB_ID,
    Answer,
    Disconnect,
    Server,
    SseStream,
    event,
    frame,
    job,
    problem,
    progress,
    running,
)
from tests.free_port import free_port

SUBMIT = ("submit", "s3://in/a.mov", "--to", "s3://out/a/", "--profile", "h264-720p")
OUTPUTS = [{"name": "mp4", "url": "s3://out/a/mp4.mp4"}]
WARNING = {"code": "output_failed", "output": "talk", "message": "talk could not be made"}
ERROR = {"code": "source_forbidden", "message": "the source answered 403\x1b[2J"}
SUCCESS = SseStream([HELLO, frame(1, "claimed"), progress(41.5), frame(2, "succeeded", outputs=OUTPUTS)])
SUCCEEDED = Answer(200, job("succeeded", warnings=[]))
FAILURE = SseStream([HELLO, frame(1, "claimed"), frame(2, "failed", error=ERROR)])


@pytest.fixture
def server(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Yield the server that the settings of the commands name."""
    del cli  # the fixture `cli` clears the environment, so `cli` must run first
    monkeypatch.setenv("EUTERPE_API_KEY", apikeys.mint().plaintext)
    with running() as started:
        monkeypatch.setenv("EUTERPE_URL", started.url)
        yield started


def test_a_job_is_submitted_with_what_the_options_say(cli: Cli, server: Server) -> None:
    server.script(Answer(202, job()))
    Path("s3.json").write_text(json.dumps({"type": "s3", "secret_access_key": CANARY}))
    ran = cli.ok(*SUBMIT, "--credentials", "s3.json", "--webhook", "https://me.example/hook")
    assert ran.out == f"{JOB_ID}\n"
    assert server.requests[0].json == {
        "source": {"url": "s3://in/a.mov"},
        "output": {"url": "s3://out/a/"},
        "profile": "h264-720p",
        "credentials": {"type": "s3", "secret_access_key": CANARY},
        "status_webhook_url": "https://me.example/hook",
    }


def test_files_of_this_machine_become_urls(cli: Cli, server: Server, tmp_path: Path) -> None:
    server.script(Answer(202, job()))
    Path("a b%.mov").touch()
    assert cli.json("submit", "a b%.mov", "--to", "out", "--profile", "h264-720p")["job_id"] == JOB_ID
    request = server.requests[0].json
    assert request["source"] == {"url": f"file://{tmp_path}/a%20b%25.mov"}
    assert request["output"] == {"url": f"file://{tmp_path}/out/"}


def test_on_a_terminal_submit_prints_the_status_of_the_new_job(
    cli: Cli, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.script(Answer(202, job()))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert cli.ok(*SUBMIT).out == f"{JOB_ID} is queued\n"


def test_a_job_is_shown_for_people_and_for_programs(cli: Cli, server: Server) -> None:
    document = job("processing", progress=41.5)
    server.script(Answer(200, document), Answer(200, document))
    assert cli.json("status", JOB_ID) == document
    assert "progress            41.5" in cli.ok("status", JOB_ID).out


def test_on_a_terminal_a_job_is_shown_without_json(
    cli: Cli, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = job("succeeded", outputs=OUTPUTS, metadata={"show": "news"})
    server.script(Answer(200, document), Answer(200, document))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    text = cli.ok("status", JOB_ID).out
    assert text.startswith(f"{JOB_ID}  succeeded\n")
    assert "show=news" in text
    assert "s3://out/a/mp4.mp4" in text
    assert not set('{}[]"') & set(text)
    assert cli.json("status", JOB_ID) == document


def test_the_error_of_a_job_has_the_name_of_its_field(cli: Cli, server: Server) -> None:
    server.script(Answer(200, job("queued", error=ERROR)), Answer(200, job("failed", error=ERROR)))
    queued, failed = (cli.ok("status", JOB_ID).out.splitlines() for _ in range(2))
    for lines in (queued, failed):
        assert [line.split()[0] for line in lines if "403" in line] == ["error"]


def test_the_url_may_be_an_option(cli: Cli, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EUTERPE_URL", "http://127.0.0.1:1")
    server.script(Answer(200, job()))
    cli.ok("status", JOB_ID, "--url", server.url)


# -- watch


def test_a_watch_prints_a_line_for_each_event_and_then_the_outputs(cli: Cli, server: Server) -> None:
    server.script(SUCCESS, SUCCEEDED)
    at = event(1, "claimed")["occurred_at"]
    assert cli.ok("watch", JOB_ID).out.splitlines() == [
        f"{at}  claimed",
        f"{at}  succeeded",
        "mp4  s3://out/a/mp4.mp4",
    ]


def test_a_watch_for_programs_is_a_json_line_for_each_event(cli: Cli, server: Server) -> None:
    server.script(SUCCESS, Answer(202, job()), SUCCESS)
    watched = cli.ok("watch", JOB_ID, "--json").out
    lines = [json.loads(line) for line in watched.splitlines()]
    assert [line["status"] for line in lines] == ["claimed", "processing", "succeeded"]
    assert (lines[0], lines[1]["progress"]) == (event(1, "claimed"), 41.5)
    assert cli.ok(*SUBMIT, "--watch", "--json").out == watched


def test_a_submit_may_stay_until_the_job_has_finished(cli: Cli, server: Server) -> None:
    server.script(Answer(202, job()), SUCCESS, SUCCEEDED)
    assert cli.ok(*SUBMIT, "--watch").out.splitlines()[0] == JOB_ID
    assert server.calls == ["POST /transcode", f"GET /transcode/{JOB_ID}/events", "GET /transcode/status"]


@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_watch_ends_with_the_warnings_of_the_job(
    cli: Cli, server: Server, monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    server.script(SUCCESS, Answer(200, job("succeeded", warnings=[WARNING])))
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)
    monkeypatch.setenv("TERM", "dumb")
    *_, heading, columns, row = cli.ok("watch", JOB_ID).out.splitlines()
    assert heading == "warnings"
    assert columns.split() == ["output", "code", "message"]
    assert row.split(maxsplit=2) == list(map(WARNING.get, ("output", "code", "message")))


def test_a_job_has_succeeded_even_if_its_warnings_cannot_be_read(cli: Cli, server: Server) -> None:
    server.script(SUCCESS, problem(410, "pruned", "the job was pruned"))
    ran = cli("watch", JOB_ID)
    assert (ran.code, ran.err) == (0, "the warnings of the job are not known: the job was pruned\n")


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_job_that_fails_is_a_failure(cli: Cli, server: Server, options: tuple[str, ...]) -> None:
    server.script(FAILURE)
    ran = cli("watch", JOB_ID, *options)
    (line,) = ran.err.splitlines()
    assert ran.code == 1
    assert f"{JOB_ID} ended as failed: source_forbidden: the source answered 403" in line
    assert line.endswith("; what helps: send credentials that may read the source, then retry")
    assert "\x1b" not in ran.out + ran.err


@pytest.mark.parametrize("command", [("watch", JOB_ID), (*SUBMIT, "--watch")], ids=["watch", "submit"])
def test_a_watch_that_loses_the_service_is_not_a_job_that_failed(
    cli: Cli, server: Server, command: tuple[str, ...]
) -> None:
    down = problem(503, "unavailable", "the database does not answer", headers={"retry-after": "61"})
    server.script(*[Answer(202, job())] * (command[0] == "submit"), down)
    ran = cli(*command)
    outage, resume = ran.err.splitlines()
    assert ran.code == 3
    assert outage.startswith("error: the database does not answer")
    assert resume == f"the job goes on; `euterpe watch {JOB_ID}` follows it again"


def test_a_watch_outlasts_an_outage_of_a_minute() -> None:
    gone = Unreachable("no answer")
    tries = range(1, WATCH_RETRY.attempts)
    pauses = [WATCH_RETRY.pause_s(gone, tried=n, idempotent=True, drawn=0.0) for n in tries]
    assert sum(filter(None, pauses)) > 60


def test_a_note_does_not_break_the_progress_bar() -> None:
    def updates() -> Iterator[Event | Progress]:
        yield Event.read(event(1, "processing"))
        note("no answer; trying again")

    lines = on_a_terminal(updates()).splitlines()
    assert [line.strip() for line in lines if "again" in line][-1].endswith("\x1b[2Kno answer; trying again")


def test_an_interrupted_watch_prints_how_to_resume_it(
    cli: Cli, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("euterpe.cli.submit.follow", interrupted)
    ran = cli("watch", JOB_ID)
    assert (ran.code, ran.err) == (3, f"the job goes on; `euterpe watch {JOB_ID}` follows it again\n")
    assert not server.requests


def test_on_a_terminal_the_outputs_of_a_watched_job_are_printed_once(
    cli: Cli, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.script(SUCCESS, SUCCEEDED)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    assert cli.ok("watch", JOB_ID).out.count("s3://out/a/mp4.mp4") == 1


def on_a_terminal(updates: Iterable[Event | Progress]) -> str:
    screen = StringIO()
    console = Console(file=screen, force_terminal=True, width=100, color_system=None)
    with suppress(JobFailed):
        follow(updates, as_json=False, console=console)
    return screen.getvalue()


def test_on_a_terminal_a_bar_shows_how_far_how_fast_and_how_long() -> None:
    pace = {"job_id": JOB_ID, "status": "processing", "progress": 41.5, "speed": 3.12, "eta_seconds": 3671.7}
    shown = on_a_terminal([Event.read(event(1, "claimed")), Progress.read(pace)])
    assert "processing" in shown
    assert "41.5 %" in shown
    assert "3.1x, 1:01:12 to go" in shown
    assert "0:07 to go" in on_a_terminal([Progress.read({**pace, "eta_seconds": 7.0})])


def test_a_job_that_is_tried_again_names_the_attempt_that_failed() -> None:
    again = {**event(4, "queued"), "attempt_count": 2}
    assert "queued, attempt 2 failed" in on_a_terminal([Event.read(again)])


def test_the_bar_of_a_job_that_succeeded_is_full() -> None:
    shown = on_a_terminal([Event.read(event(1, "succeeded"))])
    assert "succeeded" in shown
    assert "100.0 %" in shown


# -- errors


def test_every_error_of_a_request_is_told(cli: Cli, server: Server) -> None:
    errors = [{"loc": ["source", "url"], "msg": "must begin with s3://"}]
    server.script(problem(422, "invalid_request", "the request has 1 error", errors=errors))
    assert cli.fails(*SUBMIT) == "the request has 1 error: SOURCE: must begin with s3://"


def test_a_file_that_is_refused_is_named_in_full(cli: Cli, server: Server, tmp_path: Path) -> None:
    errors = [{"loc": [side, "url"], "msg": "must be allowed"} for side in ("source", "output")]
    refused = problem(422, "invalid_request", "the request has errors", errors=errors)
    server.script(refused, refused)
    Path("a.mov").touch()
    line = cli.fails("submit", "a.mov", "--to", "out", "--profile", "h264-720p")
    assert line.endswith(f"--to: must be allowed (file://{tmp_path}/a.mov, file://{tmp_path}/out/)")
    assert "s3://" not in cli.fails(*SUBMIT)


@pytest.mark.parametrize("command", [("status", JOB_ID), ("watch", JOB_ID)], ids=" ".join)
def test_an_outage_is_reported_once_while_it_lasts(
    cli: Cli, server: Server, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setattr("euterpe.cli.submit.Client", partial(Client, retry=RetryPolicy(first_pause_s=0.0)))
    replies = (SUCCESS, SUCCEEDED) if command[0] == "watch" else (SUCCEEDED,)
    server.script(Disconnect(), Disconnect(), *replies)
    ran = cli(*command)
    (line,) = ran.err.splitlines()
    assert ran.code == 0
    assert line.startswith(f"no answer from {server.url.removeprefix('http://')}: ")
    assert line.endswith("; trying again")


@pytest.mark.parametrize("command", [("status", JOB_ID), ("watch", JOB_ID)], ids=" ".join)
def test_a_refusal_is_one_line(cli: Cli, server: Server, command: tuple[str, ...]) -> None:
    server.script(problem(404, "not_found", "there is no such job"))
    assert cli.fails(*command) == "there is no such job"


def test_a_service_that_is_not_there_is_one_line(
    cli: Cli, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("euterpe.cli.submit.Client", partial(Client, retry=RetryPolicy(attempts=1)))
    address = f"127.0.0.1:{free_port()}"
    assert address in cli.fails("status", JOB_ID, "--url", f"http://{address}")
    assert not server.requests


@pytest.mark.parametrize("key", ["", CANARY])
@pytest.mark.parametrize("command", [SUBMIT, ("status", JOB_ID), ("watch", JOB_ID)], ids=" ".join)
def test_without_a_well_formed_key_nothing_is_sent(
    cli: Cli, server: Server, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], key: str
) -> None:
    monkeypatch.setenv("EUTERPE_API_KEY", key)
    line = cli.fails(*command, code=2)
    assert "EUTERPE_API_KEY" in line
    assert CANARY not in line
    assert not server.requests


@pytest.mark.parametrize("content", [None, "", "[]", CANARY, "[" * 100_000])
def test_a_credentials_file_that_is_none_is_wrong_usage(
    cli: Cli, server: Server, content: str | None
) -> None:
    if content is not None:
        Path("s3.json").write_text(content)
    line = cli.fails(*SUBMIT, "--credentials", "s3.json", code=2)
    assert "s3.json" in line
    assert CANARY not in line
    assert not server.requests


@pytest.mark.parametrize(
    "argv",
    [
        ("submit", "no-such-file.mov", "--to", "s3://out/a/", "--profile", "h264-720p"),
        ("submit", "s3://in/a.mov", "--profile", "h264-720p"),
        ("submit", "s3://in/a.mov", "--to", "s3://out/a/"),
        ("submit", "--to", "s3://out/a/", "--profile", "h264-720p"),
        (*SUBMIT, "--output", "avi"),
        (*SUBMIT, "--output", "mp4"),
        (*SUBMIT, "--priority", "high"),
        (*SUBMIT, "--not-before", "tomorrow"),
        (*SUBMIT, "--timeout", "5"),
        (*SUBMIT, "--max-source", "big"),
        (*SUBMIT, "--metadata", "show"),
        (*SUBMIT, "--metadata", "{"),
        (*SUBMIT, "--idempotency-key", "with a blank"),
        (*SUBMIT, "--spec", "no-such-file.json"),
        ("status", JOB_ID, "--url", "nowhere"),
        ("status",),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_one_line(cli: Cli, server: Server, argv: tuple[str, ...]) -> None:
    cli.fails(*argv, code=2)
    assert not server.requests
