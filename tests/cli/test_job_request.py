"""The request that `euterpe submit` makes from a spec and its options, and the names in its errors."""

import json
import time
from collections.abc import Iterator
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from euterpe.cli.job_request import OPTIONS, JobRequest
from euterpe.client import Invalid
from euterpe.crypto import apikeys
from euterpe.domain.errors import InvalidSpec
from euterpe.domain.model import StrictModel
from euterpe.domain.spec import JobSpec, parse_spec
from tests.cli.command_runner import CANARY, Cli
from tests.client.scripted_server import Answer, Server, job, problem, running

SOURCE, TO = ("submit", "s3://in/a.mov"), ("--to", "s3://out/a/")
SPEC = {
    "source": {"url": "s3://in/a.mov"},
    "output": {"url": "s3://out/a/"},
    "outputs": [{"name": "mp4", "type": "mp4"}],
    "group": "news",
    "priority": 10,
    "metadata": {"show": "morning", "season": 3},
}


@pytest.fixture
def server(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    del cli  # `cli` clears the environment, so it must run first
    monkeypatch.setenv("EUTERPE_API_KEY", apikeys.mint().plaintext)
    with running() as started:
        monkeypatch.setenv("EUTERPE_URL", started.url)
        yield started


def sent(cli: Cli, server: Server, *argv: str) -> Any:
    """Run the command and return the body of its request."""
    server.script(Answer(202, job()))
    cli.ok(*argv)
    return server.requests[-1].json


def refused(cli: Cli, server: Server, argv: tuple[str, ...], *loc: str | int) -> str:
    """Run the command against a service that refuses this field, and return the error line."""
    errors = [{"loc": list(loc), "msg": "is wrong"}]
    server.script(problem(422, "invalid_request", "the request has 1 error", errors=errors))
    return cli.fails(*argv).removeprefix("the request has 1 error: ")


def spec_file(spec: object = SPEC) -> tuple[str, ...]:
    Path("job.json").write_text(json.dumps(spec))
    return ("submit", "--spec", "job.json")


# -- options


def test_every_field_of_a_job_has_an_option() -> None:
    assert {str(loc[0]) for loc in OPTIONS} == set(JobSpec.model_fields)


def test_options_become_the_fields_of_the_job(cli: Cli, server: Server) -> None:
    body = sent(
        cli,
        server,
        *SOURCE,
        *TO,
        *("--output", "mp4,height=720", "--output", "m4a"),
        *("--refresh-url", "https://me.example/creds", "--webhook", "https://me.example/hook"),
        *("--webhook-event", "succeeded", "--webhook-event", "failed", "--webhook-format", "standard"),
        *("--queue", "slow", "--priority", "70", "--group", "news, morning", "--group-limit", "2"),
        *("--not-before", "2030-01-31T12:00:00Z", "--max-attempts", "5", "--timeout", "2h"),
        *("--max-source", "2.5GiB", "--external-id", "asset-42"),
        *("--metadata", "show=a=b", "--metadata", '{"season": 3}'),
    )
    assert body == {
        "source": {"url": "s3://in/a.mov"},
        "output": {"url": "s3://out/a/"},
        "outputs": [
            {"name": "mp4", "type": "mp4", "video": {"height": 720}},
            {"name": "m4a", "type": "m4a"},
        ],
        "refresh_url": "https://me.example/creds",
        "status_webhook_url": "https://me.example/hook",
        "webhook_events": ["succeeded", "failed"],
        "webhook_format": "standard",
        "queue": "slow",
        "priority": 70,
        "group": {"id": "news, morning", "limit": 2},
        "not_before": "2030-01-31T12:00:00.000Z",
        "max_attempts": 5,
        "timeout_seconds": 7200,
        "max_source_bytes": 2_684_354_560,
        "external_id": "asset-42",
        "metadata": {"show": "a=b", "season": 3},
    }
    assert isinstance(parse_spec(body), StrictModel)


def test_a_job_may_begin_after_a_while(cli: Cli, server: Server) -> None:
    body = sent(cli, server, *SOURCE, *TO, "--profile", "audio-aac", "--not-before", "10m")
    spec = parse_spec(body)
    assert spec.not_before is not None
    assert 590 < spec.not_before / 1000 - time.time() < 610


def test_an_idempotency_key_is_sent_as_it_is(cli: Cli, server: Server) -> None:
    sent(cli, server, *SOURCE, *TO, "--profile", "audio-aac", "--idempotency-key", "asset-42")
    assert server.requests[-1].headers["idempotency-key"] == "asset-42"


# -- a spec


def test_a_spec_alone_is_sent_as_it_is(cli: Cli, server: Server) -> None:
    assert sent(cli, server, *spec_file()) == {**SPEC, "group": {"id": "news"}}


def test_a_spec_is_read_from_stdin(cli: Cli, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(json.dumps(SPEC).encode())))
    assert sent(cli, server, "submit", "--spec", "-")["priority"] == 10
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(b"")))
    assert "stdin: is not JSON" in cli.fails("submit", "--spec", "-", code=2)


