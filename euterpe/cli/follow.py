"""Show a running job: a progress bar on a terminal, otherwise a line for each event."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, Task, TextColumn
from rich.progress import Progress as Bars
from rich.text import Text

from euterpe.cli.job_tables import show_outputs
from euterpe.cli.job_view import advice
from euterpe.cli.output import out
from euterpe.client import Event, JobFailed, Progress
from euterpe.domain.states import JobStatus
from euterpe.domain.units import format_clock

Show = Callable[[Event | Progress], None]


def follow(updates: Iterable[Event | Progress], *, as_json: bool, console: Console | None = None) -> None:
    """Show the updates of a job until it ends. Raise `JobFailed` unless the job succeeded."""
    console = console or Console()
    last: Event | None = None
    with _bar(console) if console.is_terminal and not as_json else _lines(as_json) as show:
        for update in updates:
            show(update)
            last = update if isinstance(update, Event) else last
    if last is None or last.status != JobStatus.SUCCEEDED:
        raise JobFailed(_why(last))
    if as_json:
        return
    if console.is_terminal:
        show_outputs(last.outputs)
        return
    for output in last.outputs:
        out(f"{output.get('name')}  {output.get('url')}")


def _why(last: Event | None) -> str:
    if last is None:
        return "no event of this job was received"
    error = last.error or {}
    why = f"{last.job_id} ended as {last.status}: {error.get('code')}: {error.get('message')}"
    helps = advice(error.get("code"))
    return f"{why}; what helps: {helps}" if helps else why


@contextmanager
def _lines(as_json: bool) -> Iterator[Show]:
    def show(update: Event | Progress) -> None:
        if as_json:
            typer.echo(json.dumps(update.document))
        elif isinstance(update, Event):
            out(f"{update.occurred_at}  {update.status}")

    yield show


def _phase(update: Event | Progress) -> str:
    """Return the status, followed by the number of the failed attempt if the job is queued again."""
    tried = update.document.get("attempt_count")
    return f"queued, attempt {tried} failed" if update.status == JobStatus.QUEUED and tried else update.status


class _Pace(ProgressColumn):
    """A column with the speed and the remaining time that the worker reports."""

    def render(self, task: Task) -> Text:
        speed, eta = task.fields["speed"], task.fields["eta"]
        shown = [f"{speed:.1f}x"] if speed is not None else []
        shown += [f"{format_clock(eta)} to go"] if eta is not None else []
        return Text(", ".join(shown))


@contextmanager
def _bar(console: Console) -> Iterator[Show]:
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>5.1f} %"),
        _Pace(),
    )
    with Bars(*columns, console=console) as bars:
        task = bars.add_task("queued", total=100.0, speed=None, eta=None)

        def show(update: Event | Progress) -> None:
            percent = update.document.get("progress")
            if update.status == JobStatus.SUCCEEDED:
                percent = 100.0
            running = isinstance(update, Progress)
            bars.update(
                task,
                description=_phase(update),
                completed=percent,
                speed=update.document.get("speed") if running else None,
                eta=update.document.get("eta_seconds") if running else None,
            )

        yield show
