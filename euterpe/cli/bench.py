"""`euterpe bench`: measure throughput, latency and memory of this installation."""

import os
from collections.abc import Sequence
from typing import Annotated

import typer

from euterpe.bench.figures import Figure
from euterpe.bench.programs import Installation
from euterpe.bench.queue import measure, scratch
from euterpe.cli.commands import AsJson, command, group
from euterpe.cli.output import fields, json_document, note, table
from euterpe.settings import load

_CORES = os.cpu_count() or 1

app = group("Measure this installation.", example="euterpe bench queue")

Jobs = Annotated[int, typer.Option(min=64, help="How many jobs to run from enqueue to end.")]
Batch = Annotated[int, typer.Option(min=1, max=1000, help="Jobs that share a transaction.")]
Workers = Annotated[int, typer.Option(min=1, max=64, help="Worker processes.")]
Samples = Annotated[int, typer.Option(min=10, help="The number of jobs for the idle latency.")]
Seconds = Annotated[
    float, typer.Option(min=0.1, max=600, help="The duration of each of the four measurements.")
]
Events = Annotated[int, typer.Option(min=100, help="The number of webhooks in the backlog.")]
PacedSeconds = Annotated[
    float, typer.Option(min=0.5, max=600, help="Duration of steady traffic, with and without dead receivers.")
]
ClipSeconds = Annotated[float, typer.Option(min=1, max=3600, help="Length of the one long source.")]
Clips = Annotated[int, typer.Option(min=1, max=10_000, help="How many short sources.")]
Slots = Annotated[int, typer.Option(min=1, max=1000, help="The number of concurrent short jobs.")]
LargeMib = Annotated[int, typer.Option(min=16, help="The size of the source for the memory test.")]


@command(app, "queue", example="euterpe bench queue --jobs 5000")
def queue(
    jobs: Jobs = 20_000,
    batch: Batch = 100,
    workers: Workers = 2,
    samples: Samples = 200,
    as_json: AsJson = False,
) -> None:
    """Measure whole jobs, enqueues and the wake-up of an idle worker, in a temporary queue."""
    note(f"measuring with {jobs} jobs; this takes about a minute")
    with scratch(load(), jobs=jobs, batch=batch, workers=workers) as plan:
        figures = {name: round(value, 2) for name, value in measure(plan, latency_jobs=samples).items()}
    if as_json:
        json_document(figures)
    else:
        fields(figures)


@command(app, "api", example="euterpe bench api --seconds 10")
def api(seconds: Seconds = 5.0, as_json: AsJson = False) -> None:
    """Measure how fast the API accepts and shows jobs, compared with bare handlers on the same database."""
    from euterpe.bench.api import measure_api

    note("measuring; this takes about half a minute")
    _show(measure_api(Installation.of_this_process(), seconds=seconds), as_json)


@command(app, "dispatch", example="euterpe bench dispatch --events 20000")
def dispatch(events: Events = 5_000, seconds: PacedSeconds = 20.0, as_json: AsJson = False) -> None:
    """Measure webhook delivery, compared with a bare loop, and whether dead receivers delay other webhooks.

    The benchmark's dispatcher also delivers other waiting events. Stop all other dispatchers while the
    benchmark runs.
    """
    from euterpe.bench.dead_receivers import measure_black_holes
    from euterpe.bench.dispatch import measure_backlog

    note("measuring; this takes about a minute and a half")
    installation = Installation.of_this_process()
    backlog = measure_backlog(installation, events=events)
    _show([*backlog, measure_black_holes(installation, seconds=seconds)], as_json)


@command(app, "transcode", example="euterpe bench transcode --clips 20")
def transcode(
    seconds: ClipSeconds = 60.0,
    clips: Clips = 200,
    slots: Slots = _CORES,
    large_mib: LargeMib = 4096,
    as_json: AsJson = False,
) -> None:
    """Measure jobs from source to output in a temporary folder, compared with ffmpeg alone."""
    from euterpe.bench.transcode import temporary_folder, transcode_bench

    note("measuring; this takes some minutes")
    installation = Installation.of_this_process()
    with temporary_folder() as place, transcode_bench(installation, place) as shop:
        one, many = shop.measure_one(seconds), shop.measure_many(clips, slots)
        _show([*one, many, *shop.measure_memory(large_mib)], as_json)


def _show(figures: Sequence[Figure], as_json: bool) -> None:
    if as_json:
        json_document([figure.document() for figure in figures])
        return
    rows = [
        (
            figure.what,
            f"{figure.value:,.1f} {figure.unit}",
            "" if figure.bare is None else f"{figure.bare:,.1f}",
            "" if figure.ratio is None else f"{figure.ratio:.2f} ×",
            figure.target,
            "" if figure.is_met else "missed",
        )
        for figure in figures
    ]
    table(("", "euterpe", "bare", "ratio", "target", ""), rows)