def test_options_override_the_spec(cli: Cli, server: Server) -> None:
    more = ("s3://in/b.mov", "--priority", "70", "--group-limit", "3", "--metadata", "show=evening")
    assert sent(cli, server, *spec_file(), *more) == {
        **SPEC,
        "source": {"url": "s3://in/b.mov"},
        "priority": 70,
        "group": {"id": "news", "limit": 3},
        "metadata": {"show": "evening", "season": 3},
    }


def test_the_picture_of_a_watermark_may_be_a_local_path(cli: Cli, server: Server) -> None:
    Path("logo.png").touch()
    body = sent(cli, server, *SOURCE, *TO, "--output", "mp4,watermark.source.url=logo.png")
    assert body["outputs"][0]["watermark"]["source"]["url"] == Path("logo.png").resolve().as_uri()
    wrong = cli.fails(*SOURCE, *TO, "--output", "mp4,watermark.source.url=none.png", code=2)
    assert "is neither a URL nor a file: none.png" in wrong


def test_a_profile_replaces_the_outputs_of_the_spec_and_the_other_way_round(cli: Cli, server: Server) -> None:
    body = sent(cli, server, *spec_file(), "--profile", "audio-aac")
    assert (body["profile"], "outputs" in body) == ("audio-aac", False)
    spec = {"source": SPEC["source"], "output": SPEC["output"], "profile": "audio-aac"}
    body = sent(cli, server, *spec_file(spec), "--output", "m4a")
    assert (body["outputs"], "profile" in body) == ([{"name": "m4a", "type": "m4a"}], False)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "job.json: is not JSON at line 1"),
        ("[]", "job.json: must be a JSON object"),
        ('{"queue": "a", "queue": "b"}', "job.json: queue: is given more than once"),
        (f'{{"credentials": {CANARY}', "job.json: is not JSON"),
        ("[" * 100_000, "job.json: is nested too deeply"),
        (f'"{"x" * 300_000}"', "job.json: is 262145 bytes long"),
    ],
)
def test_a_spec_that_is_no_object_is_wrong_usage(cli: Cli, server: Server, content: str, says: str) -> None:
    Path("job.json").write_text(content)
    line = cli.fails("submit", "--spec", "job.json", code=2)
    assert "--spec" in line
    assert says in line
    assert CANARY not in line
    assert not server.requests


def test_without_a_spec_the_missing_options_are_named(cli: Cli) -> None:
    assert "give SOURCE, --to, --profile or --output; or the whole job" in cli.fails("submit", code=2)
    assert "give --profile or --output; or the" in cli.fails(*SOURCE, *TO, code=2)


# -- errors of the service


def test_an_error_names_the_option_that_set_the_field(cli: Cli, server: Server) -> None:
    Path("s3.json").write_text('{"type": "s3"}')
    outputs = ("--output", "mp4", "--output", "m4a,name=sound", "--credentials", "s3.json")
    command = (*SOURCE, *TO, *outputs, "--group", "g", "--metadata", "a=b")
    assert refused(cli, server, command, "source", "url") == "SOURCE: is wrong"
    assert (
        refused(cli, server, command, "outputs", 1, "audio", "codec")
        == "--output sound: audio.codec: is wrong"
    )
    assert refused(cli, server, command, "outputs") == "--output: is wrong"
    assert refused(cli, server, command, "credentials", "region") == "--credentials: region: is wrong"
    assert refused(cli, server, command, "group", "id") == "--group: is wrong"
    assert refused(cli, server, command, "metadata", "a") == "--metadata: a: is wrong"


def test_an_error_names_the_path_in_the_spec(cli: Cli, server: Server) -> None:
    command = (*spec_file(), "--priority", "999", "--metadata", "show=evening")
    assert refused(cli, server, command, "priority") == "--priority: is wrong"
    assert refused(cli, server, command, "outputs", 0, "video") == "job.json: outputs.0.video: is wrong"
    assert refused(cli, server, command, "metadata", "season") == "job.json: metadata.season: is wrong"
    assert refused(cli, server, command, "metadata", "show") == "--metadata: show: is wrong"
    assert refused(cli, server, command) == "job.json: body: is wrong"


def test_the_errors_of_a_real_check_are_named_by_their_options() -> None:
    outputs = [{"name": "a", "type": "mp4", "video": {"codec": "hevc", "crf": 60}}]
    given = {"priority": 101, "group": {"id": "g", "limit": 0}, "outputs": outputs}
    request = JobRequest(given, {"source": {}, "output": SPEC["output"]}, "job.json")
    with pytest.raises(InvalidSpec) as raised:
        parse_spec(request.body)
    refusal = Invalid("the request has 4 errors")
    refusal.errors = raised.value.errors
    assert str(request.named(refusal)) == (
        "the request has 4 errors: job.json: source.url: is required; "
        "--output a: video.crf: must be at most 51 for this codec; "
        "--priority: must be at most 100; --group-limit: must be at least 1"
    )
