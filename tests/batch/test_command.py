"""The command `euterpe batch`, with the real service on SQLite."""

import json
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from euterpe.batch.submission import Submission
from euterpe.client import Client
from euterpe.crypto import apikeys
from euterpe.domain.error_codes import ErrorCode, RetryClass
from euterpe.domain.retry import JobError
from euterpe.domain.scopes import Scope
from tests.api.serving import FORBIDDEN_BUCKET, Requester, Served
from tests.batch.manifests import KINDS, cells, write
from tests.cli.command_runner import CANARY, Cli, Ran
from tests.client.scripted_server import AT_ONCE, Answer, job, problem, running
from tests.store.attempts import fail_job
from tests.store.jobs import claim_one

BAD = {"priority": 101}
DOCS = Path(__file__).parents[2] / "docs" / "batch.md"


@pytest.fixture
def submit(with_spark: Cli, requester: Requester) -> Callable[..., Ran]:
    del requester  # the fixture sets the URL and the API key

    def run(*options: str) -> Ran:
        return with_spark("batch", "submit", *options, "--json")

    return run


def jobs_of(requester: Requester, served: Served) -> list[str]:
    """Return the output URLs of the requester's jobs."""
    with Client(served.url, requester.key) as client:
        ids = [job.job_id for job in client.jobs(limit=100)]
    return [served.store.jobs.get(job_id).spec["output"]["url"] for job_id in ids]


def counts(ran: Ran) -> tuple[int, int]:
    """Return the number of new jobs, and the number of jobs that existed before."""
    assert ran.code == 0, ran.err
    return ran.json["accepted"], ran.json["already_there"]


# -- submit


