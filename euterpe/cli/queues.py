"""`euterpe queues`: list the backlog of each queue, pause and resume queues."""

from collections import Counter, defaultdict
from typing import Annotated

import typer

from euterpe.cli.commands import AsJson, command, group, opened
from euterpe.cli.output import json_document, out, table
from euterpe.domain.states import Lane
from euterpe.domain.text import check_text

app = group("Queues: their backlog, pause and resume.", example="euterpe queues pause default")

Queue = Annotated[str, typer.Argument(metavar="QUEUE")]
_LANES = tuple(lane.value for lane in Lane if lane is not Lane.REST)


@command(app, "list", example="euterpe queues list")
def list_(as_json: AsJson = False) -> None:
    """List active and paused queues. Delayed jobs wait for their time, blocked jobs for their group."""
    with opened() as store:
        paused, backlog = store.control.paused_queues(), store.jobs.backlog()
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in backlog:
        counts[row["queue"]][row["lane"]] = row["jobs"]
    found = [
        {"queue": queue, "paused": queue in paused, **{lane: counts[queue][lane] for lane in _LANES}}
        for queue in sorted({*counts, *paused})
    ]
    if as_json:
        json_document(found)
        return
    table(("queue", "paused", *_LANES), [tuple(row.values()) for row in found])


@command(app, "pause", example="euterpe queues pause default")
def pause(queue: Queue) -> None:
    """Stop workers from claiming jobs of this queue. Running jobs go on, and no job is moved."""
    with opened() as store:
        store.control.pause(check_text("queue", queue, "queue"))
        unused = queue not in {row["queue"] for row in store.jobs.backlog()}
    doubt = ", and no job waits or runs in it" if unused else ""
    out(f"{queue} is paused{doubt}; `euterpe queues resume {queue}` ends that")


@command(app, "resume", example="euterpe queues resume default")
def resume(queue: Queue) -> None:
    """Let workers claim jobs of this queue again."""
    with opened() as store:
        store.control.resume(check_text("queue", queue, "queue"))
    out(f"{queue} is open")
