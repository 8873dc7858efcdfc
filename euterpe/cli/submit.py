"""`euterpe submit`, `status`, `watch`: a client for requesters. It uses HTTP and needs no database."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from euterpe.cli.commands import AsJson, command, duration_ms, instant_ms, size_bytes
from euterpe.cli.follow import follow
from euterpe.cli.job_request import (
    JobRequest,
    group_of,
    metadata_of,
    outputs_of,
    prefix_url,
    read_credentials,
    read_spec,
    source_url,
)
from euterpe.cli.job_tables import show_warnings
from euterpe.cli.job_view import show_job
from euterpe.cli.output import complain, job_fields, json_document, note, out, terminal_width
from euterpe.cli.plan_view import show_plan
from euterpe.client import Client, ClientError, Invalid, MalformedApiKey, RetryPolicy
from euterpe.domain.text import check_text
from euterpe.domain.units import iso

KEY = "EUTERPE_API_KEY"

Job = Annotated[str, typer.Argument(metavar="JOB", help="The id of the job.")]
Url = Annotated[str, typer.Option(envvar="EUTERPE_URL", help="Where the service is.")]
AsLines = Annotated[bool, typer.Option("--json", help="Print one JSON line per event.")]
HERE = "http://127.0.0.1:8000"
# A watch repeats a failed request for at least a minute, with pauses of 0.5 to 8 s, because the job continues
# during an outage of the API.
WATCH_RETRY = RetryPolicy(attempts=20)
_UNFINISHED = 3  # the exit code of a watch that ended before its job


def register(app: typer.Typer) -> None:
    example = (
        "euterpe submit s3://in/a.mov --to s3://out/a/ --profile h264-720p --credentials s3.json --watch"
    )
    command(app, "submit", example=example)(submit)
    command(app, "status", example="euterpe status 0199a7c4-5b1e-7000-8000-000000000001")(status)
    command(app, "watch", example="euterpe watch 0199a7c4-5b1e-7000-8000-000000000001")(watch)


def submit(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A URL, or a file of this machine.")] = "",
    *,
    to: Annotated[
        str | None, typer.Option(metavar="PREFIX", help="Where the outputs go: a URL that ends with /.")
    ] = None,
    profile: Annotated[str | None, typer.Option(metavar="PROFILE", help="Ready-made outputs.")] = None,
    output: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TYPE[,FIELD=VALUE]…",
            help="An output, like mp4,codec=hevc,height=720 or hls,ladder=1080,720 or JSON; repeatable.",
        ),
    ] = None,
    spec: Annotated[
        str | None,
        typer.Option(metavar="FILE|-", help="The JSON body of POST /transcode; options override it."),
    ] = None,
    credentials: Annotated[
        Path | None, typer.Option(metavar="FILE", help="JSON with the keys of the storage.")
    ] = None,
    storage: Annotated[
        str | None, typer.Option(metavar="NAME", help="A storage profile of the operator, for the keys.")
    ] = None,
    refresh_url: Annotated[
        str | None, typer.Option(metavar="URL", help="Where a worker asks for new credentials.")
    ] = None,
    webhook: Annotated[
        str | None, typer.Option(metavar="URL", help="Where to send the events of the job.")
    ] = None,
    webhook_event: Annotated[
        list[str] | None,
        typer.Option(metavar="STATUS", help="Send only this status, or `progress`; repeatable."),
    ] = None,
    webhook_format: Annotated[
        str | None,
        typer.Option(metavar="FORMAT", help="`standard`: sign webhooks as Standard Webhooks does."),
    ] = None,
    queue: Annotated[str | None, typer.Option(metavar="NAME", help="The queue of the job.")] = None,
    priority: Annotated[
        int | None, typer.Option(metavar="N", help="0 to 100, higher first, among your own jobs.")
    ] = None,
    group: Annotated[
        str | None, typer.Option(metavar="ID", help="Run after the earlier jobs of this group.")
    ] = None,
    group_limit: Annotated[
        int | None, typer.Option(metavar="N", help="How many jobs of the group run at a time.")
    ] = None,
    not_before: Annotated[
        str | None,
        typer.Option(metavar="WHEN", help="Earliest start: 10m, 2030-01-31T12:00:00Z."),
    ] = None,
    max_attempts: Annotated[
        int | None, typer.Option(metavar="N", help="The maximum number of attempts of the job.")
    ] = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="TIME", help="The time limit of each attempt: 90s, 15m, 2h.")
    ] = None,
    max_source: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Refuse a source above this size: 500MB, 2GiB."),
    ] = None,
    allow_truncated: Annotated[
        bool | None, typer.Option("--allow-truncated", help="Encode what can be read of a damaged source.")
    ] = None,
    external_id: Annotated[str | None, typer.Option(metavar="ID", help="Your own id of the job.")] = None,
    metadata: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Data that each event repeats; or a JSON object; repeatable."),
    ] = None,
    idempotency_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="The same key never makes a second job.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what the job would make, and submit nothing.")
    ] = False,
    watch_it: Annotated[bool, typer.Option("--watch", help="Follow the job until it ends.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the job; with --watch, its events.")] = False,
    url: Url = HERE,
) -> None:
    """Submit a job, and print its id. The API key is in EUTERPE_API_KEY."""
    from_file, spec_name = read_spec(spec) if spec is not None else (None, "")
    request = JobRequest(
        {
            "source": {"url": source_url(source)} if source else None,
            "output": {"url": prefix_url(to)} if to is not None else None,
            "profile": profile,
            "outputs": outputs_of(output),
            "credentials": read_credentials(credentials) if credentials else None,
            "storage": storage,
            "refresh_url": refresh_url,
            "status_webhook_url": webhook,
            "webhook_events": webhook_event or None,
            "webhook_format": webhook_format,
            "queue": queue,
            "priority": priority,
            "group": group_of(group, group_limit),
            "not_before": iso(instant_ms(not_before, "--not-before", ahead=True)) if not_before else None,
            "max_attempts": max_attempts,
            "timeout_seconds": duration_ms(timeout, "--timeout") // 1000 if timeout else None,
            "max_source_bytes": size_bytes(max_source, "--max-source") if max_source else None,
            "allow_truncated": allow_truncated,
            "external_id": external_id,
            "metadata": metadata_of(metadata),
        },
        from_file,
        spec_name,
    )
    if idempotency_key is not None:
        check_text("idempotency_key", idempotency_key, "--idempotency-key")
    with connected(url) as client:
        try:
            if dry_run:
                plan = client.dry_run(request.body)
                (json_document if as_json else show_plan)(plan)
                return
            job = client.submit(request.body, idempotency_key=idempotency_key)
        except Invalid as error:
            raise request.named(error) from None
        if as_json and not watch_it:
            json_document(job.document)
        elif not as_json:
            # Without a terminal, print the id alone, for JOB=$(euterpe submit …).
            out(f"{job.job_id} is {job.status}" if terminal_width() else job.job_id)
    if watch_it:
        _watch(url, job.job_id, as_json)


def status(job_id: Job, as_json: AsJson = False, url: Url = HERE) -> None:
    """Show the status of a job. The API key is in EUTERPE_API_KEY."""
    with connected(url) as client:
        job = client.status(job_id)
    if as_json:
        json_document(job.document)
    else:
        (show_job if terminal_width() else job_fields)(job.document)


def watch(job_id: Job, as_json: AsLines = False, url: Url = HERE) -> None:
    """Follow a job until it ends. Exit 1 if it fails, and 3 if the watch ends before the job.

    The API key is in EUTERPE_API_KEY.
    """
    _watch(url, job_id, as_json)


def _watch(url: str, job_id: str, as_json: bool) -> None:
    with connected(url, WATCH_RETRY) as client:
        try:
            follow(client.watch(job_id), as_json=as_json)
        except KeyboardInterrupt:
            raise _left(job_id) from None
        except ClientError as error:
            if not error.retryable:
                raise
            complain(str(error))
            raise _left(job_id) from None
        if not as_json:
            _show_warnings(client, job_id)


def _left(job_id: str) -> typer.Exit:
    """Return the exit of a watch that ended before its job. The exit code is not the code of a failed job."""
    note(f"the job goes on; `euterpe watch {job_id}` follows it again")
    return typer.Exit(_UNFINISHED)


def _show_warnings(client: Client, job_id: str) -> None:
    """Print the warnings of a job that has succeeded. The events of the job do not contain warnings."""
    try:
        job = client.status(job_id)
    except ClientError as error:
        note(f"the warnings of the job are not known: {error}")
    else:
        show_warnings(job.warnings or ())


@contextmanager
def connected(url: str, retry: RetryPolicy | None = None) -> Iterator[Client]:
    """Yield a client with the API key from the environment.

    The key is not a command argument, because other users of the machine can read a process's arguments.
    """
    key = os.environ.get(KEY, "")
    if not key:
        raise typer.BadParameter("is not set: `euterpe requester create NAME` prints a key", param_hint=KEY)
    try:
        client = Client(url, key, on_outage=_note_outage, **({"retry": retry} if retry else {}))
    except MalformedApiKey as error:
        raise typer.BadParameter(str(error), param_hint=KEY) from None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--url") from None
    with client:
        yield client


def _note_outage(outage: ClientError) -> None:
    note(f"{outage}; trying again")
