"""`euterpe gateway`: jobs of the Redis Streams contract over HTTP."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from euterpe.cli.commands import command, importing
from euterpe.cli.output import out
from euterpe.cli.serve import Host, Port, run_until_signal
from euterpe.settings import Settings, load

if TYPE_CHECKING:
    from euterpe.wiring.gateway import RunningGateway

RedisUrl = Annotated[
    str,
    typer.Option(
        "--redis",
        metavar="URL",
        envvar="GATEWAY_REDIS",
        help="The Redis of the jobs, such as redis://localhost:6379/0. A password belongs in the variable.",
    ),
]


def register(app: typer.Typer) -> None:
    command(app, "gateway", example="euterpe gateway --redis redis://localhost:6379/0 --port 8100")(gateway)


def gateway(redis_url: RedisUrl, host: Host = "127.0.0.1", port: Port = 8100) -> None:
    """Accept jobs over HTTP and keep them in Redis, where a bridge takes them.

    On the loopback address, the gateway asks for no key. On any other address, it asks for the API key of a
    requester.
    """
    with importing("gateway"):
        from euterpe.wiring.gateway import running_gateway

    settings = load()

    @contextmanager
    def started(settings: Settings) -> "Iterator[RunningGateway]":
        with running_gateway(settings, redis_url, host, port) as running:
            out(f"listening on {running.url}")
            yield running

    run_until_signal(settings, started(settings))
