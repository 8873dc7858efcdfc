"""`euterpe jobs`, `queues` and `prune`: list, show, retry and cancel jobs, pause queues, remove history."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer

from euterpe.cli.commands import AsJson, check_id, command, duration_ms, group, opened
from euterpe.cli.job_tables import SHOWN_ROWS, show_attempts, show_events
from euterpe.cli.job_view import show_job
from euterpe.cli.output import age, document, job_fields, json_document, out, table, terminal_width
from euterpe.domain.rows import EventRow, JobRow
from euterpe.domain.states import JobStatus, Lane
from euterpe.domain.status import status_document
from euterpe.domain.text import check_text
from euterpe.store.history.prune import PruneResult
from euterpe.store.store import Store


def register(app: typer.Typer) -> None:
    app.add_typer(jobs, name="jobs")
    app.add_typer(queues, name="queues")
    command(app, "prune", example="euterpe prune --older-than 30d")(prune)


jobs = group("Jobs: what is waiting, running and done.", example="euterpe jobs list --status failed")

Job = Annotated[str, typer.Argument(metavar="JOB", help="The id of the job.")]
_OPERATORS_OWN = ("requester_id", "group_id", "worker_id", "claim_version", "lease_expires_at", "spec")


@command(jobs, "list", example="euterpe jobs list --status failed --status dead_letter")
def list_(
    status: Annotated[list[JobStatus] | None, typer.Option(help="Only this status; repeatable.")] = None,
    requester: Annotated[str | None, typer.Option(help="Only jobs of this requester (name or id).")] = None,
    before: Annotated[
        str | None, typer.Option(metavar="JOB", callback=check_id, help="Only jobs older than this one.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 50,
    as_json: AsJson = False,
) -> None:
    """List jobs, newest first."""
    with opened() as store:
        requester_id = store.requesters.find(requester) if requester else None
        rows = store.jobs.page(statuses=status or (), requester_id=requester_id, before=before, limit=limit)
    if as_json:
        json_document([_document(row) for row in rows])
        return
    table(("job", "status", "queue", "attempts", "age", "last error"), [_line(row) for row in rows])


@command(jobs, "show", example="euterpe jobs show 0199a7c4-5b1e-7000-8000-000000000001")
def show(
    job_id: Job,
    *,
    all_: Annotated[
        bool,
        typer.Option("--all", help=f"Show all attempts and events, not only the last {SHOWN_ROWS}."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show one job with its attempts and its events."""
    with opened() as store:
        job = _document(store.jobs.get(job_id))
        attempts = [document(row) for row in store.jobs.attempts(job_id)]
        events = [document(row) for row in _events(store, job_id)]
    if as_json:
        json_document({**job, "attempts": attempts, "events": events})
    elif terminal_width():
        show_job(job)
        show_attempts(attempts, job, all_=all_)
        show_events(events, job, all_=all_)
    else:
        _print_plainly(job, attempts, events)


def _events(store: Store, job_id: str) -> Iterator[EventRow]:
    """Yield all events of a job, page by page."""
    after = 0
    while page := store.jobs.events(job_id, after=after):
        yield from page
        after = page[-1].sequence


def _print_plainly(
    job: Mapping[str, Any], attempts: Sequence[Mapping[str, Any]], events: Sequence[Mapping[str, Any]]
) -> None:
    """Print one line for each field, attempt and event, for programs that read text."""
    job_fields(job)
    out("")
    table(
        ("attempt", "worker", "started", "ended", "outcome", "cpu s", "bytes in", "bytes out", "error"),
        [
            (
                *(row[name] for name in ("attempt_no", "worker_id", "started_at", "ended_at", "outcome")),
                *_used(row["timings"]),
                row["error"] and row["error"]["message"],
            )
            for row in attempts
        ],
    )
    out("")
    names = ("sequence", "event_id", "type", "status", "attempt_count", "last_status_code", "last_error")
    columns = ("sequence", "event", "type", "status", "attempts", "answer", "error")
    table(columns, [[row[name] for name in names] for row in events])


@command(jobs, "retry", example="euterpe jobs retry 0199a7c4-5b1e-7000-8000-000000000001")
def retry(job_id: Job, as_json: AsJson = False) -> None:
    """Queue a failed job again if it has attempts left."""
    with opened() as store:
        store.control.retry(job_id)
        _answer(store, job_id, f"{job_id} is queued again", as_json)


