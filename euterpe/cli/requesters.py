"""`euterpe requester`: manage requesters, their API keys, webhook secrets and limits."""

import re
from collections.abc import Callable
from functools import partial
from typing import Annotated

import typer

from euterpe.cli.commands import AsJson, command, duration_ms, group, opened
from euterpe.cli.output import age, document, fields, json_document, note, out, table
from euterpe.domain.rows import RequesterRow
from euterpe.domain.scopes import DEFAULT_SCOPES, Scope
from euterpe.store.queue.fairness.fair_shares import DEFAULT_WEIGHT
from euterpe.store.queue.fairness.requester_limits import LONGEST_TIMEOUT_S, LimitName

app = group("Requesters: their API keys and webhook secrets.", example="euterpe requester create newsroom")

Requester = Annotated[str, typer.Argument(metavar="REQUESTER", help="The name or id of the requester.")]
Limit = str | None
_COUNT = re.compile("[0-9]{1,9}")
Keep = Annotated[
    str, typer.Option("--keep", help="How long the old key or secret stays valid: 90s, 12h, 30d.")
]


@command(app, "create", example="euterpe requester create newsroom --scope transcode:write")
def create(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    scope: Annotated[
        list[Scope] | None, typer.Option(help="A permission of the API key; repeatable.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Add a requester. Its API key and webhook secret are printed only this one time."""
    with opened() as store:
        made = store.requesters.create(name, scope or DEFAULT_SCOPES)
    _print_secrets(
        as_json,
        requester_id=made.requester_id,
        api_key=made.api_key,
        webhook_secret=made.webhook_secret,
    )


@command(app, "list", example="euterpe requester list --json")
def list_(as_json: AsJson = False) -> None:
    """List all requesters. `keys` is the number of API keys that are valid now.

    `euterpe worker-key list` lists the keys of remote workers.
    """
    with opened() as store:
        workers = {row.requester_id for row in store.requesters.workers()}
        rows = [row for row in store.requesters.all() if row.requester_id not in workers]
    if as_json:
        json_document([document(row) for row in rows])
        return
    table(
        ("name", "id", "keys", "age", "limits", "disabled"),
        [
            (
                row.name,
                row.requester_id,
                row.valid_keys,
                age(row.created_at),
                _limits_of(row),
                "yes" if row.disabled_at else "",
            )
            for row in rows
        ],
    )


@command(app, "rotate-key", example="euterpe requester rotate-key newsroom --keep 12h")
def rotate_key(requester: Requester, keep: Keep = "24h", as_json: AsJson = False) -> None:
    """Make a new API key with the scopes of the newest key. The old keys expire after --keep."""
    old_valid_ms = duration_ms(keep, "--keep")
    with opened() as store:
        requester_id = store.requesters.find(requester)
        api_key = store.requesters.rotate_key(requester_id, old_valid_ms=old_valid_ms)
    _print_secrets(as_json, requester_id=requester_id, api_key=api_key, old_valid_for=keep)


@command(app, "rotate-secret", example="euterpe requester rotate-secret newsroom --keep 12h")
def rotate_secret(requester: Requester, keep: Keep = "24h", as_json: AsJson = False) -> None:
    """Make a new webhook secret. Until the old secrets expire, webhooks have a signature for each secret."""
    old_valid_ms = duration_ms(keep, "--keep")
    with opened() as store:
        requester_id = store.requesters.find(requester)
        secret = store.requesters.rotate_secret(requester_id, old_valid_ms=old_valid_ms)
    _print_secrets(as_json, requester_id=requester_id, webhook_secret=secret, old_valid_for=keep)


@command(app, "set", example="euterpe requester set newsroom --weight 300 --max-running 4 --max-timeout 2h")
def set_(
    requester: Requester,
    *,
    weight: Annotated[Limit, typer.Option(help="The share of a queue, 1 to 10000; `none` means 100.")] = None,
    max_running: Annotated[
        Limit, typer.Option(help="The maximum number of jobs ready or running at once, over all queues.")
    ] = None,
    max_timeout: Annotated[Limit, typer.Option(help="The longest timeout of a job, like 90s or 2h.")] = None,
    max_attempts: Annotated[
        Limit, typer.Option(help="The maximum number of attempts that a job may request.")
    ] = None,
    max_priority: Annotated[Limit, typer.Option(help="The highest priority that a job may ask for.")] = None,
) -> None:
    """Set the weight and the limits of a requester.

    `none` removes a limit. Limits not given stay unchanged.
    """
    given: dict[LimitName, tuple[str | None, Callable[[str], int]]] = {
        "weight": (weight, partial(_count, "--weight")),
        "max_running": (max_running, partial(_count, "--max-running")),
        "max_timeout_seconds": (max_timeout, _seconds),
        "max_attempts": (max_attempts, partial(_count, "--max-attempts")),
        "max_priority": (max_priority, partial(_count, "--max-priority")),
    }
    without: dict[LimitName, int] = {"weight": DEFAULT_WEIGHT}
    changes = {
        name: without.get(name) if text == "none" else read(text)
        for name, (text, read) in given.items()
        if text is not None
    }
    if not changes:
        raise typer.BadParameter("name at least one limit; see --help")
    with opened() as store:
        store.requester_limits.set(store.requesters.find(requester), changes)
    shown = (f"{name} is {'not limited' if value is None else value}" for name, value in changes.items())
    out(f"{requester}: {', '.join(shown)}")


@command(app, "disable", example="euterpe requester disable newsroom")
def disable(requester: Requester) -> None:
    """Refuse all API keys of a requester from now on. The requester's jobs stay."""
    with opened() as store:
        store.requesters.disable(store.requesters.find(requester))
    out(f"{requester} is disabled")


def _count(option: str, text: str) -> int:
    if not _COUNT.fullmatch(text):
        raise typer.BadParameter(f"{option}: {text!r} is not a whole number, nor `none`")
    return int(text)


def _seconds(text: str) -> int:
    seconds = duration_ms(text, "--max-timeout") // 1000
    if not 1 <= seconds <= LONGEST_TIMEOUT_S:
        raise typer.BadParameter(f"--max-timeout: {text!r} is not between 1s and 7d")
    return seconds


def _limits_of(row: RequesterRow) -> str:
    """Return the weight and limits that the operator has set for a requester, as one line."""
    named = {"weight": "weight", "max_running": "running", "max_timeout_seconds": "timeout in s"}
    named |= {"max_attempts": "attempts", "max_priority": "priority"}
    unset = {"weight": DEFAULT_WEIGHT}
    return ", ".join(
        f"{word} {getattr(row, name)}"
        for name, word in named.items()
        if getattr(row, name) != unset.get(name)
    )


def _print_secrets(as_json: bool, **values: str) -> None:
    if as_json:
        json_document(values)
        return
    fields(values)
    note("Keep them now: they are not shown again.")
