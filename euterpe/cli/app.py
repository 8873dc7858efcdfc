"""The program `euterpe` with all its commands."""

from collections.abc import Sequence

from euterpe.cli import (
    analytics,
    batch,
    bench,
    bridge,
    demo,
    doctor,
    gateway,
    jobs,
    keys,
    listen,
    migrate,
    outbox,
    plan,
    profiles,
    requesters,
    serve,
    submit,
    worker_keys,
)
from euterpe.cli.program import new_app, run

app = new_app(
    "Transcoding on object storage and a SQL database, without a broker. "
    "Settings are EUTERPE_* variables, or the same names without prefix in euterpe.toml.",
    example="euterpe migrate && euterpe doctor",
)
demo.register(app)
migrate.register(app)
serve.register(app)
gateway.register(app)
submit.register(app)
profiles.register(app)
plan.register(app)
listen.register(app)
app.add_typer(requesters.app, name="requester")
app.add_typer(worker_keys.app, name="worker-key")
jobs.register(app)
app.add_typer(outbox.app, name="outbox")
app.add_typer(keys.app, name="keys")
doctor.register(app)
app.add_typer(analytics.app, name="analytics")
app.add_typer(batch.app, name="batch")
app.add_typer(bench.app, name="bench")
app.add_typer(bridge.app, name="bridge")


def main(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    return run(app, arguments)