@pytest.mark.parametrize("kind", KINDS)
def test_a_thousand_rows_are_a_thousand_jobs_and_a_rerun_adds_only_what_is_new(
    submit: Callable[..., Ran], requester: Requester, served: Served, folder: Path, kind: str
) -> None:
    rows = 1000 if kind == "csv" else 30
    table = [cells(n, priority=n % 100) for n in range(rows)]
    name = write(folder / f"june.{kind}", table).name
    assert counts(submit(name)) == (rows, 0)
    table[rows // 2] |= {"output.url": "s3://out/changed/"}
    write(folder / name, table)
    assert counts(submit(name)) == (1, rows - 1)
    assert served.store.jobs.unfinished(requester.id, at_most=2000) == rows + 1
    if kind != "csv":
        assert counts(submit(name)) == (0, rows)
        assert len(set(jobs_of(requester, served))) == rows + 1


def test_a_bad_row_prevents_the_submission_unless_bad_rows_are_skipped(
    submit: Callable[..., Ran], folder: Path
) -> None:
    write(folder / "june.csv", [cells(1), cells(2) | BAD, cells(3), cells(3)])
    ran = submit("june.csv", "--rejects", "bad.csv")
    assert ran.code == 1
    assert ran.err.splitlines() == [
        "checking every row with Spark",
        "june.csv:3: priority: must be at most 100",
        "june.csv:5: is the same job as june.csv:4, which is submitted once",
        "error: nothing was submitted: correct the 1 bad rows, or leave them out with --skip-bad",
    ]
    numbers = {"rows": 4, "bad": 1, "duplicates": 1, "accepted": 0, "already_there": 0, "refused": 0}
    assert ran.json == numbers
    assert Path("bad.csv").read_text().splitlines()[1:] == ["june.csv,3,priority,must be at most 100"]
    assert not Path("june.csv.jobs").exists()
    ran = submit("june.csv", "--skip-bad")
    assert (ran.code, ran.json) == (1, {**numbers, "accepted": 2})
    assert ran.err.splitlines()[-1] == "error: 1 bad rows were left out"


def test_of_many_bad_rows_the_first_are_shown(submit: Callable[..., Ran], folder: Path) -> None:
    write(folder / "june.csv", [cells(n) | BAD for n in range(25)])
    ran = submit("june.csv", "--rejects", "bad.jsonl")
    assert ran.err.count("must be at most 100") == 20
    assert "and 5 more; bad.jsonl has all errors" in ran.err
    assert len(Path("bad.jsonl").read_text().splitlines()) == 25


def test_a_dry_run_needs_no_key_and_no_service(with_spark: Cli, folder: Path) -> None:
    write(folder / "june.csv", [cells(1), cells(2)])
    ran = with_spark("batch", "submit", "june.csv", "--dry-run")
    assert ran.code == 0
    assert [line.split() for line in ran.out.splitlines()[:2]] == [["rows", "2"], ["bad", "0"]]
    assert sorted(os.listdir()) == ["june.csv"]  # noqa: PTH208


def test_what_the_service_refuses_is_reported_with_its_row(submit: Callable[..., Ran], folder: Path) -> None:
    write(folder / "june.csv", [cells(1), cells(2) | {"output.url": FORBIDDEN_BUCKET}])
    ran = submit("june.csv")
    assert (ran.code, ran.json["accepted"], ran.json["refused"]) == (1, 1, 1)
    assert "june.csv:3: " in ran.err
    assert "output.url: is not allowed here" in ran.err
    assert ran.err.splitlines()[-1] == "error: the service refused 1 rows: 1 × invalid_request"


def test_a_key_that_is_refused_ends_it_before_the_rows_are_checked(
    with_spark: Cli, requester: Requester, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del requester  # the fixture sets the URL and an API key; the test replaces the key
    write(folder / "june.csv", [cells(1)])
    monkeypatch.setenv("EUTERPE_API_KEY", apikeys.mint().plaintext)
    ran = with_spark("batch", "submit", "june.csv")
    assert ran.code == 1
    (line,) = ran.err.splitlines()
    assert "API key" in line


def test_a_row_may_name_a_profile_of_the_operator(
    with_spark: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder / "june.csv", [cells(1) | {"profile": "our-own"}])
    monkeypatch.setenv("EUTERPE_API_KEY", apikeys.mint().plaintext)
    with running() as server:
        server.script(Answer(200, {"profiles": [{"name": "our-own"}]}), Answer(202, job()))
        ran = with_spark("batch", "submit", "june.csv", "--url", server.url)
    assert ran.code == 0, ran.err


def test_a_key_that_may_only_submit_is_enough(
    with_spark: Cli, served: Served, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder / "june.csv", [cells(1), cells(2) | {"profile": "our-own"}])
    monkeypatch.setenv("EUTERPE_API_KEY", served.requester("writer", Scope.WRITE).key)
    ran = with_spark("batch", "submit", "june.csv", "--skip-bad", "--url", served.url, "--json")
    assert (ran.json["accepted"], ran.json["bad"]) == (1, 1)


def test_credentials_are_sent_and_never_shown(
    submit: Callable[..., Ran], served: Served, folder: Path
) -> None:
    keys = {"type": "s3", "access_key_id": "AKIA", "secret_access_key": CANARY}
    (folder / "s3.json").write_text(json.dumps(keys))
    own = {f"credentials.{name}": value for name, value in keys.items()}
    write(
        folder / "june.csv",
        [cells(1), cells(2) | own, cells(3) | own | BAD, cells(4) | {"credentials.type": "gs"}],
    )
    ran = submit("june.csv", "--credentials", "s3.json", "--skip-bad", "--rejects", "bad.csv")
    assert (ran.json["accepted"], ran.json["bad"]) == (2, 2)
    for _ in range(2):
        secret, _version = served.store.credentials.open(claim_one(served.store))
        assert CANARY.encode() in (secret or b"")
    for output in (ran.out, ran.err, Path("bad.csv").read_text(), Path("june.csv.jobs").read_text()):
        assert CANARY not in output


def test_set_fills_what_rows_leave_open(
    submit: Callable[..., Ran], requester: Requester, served: Served, folder: Path
) -> None:
    (folder / "june.csv").write_text("source.url,priority\ns3://in/a.mov,\ns3://in/b.mov,70\n")
    given = ("profile=audio-aac", "output.url=s3://out/all/", "priority=20", "metadata.from=june")
    assert counts(submit("june.csv", *(word for each in given for word in ("--set", each)))) == (2, 0)
    with Client(served.url, requester.key) as client:
        shown = {(job.priority, job.metadata["from"]) for job in client.jobs()}
    assert shown == {(20, "june"), (70, "june")}


def test_an_outage_that_all_rows_meet_is_reported_once(
    with_spark: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder / "june.csv", [cells(n) for n in range(8)])
    monkeypatch.setenv("EUTERPE_API_KEY", apikeys.mint().plaintext)
    with running() as server:
        full = problem(429, "queue_full", "it is full", headers=AT_ONCE)
        profiles = Answer(200, {"profiles": [{"name": "h264-720p"}]})
        server.script(profiles, *[full] * 8, *[Answer(202, job())] * 8)
        ran = with_spark("batch", "submit", "june.csv", "--url", server.url)
    assert ran.code == 0
    assert ran.err.count("it is full; trying again") == 1


def test_an_interrupt_prints_how_to_continue(
    submit: Callable[..., Ran], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: Submission) -> None:
        raise KeyboardInterrupt

    write(folder / "june.csv", [cells(1)])
    monkeypatch.setattr(Submission, "run", interrupted)
    ran = submit("june.csv")
    assert ran.code == 1
    assert ran.err.splitlines()[1:] == ["what was submitted goes on; the same command submits the rest"]


def test_the_example_of_the_docs_works(with_spark: Cli, requester: Requester, folder: Path) -> None:
    del requester  # the fixture sets the URL and the API key
    table, commands = (_blocks(DOCS.read_text(), language)[-1] for language in ("csv", "sh"))
    (folder / "june.csv").write_text(table)
    *submits, _status, _wait = [shlex.split(line, comments=True)[1:] for line in commands.splitlines()]
    assert [with_spark(*arguments).code for arguments in submits] == [0, 0]
    assert with_spark("batch", "status", "june.csv", "--json").json["by_status"] == {"queued": 3}


def _blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


# -- errors that are found before Spark starts


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("june.csv", None, "june.csv: No such file or directory"),
        ("june.csv", b"", "june.csv: is empty"),
        ("june.csv", b"source.url,output.url\n", "june.csv: has no rows"),
        ("june.csv", b"\xff\xfes\x00o\x00", "june.csv: is not UTF-8, it looks like UTF-16: save it as UTF-8"),
        (
            "june.csv",
            b"profil\nx\n",
            "june.csv: has columns that are no field of a job: 'profil' (did you mean",
        ),
        ("june.csv", b"pro\xe9,queue\n", "june.csv: is not UTF-8: save it as UTF-8"),
        ("june.xlsx", b"PK", "june.xlsx: its name must end with one of"),
    ],
)
def test_a_manifest_that_cannot_be_read_is_reported_in_one_sentence(
    cli: Cli, folder: Path, name: str, content: bytes | None, message: str
) -> None:
    if content is not None:
        (folder / name).write_bytes(content)
    assert f"MANIFEST: {message}" in cli.fails("batch", "submit", name, "--dry-run", code=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--set", "profile"), "must be COLUMN=VALUE, not 'profile'"),
        (("--set", "profil=x"), "'profil' (did you mean 'profile'?) is not a field of a job"),
        (("--set", "outputs=[}"), "outputs: is not JSON"),
        (("--set", "group=a", "--set", "group.id=b"), "group.id: is given more than once"),
        (("--max-in-flight", "0"), "--max-in-flight"),
        (("--rejects", "no/where.csv"), "--rejects: no/where.csv: No such file or directory"),
        (("--rejects", "june.csv"), "--rejects: june.csv is the manifest"),
        (("--jobs", "./june.csv"), "--jobs: june.csv is the manifest"),
        (("--rejects", "link.csv"), "--rejects: link.csv is the manifest"),
        (("--credentials", "s3.json"), "--credentials: s3.json: No such file or directory"),
    ],
)
def test_wrong_options_are_usage_errors(
    cli: Cli, folder: Path, options: tuple[str, ...], message: str
) -> None:
    before = write(folder / "june.csv", [cells(1)]).read_bytes()
    (folder / "link.csv").symlink_to("june.csv")
    assert message in cli.fails("batch", "submit", "june.csv", "--dry-run", *options, code=2)
    assert (folder / "june.csv").read_bytes() == before


