"""`euterpe outbox`: list and show webhook events and their deliveries, and replay them."""

from typing import Annotated

import typer

from euterpe.cli.commands import AsJson, check_id, command, group, instant_ms, opened
from euterpe.cli.output import age, document, fields, json_document, out, table
from euterpe.domain.rows import EventSummary
from euterpe.domain.states import OutboxStatus
from euterpe.store.errors import NotFound
from euterpe.store.store import Store

app = group(
    "Webhook events: their deliveries, dead letters and replay.",
    example="euterpe outbox list --status dead_letter",
)

_END_OF_TIME_MS = 2**53
_LOG = ("ended_at", "outcome", "status_code", "duration_ms", "worker_id", "error", "answer")


@command(app, "list", example="euterpe outbox list --status dead_letter --requester newsroom")
def list_(
    status: Annotated[list[OutboxStatus] | None, typer.Option(help="Only this status; repeatable.")] = None,
    *,
    requester: Annotated[str | None, typer.Option(help="Only events of this requester (name or id).")] = None,
    job: Annotated[
        str | None, typer.Option(metavar="JOB", callback=check_id, help="Only events of this job.")
    ] = None,
    before: Annotated[
        str | None,
        typer.Option(metavar="EVENT", callback=check_id, help="Only events older than this event."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 50,
    as_json: AsJson = False,
) -> None:
    """List events, newest first."""
    with opened() as store:
        requester_id = store.requesters.find(requester) if requester else None
        rows = store.jobs.deliveries(
            statuses=status or (), requester_id=requester_id, job_id=job, before=before, limit=limit
        )
    if as_json:
        json_document([document(row) for row in rows])
        return
    columns = ("event", "job", "type", "status", "attempts", "answer", "age", "error")
    table(columns, [_line(row) for row in rows])


@command(app, "show", example="euterpe outbox show 0199a7c4-5b1e-7000-8000-000000000001")
def show(event_id: Annotated[str, typer.Argument(metavar="EVENT")], as_json: AsJson = False) -> None:
    """Show one event with its deliveries. `payload` is the exact body that is sent and signed."""
    with opened() as store:
        event = document(store.jobs.event(event_id))
        log = [document(row) for row in store.jobs.delivery_log(event_id)]
    if as_json:
        json_document({**event, "deliveries": log})
        return
    fields(event)
    if log:
        out("")
        table(_LOG, [[row[name] for name in _LOG] for row in log])


@command(app, "replay", example="euterpe outbox replay --requester newsroom")
def replay(
    event_id: Annotated[str | None, typer.Argument(metavar="[EVENT]", help="This one event.")] = None,
    requester: Annotated[
        str | None, typer.Option(help="All dead letters of this requester (name or id).")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="All delivered and dead events since: 2h, 2030-01-31T12:00:00Z.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="With --since: only events before this time.")] = None,
    *,
    pending: Annotated[
        bool,
        typer.Option("--pending", help="All waiting events; with --requester, only those of the requester."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Send events again, with the same id and body. Delivered and dead events get a new budget of attempts.

    A waiting event is sent at once. This send counts as one of its attempts: if the last attempt fails, the
    event becomes a dead letter.
    """
    chosen = (event_id, since, True) if pending else (event_id, requester, since)
    if sum(choice is not None for choice in chosen) != 1 or (until and not since):
        raise typer.BadParameter(
            "name one event, or --requester, or --since with or without --until, or --pending with or "
            "without --requester"
        )
    with opened() as store:
        if pending:
            count = _pending(store, requester)
        elif event_id is not None:
            store.replay.one(event_id)
            count = 1
        elif requester is not None:
            count = _dead_letters(store, requester)
        else:
            count = _between(store, since or "", until)
    if as_json:
        json_document({"replayed": count})
        return
    out(f"{count} {'event' if count == 1 else 'events'} will be sent again")


def _dead_letters(store: Store, requester: str) -> int:
    count = store.replay.dead_letters(store.requesters.find(requester))
    if not count:
        raise NotFound(f"nothing was replayed: {requester} has no dead letters")
    return count


def _pending(store: Store, requester: str | None) -> int:
    count = store.replay.pending(store.requesters.find(requester) if requester else None)
    if not count:
        whose = f" of {requester}" if requester else ""
        raise NotFound(f"nothing was replayed: no event{whose} waits for its next attempt")
    return count


def _between(store: Store, since: str, until: str | None) -> int:
    since_ms = instant_ms(since, "--since")
    until_ms = instant_ms(until, "--until") if until else _END_OF_TIME_MS
    count = store.replay.between(since_ms, until_ms)
    if not count:
        raise NotFound("nothing was replayed: no event of that time is delivered or dead")
    return count


def _line(row: EventSummary) -> tuple[object, ...]:
    return (
        row.event_id,
        row.job_id,
        row.type,
        row.status,
        row.attempt_count,
        row.last_status_code,
        age(row.created_at),
        row.last_error,
    )
