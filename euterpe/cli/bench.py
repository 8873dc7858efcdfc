"""`euterpe bench`: what this installation can do."""

from typing import Annotated

import typer

from euterpe.bench.queue import measure, scratch
from euterpe.cli.commands import AsJson, command, group
from euterpe.cli.output import fields, json_document, note
from euterpe.settings import load

app = group("Measure this installation.", example="euterpe bench queue")

Jobs = Annotated[int, typer.Option(min=64, help="How many jobs to live through.")]
Batch = Annotated[int, typer.Option(min=1, max=1000, help="Jobs that share a transaction.")]
Workers = Annotated[int, typer.Option(min=1, max=64, help="Worker processes.")]
Samples = Annotated[int, typer.Option(min=10, help="Jobs to measure the idle latency with.")]


@command(app, "queue", example="euterpe bench queue --jobs 5000")
def queue(
    jobs: Jobs = 20_000,
    batch: Batch = 100,
    workers: Workers = 2,
    samples: Samples = 200,
    as_json: AsJson = False,
) -> None:
    """Lives, enqueues, and how soon an idle worker wakes. Uses a queue of its own and deletes it."""
    note(f"measuring with {jobs} jobs; this takes about a minute")
    with scratch(load(), jobs=jobs, batch=batch, workers=workers) as plan:
        figures = {name: round(value, 2) for name, value in measure(plan, latency_jobs=samples).items()}
    if as_json:
        json_document(figures)
    else:
        fields(figures)
