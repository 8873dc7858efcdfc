"""`euterpe migrate`: apply pending migrations to the database, or list them."""

from contextlib import closing
from typing import Annotated

import typer

from euterpe.cli.commands import AsJson, command
from euterpe.cli.output import json_document, out
from euterpe.settings import Settings, load
from euterpe.store.engine.engines import EngineKind
from euterpe.store.engine.migrations import Migration, SchemaState, inspect, load_migrations, migrate
from euterpe.store.errors import StoreError
from euterpe.wiring.database import database_file, open_database


def register(app: typer.Typer) -> None:
    command(app, "migrate", example="euterpe migrate --status")(run)


def run(
    status: Annotated[bool, typer.Option("--status", help="Show the version, and change nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Migrate the database to the schema of this program, or show its schema version."""
    settings = load()
    if status:
        _show(_state(settings), as_json)
        return
    applied = _migrate(settings)
    if as_json:
        json_document({"applied": [_document(migration) for migration in applied]})
        return
    for migration in applied:
        out(f"applied {migration.version:04d}_{migration.name}")
    if not applied:
        out("the schema is current; there was nothing to apply")


def _state(settings: Settings) -> SchemaState:
    path = database_file(settings)
    if path is not None and not path.exists():
        return SchemaState((), load_migrations(EngineKind.SQLITE))  # --status must not create the file
    with closing(open_database(settings)) as database:
        return inspect(database)


def _migrate(settings: Settings) -> list[Migration]:
    path = database_file(settings)
    if path is not None and not path.parent.is_dir():
        raise StoreError(f"there is no directory {path.parent} for the database; create it")
    with closing(open_database(settings)) as database:
        return migrate(database)


def _show(state: SchemaState, as_json: bool) -> None:
    at = state.applied[-1] if state.applied else None
    if as_json:
        pending = [_document(migration) for migration in state.pending]
        json_document({"schema": at, "current": not pending, "pending": pending})
        return
    out(f"the database is at schema {at or 'nothing'}")
    for migration in state.pending:
        out(f"pending {migration.version:04d}_{migration.name}")
    out("run `euterpe migrate`" if state.pending else "it is current")


def _document(migration: Migration) -> dict[str, object]:
    return {"version": migration.version, "name": migration.name}
