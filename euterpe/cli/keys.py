"""`euterpe keys`: list the KEKs of the key ring and rotate them (add, activate, rewrap, retire)."""

import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress as ProgressBar

from euterpe.cli.commands import AsJson, command, group, opened
from euterpe.cli.output import json_document, out, table
from euterpe.crypto import keyfile
from euterpe.crypto.envelope import storage_profile_context
from euterpe.crypto.sealed_text import seal_text
from euterpe.domain.credentials import CREDENTIAL_FIELDS
from euterpe.domain.errors import FieldError, InvalidSpec
from euterpe.settings import FILE, load
from euterpe.store.errors import Conflict
from euterpe.store.secrets.rewrap import RewrapProgress
from euterpe.wiring.database import key_provider, open_store, ring_file, self_tested_key_provider
from euterpe.wiring.storage_profiles import kek_ids_of_sealed_fields

app = group(
    "The keys that encrypt stored secrets. To rotate: add a key, activate it, rewrap, retire the old one. "
    "Running programs reload the file; copy it to every machine before the next step.",
    example="euterpe keys list",
)

# A command changes the key file of one machine only.
_EVERYWHERE = "bring the file to every machine that has a copy, then run"
Kek = Annotated[
    str, typer.Argument(metavar="KEK", help="The id of the key, as `euterpe keys list` shows it.")
]


@command(app, "list", example="euterpe keys list --json")
def list_(as_json: AsJson = False) -> None:
    """List all keys. Show whether each key is active, and how many stored secrets it wraps."""
    settings = load()
    ring = key_provider(settings)
    with open_store(settings, ring) as store:
        used = store.rewrap.in_use()
    found = [
        {
            "kek_id": kek_id,
            "state": _state(kek_id, ring.active_id, ring.ids),
            "wraps": used.get(kek_id, 0),
        }
        for kek_id in (*ring.ids, *sorted(used.keys() - set(ring.ids)))
    ]
    if as_json:
        json_document(found)
        return
    table(("kek", "state", "wraps"), [tuple(row.values()) for row in found])


@command(app, "add", example="euterpe keys add --id 2030-06")
def add(
    kek_id: Annotated[str | None, typer.Option("--id", help="The new key's id; random by default.")] = None,
    as_json: AsJson = False,
) -> None:
    """Add a random key. Until the key is activated, it is used only to decrypt.

    The first key of a file is active at once.
    """
    path = _file_to_change()
    added = keyfile.add_key(path, kek_id)
    active = keyfile.read(path).active == added
    if as_json:
        json_document({"kek_id": added, "active": active, "file": str(path)})
        return
    out(f"added {added} to {path}")
    if active:
        out("it is active; if it is to replace a lost ring, `euterpe keys list` shows what it cannot open")
    else:
        out(f"{_EVERYWHERE} `euterpe keys activate {added}`")


@command(app, "activate", example="euterpe keys activate 2030-06")
def activate(kek_id: Kek) -> None:
    """Encrypt with this key from now on. Every machine must already have the key."""
    keyfile.activate_key(_file_to_change(), kek_id)
    out(f"{kek_id} is active; {_EVERYWHERE} `euterpe keys rewrap`")


@command(app, "rewrap", example="euterpe keys rewrap")
def rewrap(as_json: AsJson = False) -> None:
    """Move every stored secret to the active key. Safe under load. Run it again if it was interrupted."""
    settings, done = load(), RewrapProgress(0, ())
    ring, console = key_provider(settings), Console(stderr=True)
    with (
        open_store(settings, ring) as store,
        ProgressBar(console=console, transient=True, disable=not console.is_terminal) as bar,
    ):
        left = sum(count for kek_id, count in store.rewrap.in_use().items() if kek_id != ring.active_id)
        task = bar.add_task("rewrapping", total=left)
        for done in store.rewrap.run():
            bar.update(task, completed=done.moved)
    if done.broken:
        lost = f"{len(done.broken)} could not be: {'; '.join(done.broken)}"
        raise Conflict(f"{done.moved} secrets were rewrapped and {lost}")
    if as_json:
        json_document({"kek_id": ring.active_id, "rewrapped": done.moved})
        return
    out(f"{done.moved} secrets were rewrapped under {ring.active_id}")


@command(app, "seal", example="euterpe keys seal main secret_access_key < secret.txt")
def seal(
    profile: Annotated[str, typer.Argument(metavar="PROFILE", help="The storage profile, such as main.")],
    field: Annotated[str, typer.Argument(metavar="FIELD", help="The field, such as secret_access_key.")],
) -> None:
    """Encrypt a secret of a storage profile for `euterpe.toml`. Read the secret from stdin.

    The text can be used only in this field of this profile. A line break at the end of stdin is left out.
    """
    if field not in CREDENTIAL_FIELDS:
        known = ", ".join(sorted(CREDENTIAL_FIELDS))
        raise InvalidSpec((FieldError(("FIELD",), f"must be one of {known}"),))
    secret = sys.stdin.read().removesuffix("\n").removesuffix("\r")
    if not secret:
        raise InvalidSpec((FieldError(("stdin",), "must contain the secret"),))
    keys = self_tested_key_provider(load())
    out(f'{field}_sealed = "{seal_text(secret, storage_profile_context(profile, field), keys)}"')


@command(app, "retire", example="euterpe keys retire 2029-06")
def retire(kek_id: Kek) -> None:
    """Remove a key that no longer wraps a secret.

    Keep a copy, because backups of the database may need it.
    """
    path = _file_to_change()
    if kek_id in kek_ids_of_sealed_fields(load()):
        raise Conflict(f"key {kek_id} still encrypts a field of {FILE}: run `euterpe keys seal` again")
    with opened() as store:
        wraps = store.rewrap.in_use().get(kek_id, 0)
    if wraps:
        raise Conflict(
            f"key {kek_id} still wraps {wraps} secrets; activate another one and run `euterpe keys rewrap`"
        )
    keyfile.remove_key(path, kek_id)
    out(f"{kek_id} is gone; to open a backup of its time, put it back from a copy of the file")


@command(app, "test", example="euterpe keys test")
def self_test(as_json: AsJson = False) -> None:
    """Run the self-test: encrypt and decrypt a random key with the active key. Print the time."""
    began = time.monotonic()
    keys = self_tested_key_provider(load())
    took_ms = int((time.monotonic() - began) * 1000)
    if as_json:
        json_document({"kek_id": keys.active_id, "took_ms": took_ms})
        return
    out(f"{keys.active_id} encrypts and decrypts; that took {took_ms} ms")


def _file_to_change() -> Path:
    """Return the path of the key ring file. Raise Conflict if the active key is in Vault."""
    settings = load()
    if settings.key_provider == "vault":
        rotate = f"vault write -f {settings.vault_mount}/keys/{settings.vault_key}/rotate"
        raise Conflict(f"the active key is in Vault: run `{rotate}` and `euterpe keys rewrap`")
    return ring_file(settings)


def _state(kek_id: str, active_id: str, known: tuple[str, ...]) -> str:
    if kek_id not in known:
        return "missing"
    return "active" if kek_id == active_id else "decrypts"