@command(jobs, "cancel", example="euterpe jobs cancel 0199a7c4-5b1e-7000-8000-000000000001")
def cancel(job_id: Job, as_json: AsJson = False) -> None:
    """Stop a job. A waiting job stops at once, and a running job at its worker's next heartbeat."""
    with opened() as store:
        status = store.control.cancel(job_id)
        canceled = status is JobStatus.FAILED
        sentence = (
            f"{job_id} is canceled"
            if canceled
            else f"{job_id} is {status}; its worker stops it at the next heartbeat, unless it ends before"
        )
        _answer(store, job_id, sentence, as_json)


def _answer(store: Store, job_id: str, sentence: str, as_json: bool) -> None:
    if as_json:
        json_document(_document(store.jobs.get(job_id)))
    else:
        out(sentence)


def _document(row: JobRow) -> dict[str, Any]:
    """Return the document that the requester sees, plus the fields that only an operator may see."""
    own = document(row)
    return {**status_document(row), **{name: own[name] for name in _OPERATORS_OWN}}


def _line(row: JobRow) -> tuple[object, ...]:
    attempts = f"{row.attempt_count}/{row.max_attempts}"
    return row.job_id, row.status, row.queue, attempts, age(row.created_at), row.error_code


def _used(timings: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the CPU time and the traffic of an attempt as plain numbers.

    "≥" marks figures of the last heartbeat: the attempt did not record its own end, and may have used more.
    """
    known = timings or {}
    least = "≥ " if known.get("measured") == "last_beat" else ""
    figures = (known.get(name) for name in ("cpu_seconds", "bytes_in", "bytes_out"))
    return tuple("" if figure is None else f"{least}{figure}" for figure in figures)


# -- euterpe queues

queues = group("Queues: their backlog, pause and resume.", example="euterpe queues pause default")

Queue = Annotated[str, typer.Argument(metavar="QUEUE")]
_LANES = tuple(lane.value for lane in Lane if lane is not Lane.REST)


@command(queues, "list", example="euterpe queues list")
def list_queues(as_json: AsJson = False) -> None:
    """List active and paused queues.

    Delayed jobs wait until they are due. Blocked jobs wait for their group.
    """
    with opened() as store:
        paused, backlog = store.control.paused_queues(), store.jobs.backlog()
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in backlog:
        counts[row.queue][row.lane] = row.jobs
    found = [
        {"queue": queue, "paused": queue in paused, **{lane: counts[queue][lane] for lane in _LANES}}
        for queue in sorted({*counts, *paused})
    ]
    if as_json:
        json_document(found)
        return
    table(("queue", "paused", *_LANES), [tuple(row.values()) for row in found])


@command(queues, "pause", example="euterpe queues pause default")
def pause(queue: Queue) -> None:
    """Stop workers from claiming jobs of this queue. Running jobs continue, and waiting jobs keep waiting."""
    with opened() as store:
        store.control.pause(check_text("queue", queue, "queue"))
        unused = queue not in {row.queue for row in store.jobs.backlog()}
    doubt = ", and no job waits or runs in it" if unused else ""
    out(f"{queue} is paused{doubt}; `euterpe queues resume {queue}` ends that")


@command(queues, "resume", example="euterpe queues resume default")
def resume(queue: Queue) -> None:
    """Let workers claim jobs of this queue again."""
    with opened() as store:
        store.control.resume(check_text("queue", queue, "queue"))
    out(f"{queue} is open")


# -- euterpe prune


def prune(
    older_than: Annotated[str, typer.Option(help="How long ago a job must have ended: 90s, 12h, 30d.")],
    as_json: AsJson = False,
) -> None:
    """Remove finished jobs with their events and attempts, and finished queue jobs.

    After that, the API answers 410 for the ids of these jobs.
    """
    age_ms = duration_ms(older_than, "--older-than")
    done = PruneResult()
    with opened() as store:
        for done in store.prune.run(age_ms):  # noqa: B007  the last result is the total
            pass
    if as_json:
        json_document(
            {
                "jobs": done.jobs,
                "idempotency_keys": done.keys,
                "groups": done.groups,
                "queue_jobs": done.queue_jobs,
            }
        )
        return
    out(
        f"removed {done.jobs} jobs, {done.queue_jobs} queue jobs, {done.keys} expired idempotency keys "
        f"and {done.groups} idle groups"
    )
