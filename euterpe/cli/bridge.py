"""`euterpe bridge`: serve the jobs of foreign queues, such as BullMQ, and check how they are set up."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from euterpe.cli.commands import AsJson, command, group, importing
from euterpe.cli.output import json_document, out, table
from euterpe.cli.serve import RunningParts, run_until_signal, stop_this_program
from euterpe.settings import Settings, load

if TYPE_CHECKING:
    from euterpe.bridges.config import BridgeConfig

app = group(
    "Bridges to foreign queues. EUTERPE_BRIDGES names the TOML file that declares them.",
    example="euterpe bridge check && euterpe bridge run --name videos",
)

Name = Annotated[str | None, typer.Option(metavar="NAME", help="Only this bridge.")]


@command(app, "run", example="euterpe bridge run --name videos")
def run(
    name: Name = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Serve Prometheus metrics on this port, without a key."),
    ] = None,
) -> None:
    """Serve the jobs of foreign queues until SIGTERM. Then hand back the jobs that have not ended."""
    settings = load()
    with importing("bridges"):
        from euterpe.wiring.bridges import RunningBridges

        bridges = _declared(settings, name)
        parts = RunningBridges(settings, bridges, metrics_port=metrics_port, on_failure=stop_this_program)

    @contextmanager
    def started() -> Iterator[RunningParts]:
        try:
            parts.start()
            out(f"serving {', '.join(bridge.name for bridge in bridges)}")
            yield parts
        finally:
            parts.stop()

    run_until_signal(settings, started())


@command(app, "list", example="euterpe bridge list --json")
def list_(as_json: AsJson = False) -> None:
    """List the declared bridges with the names of the jobs that they serve."""
    rows = [_shown(bridge) for bridge in _declared(load(), None)]
    if as_json:
        json_document(rows)
        return
    names = ("name", "kind", "queue", "requester", "slots", "jobs")
    table(names, [[_text(row[column]) for column in names] for row in rows])


@command(app, "check", example="euterpe bridge check --name videos")
def check(name: Name = None, as_json: AsJson = False) -> None:
    """Check the database, and for each bridge the mapping, the requester, and the foreign queue."""
    from euterpe.cli.doctor.bridges import examine_bridges, examine_database

    settings = load()
    results = [examine_database(settings), *examine_bridges(settings, name)]
    if as_json:
        json_document(
            [{"check": result.check, "ok": result.ok, "detail": result.detail} for result in results]
        )
    else:
        table(("", "check", "detail"), [(result.verdict, result.check, result.detail) for result in results])
    if not all(result.ok for result in results):
        raise typer.Exit(1)


def _declared(settings: Settings, name: str | None) -> "Sequence[BridgeConfig]":
    with importing("bridges"):
        from euterpe.wiring.bridges import load_bridges
    return load_bridges(settings, name)


def _shown(bridge: "BridgeConfig") -> dict[str, Any]:
    """Return a bridge without its address, which may have a password."""
    return {
        "name": bridge.name,
        "kind": str(bridge.kind),
        "queue": bridge.queue,
        "requester": bridge.requester,
        "slots": bridge.slots,
        "lease_ms": bridge.lease_ms,
        "jobs": sorted(bridge.jobs),
    }


def _text(value: object) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)
