"""`euterpe batch`: check a manifest of many jobs, submit its rows, and follow the jobs."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from euterpe.cli.commands import AsJson, command, group, importing, is_url, local_path
from euterpe.cli.job_request import read_credentials
from euterpe.cli.output import fields, json_document, note, out
from euterpe.cli.progress import FirstLines, OutageNotice, ProgressBar
from euterpe.cli.submit import HERE, KEY, Url, connected
from euterpe.client import Client, ClientError, Forbidden
from euterpe.domain.errors import InvalidSpec

if TYPE_CHECKING:
    from euterpe.batch.column_mapping import Document
    from euterpe.batch.files import File
    from euterpe.batch.row_problems import Problem, ProblemTotals, RowPlace
    from euterpe.batch.rows import Request
    from euterpe.batch.splits import Piece
    from euterpe.batch.status import BatchStatus
    from euterpe.batch.submission import Tally
    from euterpe.domain.profiles import Profiles

app = group(
    "Many jobs from one manifest: CSV, JSON lines or Parquet; a file, a folder, a pattern or s3://…",
    example="euterpe batch submit june.csv --set profile=h264-720p",
)


def manifest_place(text: str) -> str:
    """Return the argument unchanged. Raise `BadParameter` for a URL with a scheme other than s3."""
    if is_url(text) and not text.startswith("s3://"):
        raise typer.BadParameter(f"{text} is a URL; a manifest is a path of this machine, or s3://…")
    return text


Manifest = Annotated[
    str,
    typer.Argument(metavar="MANIFEST", parser=manifest_place, help="The file, folder, pattern or s3:// URL."),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="COLUMN=VALUE", help="The value for rows without one; repeatable."),
]
Credentials = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", parser=local_path, help="JSON with the keys of the storage, for rows without any."
    ),
]
MaxInFlight = Annotated[int, typer.Option(min=1, max=256, help="The most concurrent requests.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only check; submit nothing.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Submit the good rows even if there are bad ones.")]
RejectsFile = Annotated[
    Path | None,
    typer.Option(
        "--rejects",
        metavar="FILE",
        parser=local_path,
        help="Write every error of every row to this file: .csv or .jsonl.",
    ),
]
Jobs = Annotated[
    Path | None,
    typer.Option(
        "--jobs",
        metavar="FILE",
        parser=local_path,
        help="The file with each row's job; default MANIFEST.jobs.",
    ),
]
Master = Annotated[str, typer.Option(metavar="URL", help="Where Spark runs: local[*], spark://…, sc://…")]
Wait = Annotated[bool, typer.Option("--wait", help="Stay until the last job has finished.")]


@command(app, "submit", example="euterpe batch submit june.csv --set profile=h264-720p --rejects bad.csv")
def submit(
    manifest: Manifest,
    *,
    given: Set = None,
    credentials: Credentials = None,
    max_in_flight: MaxInFlight = 64,
    dry_run: DryRun = False,
    skip_bad: SkipBad = False,
    rejects: RejectsFile = None,
    jobs: Jobs = None,
    master: Master = "local[*]",
    url: Url = HERE,
    as_json: AsJson = False,
) -> None:
    """Check every row, then submit the rows. If the command runs again, no row gets a second job.

    The API key is in EUTERPE_API_KEY.
    """
    from euterpe.batch.jobs_file import jobs_path
    from euterpe.batch.rows import requests
    from euterpe.batch.status import BatchIncomplete
    from euterpe.batch.submission import Tally, refusal_reason

    if manifest.startswith("s3://") and not master.startswith("local"):
        raise typer.BadParameter(
            "needs a manifest that all Spark workers can read; one from S3 is fetched to this machine",
            param_hint="--master",
        )
    defaults = _defaults(given or (), credentials)
    # Check the API key and the URL first, because the check of the rows takes long.
    with _read(manifest) as read, nullcontext() if dry_run else connected(url) as client:
        _refuse_to_overwrite(read, {"--rejects": rejects, "--jobs": jobs})
        profiles = None if client is None else _profiles_of(client)
        totals, left_out = _check(read, defaults, rejects, master, profiles)
        tally = Tally(totals)
        problem = refusal_reason(totals, skip_bad=skip_bad)
        if problem is None and not dry_run:
            good = requests(read.pieces, defaults, left_out, profiles)
            problem = _send(good, read.files, tally, jobs or jobs_path(manifest), url=url, most=max_in_flight)
    (json_document if as_json else fields)(tally.document())
    if problem:
        raise BatchIncomplete(problem)


@command(app, "status", example="euterpe batch status june.csv --wait")
def status(
    manifest: Annotated[
        str,
        typer.Argument(
            metavar="MANIFEST", parser=manifest_place, help="The manifest, as it was given to `submit`."
        ),
    ] = "",
    jobs: Jobs = None,
    wait: Wait = False,
    url: Url = HERE,
    as_json: AsJson = False,
) -> None:
    """Show the status of a batch. Exit 1 unless all its jobs succeeded. The API key is in EUTERPE_API_KEY."""
    from euterpe.batch.jobs_file import jobs_path, read_batch
    from euterpe.batch.status import BatchIncomplete, fetch_status, follow

    if not (manifest or jobs):
        raise typer.BadParameter("give the manifest, or the file of its jobs with --jobs")
    batch = read_batch(jobs or jobs_path(manifest))
    with connected(url) as client:
        if wait:
            with ProgressBar("rows are finished", batch.rows) as progress:
                standing = follow(client, batch, lambda now: progress.at(now.finished))
        else:
            standing = fetch_status(client, batch)
    if as_json:
        json_document(standing.document())
    else:
        _show(standing)
    if shortfall := standing.shortfall:
        raise BatchIncomplete(shortfall)


def _show(standing: "BatchStatus") -> None:
    share = standing.finished / standing.rows if standing.rows else 1.0
    out(f"{standing.finished} of {standing.rows} rows have finished ({share:.1%})")
    fields(standing.by_status)
    for code, failure in standing.failures.items():
        more = failure.count - len(failure.rows)
        out(f"{failure.count} × {code}: {', '.join(failure.rows)}{f' and {more} more' if more else ''}")


# -- arguments


def _defaults(given: Sequence[str], credentials: Path | None) -> "Document":
    from euterpe.batch.column_mapping import nested, unknown, value_of

    cells: Document = {"credentials": read_credentials(credentials)} if credentials else {}
    for each in given:
        column, equals, value = each.partition("=")
        if not equals:
            raise typer.BadParameter(f"must be COLUMN=VALUE, not {column!r}", param_hint="--set")
        if wrong := unknown([column]):
            raise typer.BadParameter(f"{wrong[0]} is not a field of a job", param_hint="--set")
        try:
            cells[column] = value_of(column, value)
        except InvalidSpec as error:
            raise typer.BadParameter(str(error), param_hint="--set") from None
    return nested(cells)


@dataclass(frozen=True)
class _Read:
    files: "Sequence[File]"
    pieces: "Sequence[Piece]"


@contextmanager
def _read(manifest: str) -> Iterator[_Read]:
    from euterpe.batch.files import ManifestError, files_of
    from euterpe.batch.splits import split

    with ExitStack() as opened:
        try:
            files = opened.enter_context(files_of(manifest))
            pieces = split(files)
        except ManifestError as error:
            raise typer.BadParameter(str(error), param_hint="MANIFEST") from None
        yield _Read(files, pieces)


def _refuse_to_overwrite(read: _Read, written: Mapping[str, Path | None]) -> None:
    manifest = {Path(file.path).resolve() for file in read.files}
    for option, path in written.items():
        if path is not None and path.resolve() in manifest:
            raise typer.BadParameter(f"{path} is the manifest", param_hint=option)


@contextmanager
def _writable(option: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise typer.BadParameter(f"{error.filename}: {error.strerror}", param_hint=option) from None


# -- the two steps of submit


def _profiles_of(client: Client) -> "Profiles | None":
    """Return the profiles of the service, or None if the key may only submit jobs."""
    from euterpe.batch.rows import profiles_named

    try:
        return profiles_named(profile["name"] for profile in client.profiles())
    except Forbidden:
        return None


def _check(
    read: _Read,
    defaults: "Document",
    rejects: Path | None,
    master: str,
    profiles: "Profiles | None",
) -> "tuple[ProblemTotals, set[RowPlace]]":
    with importing("analytics"):
        from euterpe.analytics.session import spark_session
        from euterpe.batch.row_problems import Rejects
        from euterpe.batch.validation import examine

    left_out: set[RowPlace] = set()
    shown = FirstLines()
    with ExitStack() as opened:
        with _writable("--rejects"):
            kept = opened.enter_context(Rejects(rejects, read.files)) if rejects else None

        def record(problem: "Problem") -> None:
            left_out.add(problem.place)
            for line in problem.lines(read.files):
                shown.line(line)
            if kept and problem.is_bad:
                kept.add(problem)

        note("checking every row with Spark")
        spark = opened.enter_context(spark_session(master, name="euterpe batch"))
        totals = examine(spark, read.pieces, defaults, record, profiles)
    shown.rest("; --rejects FILE keeps all of them" if kept is None else f"; {rejects} has all errors")
    return totals, left_out


def _send(
    good: "Iterator[Request]", files: "Sequence[File]", tally: "Tally", place: Path, *, url: str, most: int
) -> str | None:
    """Submit the rows. Return None if all rows were accepted, else the reason."""
    from euterpe.batch.jobs_file import JobsFile
    from euterpe.batch.submission import AcceptedRow, BatchClient, Submission

    shown = FirstLines()
    with ExitStack() as opened:
        with _writable("--jobs"):
            jobs = opened.enter_context(JobsFile(place, tally.totals.good))
        client = opened.enter_context(BatchClient(url, os.environ[KEY], on_outage=OutageNotice().begin))
        progress = opened.enter_context(ProgressBar("rows are submitted", tally.totals.good))

        def record(request: "Request", outcome: "AcceptedRow | ClientError") -> None:
            row = files[request.file].place(request.line)
            if isinstance(outcome, AcceptedRow):
                jobs.add(row, outcome.job.job_id)
            else:
                shown.line(f"{row}: {outcome}")
            tally.count(outcome)
            progress.at(tally.reported)

        try:
            halt = Submission(client.take, good, record, max_in_flight=most).run()
        except KeyboardInterrupt:
            note("what was submitted goes on; the same command submits the rest")
            raise typer.Exit(1) from None
    shown.rest("")
    return tally.shortfall(halt)
