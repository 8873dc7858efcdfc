"""`euterpe analytics`: reports on cost, speed and failures. Spark is imported only when needed."""

import re
import time
import webbrowser
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from euterpe.cli.commands import command, group, importing, instant_ms, local_path
from euterpe.cli.output import note, out
from euterpe.cli.progress import ProgressBar
from euterpe.domain.units import iso
from euterpe.settings import load
from euterpe.store.engine.database import Database
from euterpe.store.engine.migrations import require_current
from euterpe.wiring.database import open_database, require_database_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from euterpe.analytics.lake import Lake
    from euterpe.analytics.pipeline import Question

app = group(
    "Reports on cost, speed, failures and capacity, from the history. Needs Java 17, or newer.",
    example="euterpe analytics run --lake lake --out report",
)

LakeDir = Annotated[
    Path, typer.Option("--lake", metavar="DIR", parser=local_path, help="The folder of the lake.")
]
OutDir = Annotated[
    Path,
    typer.Option(
        "--out", metavar="DIR", parser=local_path, help="Where report.html, report.json and marts/ go."
    ),
]
Master = Annotated[
    str, typer.Option(metavar="URL", help="local[*], spark://…, k8s://… or sc://… (Spark Connect).")
]
Metadata = Annotated[
    str, typer.Option(metavar="KEYS", help="Keys of job metadata to copy into the lake, separated by commas.")
]
KeepDays = Annotated[int | None, typer.Option(min=1, help="Drop days older than this from the lake.")]
Since = Annotated[str, typer.Option(help="Only jobs accepted since this day (UTC): 30d, or 2030-01-31.")]
Requester = Annotated[str, typer.Option(help="Only this requester's jobs, by name or id.")]
PriceFile = Annotated[
    Path | None,
    typer.Option(
        "--prices", metavar="FILE", parser=local_path, help="JSON: cpu_hour, gib_in, gib_out, currency."
    ),
]
Open = Annotated[bool, typer.Option("--open", help="Show the page in the browser.")]


_DAY = re.compile(r"\d{4}-\d\d-\d\d")


@command(app, "ingest", example="euterpe analytics ingest --lake lake")
def ingest(
    lake: LakeDir = Path("lake"),
    metadata: Metadata = "",
    keep_days: KeepDays = None,
    master: Master = "local[*]",
) -> None:
    """Add new history from the database to the lake.

    History that is later pruned from the database stays in the lake.
    """
    with _spark(master) as session:
        _ingest(session, _lake(lake), metadata, keep_days)


@command(app, "run", example="euterpe analytics run --lake lake --out report --since 30d")
def run(
    *,
    lake: LakeDir = Path("lake"),
    out_dir: OutDir = Path("report"),
    since: Since = "",
    requester: Requester = "",
    prices: PriceFile = None,
    metadata: Metadata = "",
    keep_days: KeepDays = None,
    show: Open = False,
    master: Master = "local[*]",
) -> None:
    """Ingest, compute, and write the report."""
    with _spark(master) as session:
        _ingest(session, _lake(lake), metadata, keep_days)
        page = _report(session, _lake(lake), _question(since, requester), prices, out_dir)
    _show(page, in_browser=show)


@command(app, "report", example="euterpe analytics report --lake lake --open")
def report(
    *,
    lake: LakeDir = Path("lake"),
    out_dir: OutDir = Path("report"),
    since: Since = "",
    requester: Requester = "",
    prices: PriceFile = None,
    show: Open = False,
    master: Master = "local[*]",
) -> None:
    """Compute and write the report from the lake alone, without the database."""
    with _spark(master) as session:
        page = _report(session, _lake(lake), _question(since, requester), prices, out_dir)
    _show(page, in_browser=show)


