"""`euterpe demo`: run the whole product in an empty folder, from a sample clip to verified webhooks."""

import json
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from euterpe import logs
from euterpe.cli.commands import command, importing
from euterpe.cli.follow import follow
from euterpe.cli.listen import WebhookListener, WebhookServer
from euterpe.cli.output import out, terminal_width
from euterpe.client import Client, Event
from euterpe.crypto import keyfile
from euterpe.domain.errors import EuterpeError
from euterpe.settings import Settings, load
from euterpe.store.engine.migrations import migrate
from euterpe.wiring.database import open_database, ring_file

_SECONDS = 10
_PICTURE = f"testsrc2=size=1280x720:rate=30:duration={_SECONDS}"
_SOUND = f"sine=frequency=330:beep_factor=4:duration={_SECONDS}"
_TIMEOUT_S = 60.0

Folder = Annotated[
    Path | None, typer.Option("--dir", metavar="DIR", help="An empty folder; by default a new folder here.")
]


class DemoFailed(EuterpeError):
    code = "demo_failed"


def register(app: typer.Typer) -> None:
    command(app, "demo", example="euterpe demo")(demo)


def demo(folder: Folder = None) -> None:
    """Make a clip, submit it over HTTP, transcode it and receive its signed webhooks."""
    folder = _new_folder(folder)
    with (folder / "service.log").open("w") as log:
        logs.configure("info", log)
        clip = _make_clip(folder)
        with _collecting() as collected:
            settings = _settings(folder, collected)
            _transcode(settings, clip, collected)
    _report(settings, folder)
    out(f"everything is in {folder}: the database, the log, the clip, the output and the report")


class Collector(WebhookListener):
    """A receiver that verifies webhooks like `euterpe listen`, and keeps the events."""

    def __init__(self) -> None:
        super().__init__((), as_json=False)
        self.address = ""
        self.events: list[Event] = []
        self._is_over = threading.Event()

    def trust(self, secret: str) -> None:
        self._secrets = (secret,)

    def await_end(self) -> list[Event]:
        if not self._is_over.wait(_TIMEOUT_S):
            raise DemoFailed("the last webhook did not come; the folder has the service's log")
        return sorted(self.events, key=lambda event: event.sequence)

    def _show(self, event: Event) -> None:
        self.events.append(event)
        if event.type in ("job.succeeded", "job.failed"):
            self._is_over.set()


@contextmanager
def _collecting() -> Iterator[Collector]:
    collector = Collector()
    with WebhookServer(0, collector) as server:
        collector.address = f"127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()


def _new_folder(folder: Path | None) -> Path:
    if folder is None:
        return Path(tempfile.mkdtemp(prefix="euterpe-demo-", dir=Path.cwd()))
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise typer.BadParameter(f"{folder} is not empty", param_hint="--dir")
    return folder.resolve()


def _settings(folder: Path, collector: Collector) -> Settings:
    """Return the settings of a separate installation in `folder`. They override the environment."""
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
        require_sandbox=False,  # the only media is the clip that the demo made
    )


def _make_clip(folder: Path) -> Path:
    from euterpe.media.ffmpeg import find_ffmpeg

    clip = folder / "sample.mp4"
    inputs = ("-f", "lavfi", "-i", _PICTURE, "-f", "lavfi", "-i", _SOUND)
    made = ("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac", str(clip))
    command_line = (str(find_ffmpeg()), "-nostdin", "-loglevel", "error", *inputs, *made)
    subprocess.run(command_line, check=True, timeout=_TIMEOUT_S)  # noqa: S603  no argument from outside
    out(f"clip       {clip.name}, {_SECONDS} s of 1280×720")
    return clip


def _transcode(settings: Settings, clip: Path, collector: Collector) -> None:
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
                output=f"{clip.parent.as_uri()}/out/",
                profile="h264-720p",
                status_webhook_url=f"http://{collector.address}/hook",
            )
            out(f"job        {job.job_id}")
            follow(client.watch(job.job_id), as_json=False)
        events = collector.await_end()
    if terminal_width():
        out("")
    out(f"webhooks   {len(events)} signed and verified: {', '.join(event.status for event in events)}")
    if not terminal_width():  # on a terminal, the table of outputs is already printed
        out(f"output     {json.dumps(events[-1].outputs[0])}")


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

    out("spark      computes the report of this run")
    lake = Lake(folder / "lake")
    with spark_session(name="euterpe demo") as session:
        ingest(session, lake, settings.database_url.get_secret_value())
        page = publish(analyse(session, lake, Question(), Options()), folder / "report")
    out(f"report     {page.as_uri()}")
