"""`euterpe profiles`: list the profiles of this installation or a service, with descriptions and reasons."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from euterpe.cli.commands import AsJson, command
from euterpe.cli.output import json_document, table
from euterpe.cli.submit import connected
from euterpe.settings import load
from euterpe.wiring.profiles import load_profiles


def register(app: typer.Typer) -> None:
    command(app, "profiles", example="euterpe profiles --json")(show)


def show(
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="Ask this service, with the key in EUTERPE_API_KEY.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the profiles that a job can name: the built-in ones, and those in EUTERPE_PROFILES."""
    found = _of_service(url) if url is not None else _of_installation()
    if as_json:
        json_document(found)
        return
    table(("profile", "makes", "why"), [(p["name"], p["description"], p.get("reason", "")) for p in found])


def _of_installation() -> Sequence[Mapping[str, Any]]:
    return [profile.document() for profile in load_profiles(load()).values()]


def _of_service(url: str) -> Sequence[Mapping[str, Any]]:
    with connected(url) as client:
        return client.profiles()
