"""Run the whole product in an empty folder, from a sample clip to verified webhooks and a page."""

import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from euterpe import logs
from euterpe.cli.commands import command, importing
from euterpe.cli.demo.clip import SECONDS, make_clip
from euterpe.cli.demo.collector import Collector, collecting
from euterpe.cli.demo.page import MEDIA, page_server, write_page
from euterpe.cli.follow import follow
from euterpe.cli.output import out, terminal_width
from euterpe.client import Client
from euterpe.crypto import keyfile
from euterpe.domain.errors import EuterpeError
from euterpe.settings import Settings, load
from euterpe.store.engine.migrations import migrate
from euterpe.wiring.database import open_database, ring_file

# The profile `player-page`, with more thumbnails, because the clip is short.
OUTPUTS: tuple[dict[str, Any], ...] = (
    {
        "name": "stream",
        "type": "adaptive",
        "video": {"codec": "h264", "ladder": "auto"},
        "audio": "all",
        "subtitles": "all",
    },
    {"name": "poster", "type": "image", "at": "best", "width": 1280},
    {"name": "thumbnails", "type": "sprite", "interval_seconds": 1, "columns": 10, "width": 160},
)

Folder = Annotated[
    Path | None, typer.Option("--dir", metavar="DIR", help="An empty folder; by default a new folder here.")
]
ServesPage = Annotated[
    bool | None,
    typer.Option(
        "--page/--no-page", help="Serve the page until interrupted; by default if stdout is a terminal."
    ),
]


def register(app: typer.Typer) -> None:
    command(app, "demo", example="euterpe demo")(demo)


def demo(folder: Folder = None, page: ServesPage = None) -> None:
    """Make a clip, submit it over HTTP, receive its signed webhooks, and serve a page that plays it.

    With the extra `analytics`, Spark then computes a report of this run, which takes a minute or two.
    """
    folder = _new_folder(folder)
    site = folder / "site"
    with (folder / "service.log").open("w") as log:
        logs.configure("info", log)
        clip = make_clip(folder)
        out(f"clip       {clip.name}, {SECONDS} s of 1280×720 with two languages and subtitles")
        with collecting() as collected:
            settings = _settings(folder, collected)
            _transcode(settings, clip, site, collected)
    write_page(site, OUTPUTS)
    if sys.stdout.isatty() if page is None else page:
        _serve(site, lambda: _report(settings, folder))
    else:
        _report(settings, folder)
    out(f"everything is in {folder}: the database, the log, the clip, the report and the page")
    out(f"page       python3 -m http.server --bind 127.0.0.1 --directory {site}")


def _new_folder(folder: Path | None) -> Path:
    if folder is None:
        return Path(tempfile.mkdtemp(prefix="euterpe-demo-", dir=Path.cwd()))
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise typer.BadParameter(f"{folder} is not empty", param_hint="--dir")
    return folder.resolve()


def _settings(folder: Path, collector: Collector) -> Settings:
    """Return the settings of a separate installation in `folder`. These settings override the environment."""
    (folder / "work").mkdir()
    return load(
        database_url=f"sqlite:///{folder / 'euterpe.db'}",
        kek_file=folder / "keks.json",
        keks=None,
        key_provider="local",
        vault_url=None,
        work_dir=folder / "work",
        storage_roots=(str(folder),),
        egress_allow=(collector.address,),
        require_sandbox=False,  # safe, because the only media is the clip that the demo made
    )


def _transcode(settings: Settings, clip: Path, site: Path, collector: Collector) -> None:
    from euterpe.wiring.services import running

    with closing(open_database(settings)) as database:
        migrate(database)
    keyfile.create_file(ring_file(settings))
    with running(settings) as services:
        requester = services.store.requesters.create("demo")
        collector.trust(requester.webhook_secret)
        server = services.open_api("127.0.0.1", 0)
        services.start_dispatcher()
        services.start_worker()
        server.start()
        out(f"service    {server.url}, on SQLite")
        with Client(server.url, requester.api_key) as client:
            job = client.submit(
                source=clip.as_uri(),
                output=f"{site.as_uri()}/{MEDIA}/",
                outputs=OUTPUTS,
                status_webhook_url=f"http://{collector.address}/hook",
            )
            out(f"job        {job.job_id}")
            follow(client.watch(job.job_id), as_json=False)
        events = collector.await_end()
    if terminal_width():
        out("")
    out(f"webhooks   {len(events)} signed and verified: {', '.join(event.status for event in events)}")


def _report(settings: Settings, folder: Path) -> None:
    """Write the analytics report of this run if Spark can run here."""
    try:
        with importing("analytics"):
            from euterpe.analytics.session import find_java, spark_session
        find_java()
    except EuterpeError as missing:
        out(f"report     left out: {missing}")
        return
    from euterpe.analytics.ingest import ingest
    from euterpe.analytics.lake import Lake
    from euterpe.analytics.options import Options
    from euterpe.analytics.pipeline import Question, analyse, publish

    out("spark      computes the report of this run, which takes a minute or two")
    lake = Lake(folder / "lake")
    with spark_session(name="euterpe demo") as session:
        ingest(session, lake, settings.database_url.get_secret_value())
        page = publish(analyse(session, lake, Question(), Options()), folder / "report")
    out(f"report     {page.as_uri()}")


def _serve(site: Path, work: Callable[[], None]) -> None:
    """Serve the page until the user interrupts. Run `work` meanwhile."""
    with page_server(site) as server:
        server.serve_until_interrupted(
            lambda: out(f"page       {server.address} plays it; Ctrl-C ends"), work
        )
