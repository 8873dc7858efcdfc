"""`euterpe submit`, `status`, `watch`: a requester's client, which speaks HTTP and needs no database."""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from euterpe.cli.commands import AsJson, command
from euterpe.cli.follow import follow
from euterpe.cli.output import job_fields, json_document, note, out
from euterpe.client import Client, ClientError, Invalid, MalformedApiKey

KEY = "EUTERPE_API_KEY"

Job = Annotated[str, typer.Argument(metavar="JOB", help="Its id.")]
Url = Annotated[str, typer.Option(envvar="EUTERPE_URL", help="Where the service is.")]
AsLines = Annotated[bool, typer.Option("--json", help="Print one JSON line per event.")]
HERE = "http://127.0.0.1:8000"


def register(app: typer.Typer) -> None:
    example = (
        "euterpe submit s3://in/a.mov --to s3://out/a/ --profile h264-720p --credentials s3.json --watch"
    )
    command(app, "submit", example=example)(submit)
    command(app, "status", example="euterpe status 0199a7c4-5b1e-7000-8000-000000000001")(status)
    command(app, "watch", example="euterpe watch 0199a7c4-5b1e-7000-8000-000000000001")(watch)


def submit(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A URL, or a file of this machine.")],
    *,
    to: Annotated[str, typer.Option(metavar="PREFIX", help="Where the outputs go: a URL that ends with /.")],
    profile: Annotated[str, typer.Option(metavar="PROFILE", help="Which outputs to make.")],
    credentials: Annotated[
        Path | None, typer.Option(metavar="FILE", help="JSON with the keys of the storage.")
    ] = None,
    webhook: Annotated[str | None, typer.Option(metavar="URL", help="Where to send its events.")] = None,
    watch_it: Annotated[bool, typer.Option("--watch", help="Stay until it has finished.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the job; with --watch, its events.")] = False,
    url: Url = HERE,
) -> None:
    """Submit a job, and print its id. The API key is in EUTERPE_API_KEY."""
    spec = {
        "source": _source_url(source),
        "output": _prefix_url(to),
        "profile": profile,
        "credentials": read_credentials(credentials) if credentials else None,
        "status_webhook_url": webhook,
    }
    with connected(url) as client:
        try:
            job = client.submit({name: value for name, value in spec.items() if value is not None})
        except Invalid as error:
            raise _with_files(error, spec) from None
        if as_json and not watch_it:
            json_document(job.document)
        elif not as_json:
            # Without a terminal, print the id alone, for JOB=$(euterpe submit …).
            out(f"{job.job_id} is {job.status}" if sys.stdout.isatty() else job.job_id)
        if watch_it:
            _watch(client, job.job_id, as_json)


def status(job_id: Job, as_json: AsJson = False, url: Url = HERE) -> None:
    """Show the status of a job. The API key is in EUTERPE_API_KEY."""
    with connected(url) as client:
        job = client.status(job_id)
    (json_document if as_json else job_fields)(job.document)


def watch(job_id: Job, as_json: AsLines = False, url: Url = HERE) -> None:
    """Follow a job until it has finished; exit 1 unless it succeeds. The API key is in EUTERPE_API_KEY."""
    with connected(url) as client:
        _watch(client, job_id, as_json)


def _watch(client: Client, job_id: str, as_json: bool) -> None:
    try:
        follow(client.watch(job_id), as_json=as_json)
    except KeyboardInterrupt:
        note(f"the job goes on; `euterpe watch {job_id}` follows it again")
        raise typer.Exit(1) from None


@contextmanager
def connected(url: str) -> Iterator[Client]:
    """Yield a client with the API key of the environment: other users could read a command argument."""
    key = os.environ.get(KEY, "")
    if not key:
        raise typer.BadParameter("is not set: `euterpe requester create NAME` prints a key", param_hint=KEY)
    try:
        client = Client(url, key, on_outage=_note_outage)
    except MalformedApiKey as error:
        raise typer.BadParameter(str(error), param_hint=KEY) from None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--url") from None
    with client:
        yield client


def _note_outage(outage: ClientError) -> None:
    note(f"{outage}; trying again")


def _with_files(error: Invalid, spec: Mapping[str, object]) -> Invalid:
    """Return the error with the file URLs that were refused, because the typed paths may be relative."""
    urls = {("source", "url"): spec["source"], ("output", "url"): spec["output"]}
    files = [str(url) for loc, url in urls.items() if any(e.loc == loc for e in error.errors)]
    named = ", ".join(file for file in files if file.startswith("file://"))
    return Invalid(f"{error} ({named})") if named else error


def _source_url(source: str) -> str:
    if "://" in source:
        return source
    if not Path(source).is_file():
        raise typer.BadParameter(f"is neither a URL nor a file: {source}", param_hint="SOURCE")
    return Path(source).resolve().as_uri()


def _prefix_url(to: str) -> str:
    return to if "://" in to else f"{Path(to).resolve().as_uri()}/"


def read_credentials(file: Path) -> dict[str, Any]:
    try:
        given = json.loads(file.read_bytes())
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}", param_hint="--credentials") from None
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise typer.BadParameter(f"{file} must hold a JSON object", param_hint="--credentials")
    return given
