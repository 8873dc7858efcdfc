"""`euterpe serve` and each of its parts as a separate program: `api`, `worker`, `dispatcher`."""

import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Annotated, Protocol

import structlog
import typer

from euterpe import logs
from euterpe.cli.commands import command, importing
from euterpe.cli.output import out
from euterpe.runtime.garbage_collector import collect_garbage_less_often
from euterpe.settings import Settings, load

if TYPE_CHECKING:
    from euterpe.wiring.services import Services

_log = structlog.get_logger(__name__)

Host = Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 means all addresses.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; 0 means any free port.")]


def register(app: typer.Typer) -> None:
    command(app, "serve", example="euterpe serve --port 8000")(serve)
    command(app, "api", example="euterpe api --host 0.0.0.0")(api)
    register_worker(app)
    command(app, "dispatcher", example="euterpe dispatcher")(dispatcher)


def register_worker(app: typer.Typer) -> None:
    command(app, "worker", example="euterpe worker --server https://euterpe.example")(worker)


def serve(host: Host = "127.0.0.1", port: Port = 8000) -> None:
    """Run API, worker and dispatcher together.

    SIGTERM starts a drain. A second SIGTERM ends the process at once.
    """

    def start(services: "Services") -> None:
        server = services.open_api(host, port)  # no part starts if the port is taken
        services.start_dispatcher()
        services.start_worker()
        server.start()
        out(f"listening on {server.url}")

    _run(start)


def api(host: Host = "127.0.0.1", port: Port = 8000) -> None:
    """Run the API alone."""

    def start(services: "Services") -> None:
        server = services.open_api(host, port)
        server.start()
        out(f"listening on {server.url}")

    _run(start)


ServerUrl = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="Get jobs from this server, with the key in EUTERPE_API_KEY. [EUTERPE_SERVER]"
    ),
]


def worker(server: ServerUrl = None) -> None:
    """Run a worker alone: it fetches, encodes and uploads.

    With --server (or EUTERPE_SERVER) it is a remote worker, which needs no database.
    """
    settings = load() if server is None else load(server=server)
    if settings.server is None:
        _run(lambda services: services.start_worker())
        return
    from euterpe.wiring.remote_worker import running_remote_worker, server_settings

    server_settings(settings)  # check the settings before this process changes its signals, limits and logs
    run_until_signal(settings, running_remote_worker(settings))


def dispatcher() -> None:
    """Run a dispatcher alone: it delivers webhooks."""
    _run(lambda services: services.start_dispatcher())


class RunningParts(Protocol):
    """The running parts of one program. `is_stuck` is true if an attempt did not end at the stop."""

    is_stuck: bool


def _run(start: "Callable[[Services], None]") -> None:
    """Run the parts that `start` starts, on the database of this installation."""
    with importing("service", unless="EUTERPE_SERVER is set"):
        from euterpe.wiring.services import running

    @contextmanager
    def started(settings: Settings) -> Iterator[RunningParts]:
        with running(settings) as services:
            start(services)
            yield services

    settings = load()
    run_until_signal(settings, started(settings))


def run_until_signal(settings: Settings, program: AbstractContextManager[RunningParts]) -> None:
    """Run a program until SIGTERM or SIGINT. Its exit drains."""
    from euterpe.media.sandbox.confine import forbid_inspection

    logs.configure(settings.log_level)
    _disable_core_dumps()
    forbid_inspection()
    _open_as_many_files_as_allowed()
    stop = _open_stop_pipe()
    with program as running:
        collect_garbage_less_often()
        os.read(stop, 1)
        _log.info("draining")
    if running.is_stuck:
        os._exit(1)  # the stuck worker's threads would keep the interpreter from exiting


def stop_this_program() -> None:
    """End `run_until_signal` from another thread."""
    os.kill(os.getpid(), signal.SIGTERM)


def _disable_core_dumps() -> None:
    """Prevent core dumps, because memory contains credentials.

    The limit is 1 byte. With a limit of 0, a program that collects core dumps through a pipe would still
    receive them (core(5)).
    """
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    least = 0 if most == 0 else 1
    resource.setrlimit(resource.RLIMIT_CORE, (least, least))


def _open_as_many_files_as_allowed() -> None:
    """Raise the soft limit on open files to the hard limit.

    The default of 1,024 exists only for programs that use select(2).
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _open_stop_pipe() -> int:
    """Return the read end of a self-pipe for SIGTERM and SIGINT.

    A second signal ends the process without a drain.

    A `threading.Event` is not enough. Python runs a signal handler only between bytecodes, so if a signal
    arrives just before the main thread blocks in `wait`, the handler does not run and the wait does not end.
    """
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end)
    received: list[int] = []

    def on_signal(number: int, _: object) -> None:
        received.append(number)
        if len(received) > 1:
            os._exit(128 + number)  # no job or event is lost: the sweep takes them when their leases expire

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    return read_end
