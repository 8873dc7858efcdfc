"""`euterpe worker-key`: manage the API keys of workers that reach the database only through the API."""

from typing import Annotated

import typer

from euterpe.cli.commands import AsJson, command, group, opened
from euterpe.cli.output import age, document, fields, json_document, note, out, table
from euterpe.domain.rows import RequesterRow
from euterpe.domain.scopes import Scope
from euterpe.store.errors import NotFound
from euterpe.store.store import Store

app = group("API keys of remote workers.", example="euterpe worker-key create worker-eu-1")

Worker = Annotated[str, typer.Argument(metavar="NAME", help="The name of the worker, or its id.")]


@command(app, "create", example="euterpe worker-key create worker-eu-1")
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name for the worker.")],
    as_json: AsJson = False,
) -> None:
    """Make an API key with the scope `worker` only. It is printed only this one time."""
    with opened() as store:
        made = store.requesters.create(name, [Scope.WORKER])
    shown = {"worker_key_id": made.requester_id, "api_key": made.api_key}
    if as_json:
        json_document(shown)
        return
    fields(shown)
    note("Keep it now: it is not shown again.")


@command(app, "list", example="euterpe worker-key list --json")
def list_(as_json: AsJson = False) -> None:
    """List the worker keys."""
    with opened() as store:
        rows = store.requesters.workers()
    if as_json:
        json_document([document(row) for row in rows])
        return
    table(
        ("name", "id", "age", "revoked"),
        [(row.name, row.requester_id, age(row.created_at), "yes" if row.disabled_at else "") for row in rows],
    )


@command(app, "revoke", example="euterpe worker-key revoke worker-eu-1")
def revoke(worker: Worker) -> None:
    """Refuse a worker's API key from now on.

    The worker's jobs go to other workers when their leases expire.
    """
    with opened() as store:
        store.requesters.disable(_find(store, worker).requester_id)
    out(f"{worker} is revoked")


def _find(store: Store, name_or_id: str) -> RequesterRow:
    """Return the worker key. Raise NotFound if no worker key has this name or id."""
    for row in store.requesters.workers():
        if name_or_id in (row.name, row.requester_id):
            return row
    raise NotFound(f"there is no worker key {name_or_id!r}; see `euterpe worker-key list`")