@command(app, "synthesize", example="euterpe analytics synthesize --jobs 10000 --lake lake")
def synthesize(
    jobs: Annotated[int, typer.Option(min=0, help="The number of jobs.")],
    seed: Annotated[int, typer.Option(min=0, help="The same seed makes the same history.")] = 1,
    days: Annotated[int, typer.Option(min=1, help="The number of days of the history.")] = 28,
    until: Annotated[
        str, typer.Option(help="The end of the history; by default the last midnight (UTC).")
    ] = "",
    lake: Annotated[
        Path | None,
        typer.Option(
            "--lake", metavar="DIR", parser=local_path, help="Write to this lake, not to the database."
        ),
    ] = None,
) -> None:
    """Generate a realistic history for experiments.

    The command refuses a database or lake that has real jobs.
    """
    with importing("analytics"):
        from euterpe.synthesize.history_plan import HistoryPlan
        from euterpe.synthesize.lake import synthesize_lake
        from euterpe.synthesize.store import synthesize_store
    # By default, all runs on one day plan the same history, so that the next run resumes where a killed run
    # stopped.
    until_ms = instant_ms(until, "--until") if until else int(time.time()) // 86_400 * 86_400_000
    if until_ms > time.time() * 1000:
        raise typer.BadParameter("is in the future: no report would count such rows", param_hint="--until")
    plan = HistoryPlan(jobs=jobs, seed=seed, days=days, until_ms=until_ms)
    with ProgressBar("jobs are made", jobs) as progress:
        if lake is not None:
            added = synthesize_lake(_lake(lake), plan, progress.at)
        else:
            with _database() as database:
                added = synthesize_store(database, plan, progress.at)
    out(f"added {added} jobs")


def _ingest(session: "SparkSession", lake: "Lake", metadata: str, keep_days: int | None) -> None:
    from euterpe.analytics.ingest import ingest as add
    from euterpe.analytics.lake.upkeep import compact, forget

    with _database():
        url = load().database_url.get_secret_value()
    was_filled = any(lake.commit().files.values())
    added = add(session, lake, url, metadata=metadata, on_table=_note_rows)
    if added.anew and was_filled:
        note("the database was restored, or emptied: it was read from its beginning")
    if merged := compact(session, lake):
        note(f"merged {merged} small files")
    if keep_days is not None and (gone := forget(lake, keep_days)):
        note(f"dropped {gone} files older than {keep_days} days")


def _note_rows(table: str, rows: int) -> None:
    note(f"{table:<11}{rows:>12,} rows")


@contextmanager
def _database() -> Iterator[Database]:
    """Yield the database of the settings. Raise if the database is missing, or its schema is not current."""
    settings = load()
    require_database_file(settings)
    with closing(open_database(settings)) as database:
        require_current(database)
        yield database


def _question(since: str, requester: str) -> "Question":
    from euterpe.analytics.pipeline import Question

    instant = f"{since}T00:00:00Z" if _DAY.fullmatch(since) else since
    return Question(iso(instant_ms(instant, "--since"))[:10] if since else "", requester)


def _report(
    session: "SparkSession", lake: "Lake", question: "Question", prices: Path | None, out_dir: Path
) -> Path:
    from euterpe.analytics.options import Options, read_prices
    from euterpe.analytics.pipeline import analyse, publish

    options = Options() if prices is None else Options(prices=read_prices(prices))
    _create_folder(out_dir)
    results = analyse(session, lake, question, options, on_mart=lambda name: note(f"computing {name}"))
    if not results.totals.jobs and question.filters:
        note("the lake has no jobs that match")
    return publish(results, out_dir)


def _create_folder(folder: Path) -> None:
    """Create the folder before the report is computed, so that an error of the folder is shown early."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise typer.BadParameter(f"{folder}: {error.strerror}", param_hint="--out") from None


def _show(page: Path, *, in_browser: bool) -> None:
    out(str(page))
    if in_browser:
        webbrowser.open(page.absolute().as_uri())


def _lake(root: Path) -> "Lake":
    from euterpe.analytics.lake import Lake

    return Lake(root)


@contextmanager
def _spark(master: str) -> Iterator["SparkSession"]:
    with importing("analytics"):
        from euterpe.analytics.session import explain_file_errors, spark_session
    with explain_file_errors(), spark_session(master) as session:
        yield session
