"""The command `euterpe doctor`, which chooses the checks and prints their results."""

from collections.abc import Iterator
from dataclasses import asdict

import typer

from euterpe.cli.commands import AsJson, command, importing
from euterpe.cli.doctor.findings import CheckResult
from euterpe.cli.output import json_document, table
from euterpe.cli.serve import ServerUrl
from euterpe.settings import Settings, load


def register(app: typer.Typer) -> None:
    command(app, "doctor", example="euterpe doctor --json")(run)


def run(server: ServerUrl = None, as_json: AsJson = False) -> None:
    """Check the machine, the keys, the database, and what jobs may reach. Print how to fix failures.

    With --server (or EUTERPE_SERVER), check what a remote worker needs: the server in place of the database.
    """
    findings = list(_examine(load() if server is None else load(server=server)))
    if as_json:
        json_document([asdict(finding) for finding in findings])
    else:
        table(("", "check", "detail"), [(f.verdict, f.check, f.detail) for f in findings])
    if not all(finding.ok for finding in findings):
        raise typer.Exit(1)


def _examine(settings: Settings) -> Iterator[CheckResult]:
    if settings.server is not None:
        from euterpe.cli.doctor import remote_worker

        return remote_worker.examine(settings)
    with importing("service", unless="EUTERPE_SERVER is set"):
        from euterpe.cli.doctor import installation
    return installation.examine(settings)
