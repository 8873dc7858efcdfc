"""`euterpe prune`: remove old jobs from the history."""

from typing import Annotated

import typer

from euterpe.cli.commands import AsJson, command, duration_ms, opened
from euterpe.cli.output import json_document, out
from euterpe.store.history.prune import PruneResult


def register(app: typer.Typer) -> None:
    command(app, "prune", example="euterpe prune --older-than 30d")(prune)


def prune(
    older_than: Annotated[str, typer.Option(help="How long a job must have been over: 90s, 12h, 30d.")],
    as_json: AsJson = False,
) -> None:
    """Remove finished jobs with their events and attempts. Their ids then answer 410."""
    age_ms = duration_ms(older_than, "--older-than")
    done = PruneResult()
    with opened() as store:
        for done in store.prune.run(age_ms):  # noqa: B007  the last one is the sum
            pass
    if as_json:
        json_document({"jobs": done.jobs, "idempotency_keys": done.keys, "groups": done.groups})
        return
    out(f"removed {done.jobs} jobs, {done.keys} expired idempotency keys and {done.groups} idle groups")