def test_a_missing_key_is_reported_before_spark_starts(cli: Cli, folder: Path) -> None:
    write(folder / "june.csv", [cells(1)])
    assert "EUTERPE_API_KEY: is not set" in cli.fails("batch", "submit", "june.csv", code=2)


def test_without_java_it_says_so(cli: Cli, folder: Path) -> None:
    write(folder / "june.csv", [cells(1)])
    ran = cli("batch", "submit", "june.csv", "--dry-run")
    assert ran.code == 1
    assert ran.err.splitlines()[-1].startswith("error: no Java was found, and Spark needs Java 17 or newer")


# -- status, which needs no Spark


def test_the_status_is_that_of_the_jobs_of_the_manifest(
    submit: Callable[..., Ran], with_spark: Cli, served: Served, folder: Path
) -> None:
    write(folder / "june.csv", [cells(n) for n in range(3)])
    assert counts(submit("june.csv")) == (3, 0)
    failed = claim_one(served.store)
    fail_job(
        served.store,
        failed,
        JobError(ErrorCode.SOURCE_FORBIDDEN, "the source answered 403", "claimed", RetryClass.PERMANENT),
    )
    ran = with_spark("batch", "status", "june.csv", "--json")
    assert (ran.code, ran.json["by_status"]) == (1, {"queued": 2, "failed": 1})
    assert ran.err == "error: 2 of 3 jobs have not finished\n"
    (row,) = ran.json["failures"]["source_forbidden"]["rows"]
    ran = with_spark("batch", "status", "--jobs", "june.csv.jobs")
    assert ran.out.splitlines() == [
        "1 of 3 rows have finished (33.3%)",
        "queued  2",
        "failed  1",
        f"1 × source_forbidden: {row}",
    ]


@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_status_may_wait_for_the_last_job(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    monkeypatch.setenv("EUTERPE_API_KEY", apikeys.mint().plaintext)
    if is_terminal:
        monkeypatch.setenv("TTY_COMPATIBLE", "1")
    job_id = job()["job_id"]
    lines = [{"rows": 1}, {"row": "june.csv:2", "job_id": job_id}]
    (folder / "june.csv.jobs").write_text("".join(json.dumps(line) + "\n" for line in lines))
    queued, succeeded = Answer(200, job()), Answer(200, job("succeeded"))
    with running() as server:
        server.script(queued, succeeded, succeeded)
        ran = cli("batch", "status", "june.csv", "--wait", "--url", server.url)
    assert ran.code == 0
    assert ran.out.splitlines() == ["1 of 1 rows have finished (100.0%)", "succeeded  1"]
    assert ("1 of 1 rows are finished" in ran.err) is not is_terminal
    assert ("1/1" in ran.err) is is_terminal


def test_a_status_without_a_jobs_file_says_which_command_writes_it(cli: Cli) -> None:
    assert "`euterpe batch submit` writes it" in cli.fails("batch", "status", "june.csv")
    assert "give the manifest" in cli.fails("batch", "status", code=2)
