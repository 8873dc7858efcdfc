import io
import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from euterpe.cli.commands import opened
from euterpe.settings import load
from euterpe.wiring.storage_profiles import load_storage_profiles
from tests.cli.command_runner import CANARY, Cli, submit
from tests.store.jobs import claim_one
from tests.vault_server import VaultServer, errors

RING = Path("euterpe.db.keks.json")


def keks(cli: Cli) -> dict[str, tuple[str, int]]:
    return {row["kek_id"]: (row["state"], row["wraps"]) for row in cli.json("keys", "list")}


def test_the_first_use_of_an_sqlite_database_makes_a_ring_beside_it(installed: Cli) -> None:
    assert not RING.exists()
    installed.json("requester", "create", "newsroom")
    assert stat.S_IMODE(RING.stat().st_mode) == 0o600
    ((state, wraps),) = keks(installed).values()
    assert (state, wraps) == ("active", 1)


def test_what_needs_no_key_makes_none_and_works_without(installed: Cli) -> None:
    for command in (("jobs", "list"), ("queues", "pause", "default"), ("requester", "list")):
        installed.ok(*command)
    assert not RING.exists()


def test_a_lost_ring_is_not_replaced_by_a_new_one(installed: Cli) -> None:
    installed.json("requester", "create", "newsroom")
    RING.unlink()
    assert "put it back" in installed.fails("requester", "create", "archive")
    assert not RING.exists()
    assert len(installed.json("requester", "list")) == 1


def test_a_rotation_moves_every_secret_and_retires_the_old_key(installed: Cli) -> None:
    requester = installed.json("requester", "create", "newsroom")
    for _ in range(3):
        submit()
    (old,) = keks(installed)
    added = installed.json("keys", "add", "--id", "new")
    assert added == {"kek_id": "new", "active": False, "file": str(RING)}
    assert keks(installed) == {old: ("active", 4), "new": ("decrypts", 0)}
    assert "still wraps 4 secrets" in installed.fails("keys", "retire", old)
    installed.ok("keys", "activate", "new")
    assert "still wraps 4 secrets" in installed.fails("keys", "retire", old)
    assert installed.json("keys", "rewrap") == {"kek_id": "new", "rewrapped": 4}
    assert "0 secrets were rewrapped" in installed.ok("keys", "rewrap").out
    assert keks(installed) == {old: ("decrypts", 0), "new": ("active", 4)}
    assert "put it back from a copy" in installed.ok("keys", "retire", old).out
    assert keks(installed) == {"new": ("active", 4)}
    with opened() as store:
        assert store.requesters.webhook_secrets(requester["requester_id"]) == [requester["webhook_secret"]]


def test_an_active_key_that_wraps_nothing_is_not_retired_either(installed: Cli) -> None:
    installed.ok("keys", "add", "--id", "only")
    assert "is active" in installed.fails("keys", "retire", "only")


def test_the_first_key_of_a_file_is_active_at_once(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EUTERPE_DATABASE_URL", "postgresql://127.0.0.1:1/none")
    monkeypatch.setenv("EUTERPE_KEK_FILE", "ring.json")
    shown = cli.ok("keys", "add").out
    assert "it is active" in shown
    assert stat.S_IMODE(Path("ring.json").stat().st_mode) == 0o600
    second = cli.ok("keys", "add").out
    assert "keys activate" in second


def test_a_rotation_needs_no_restart(installed: Cli) -> None:
    with opened() as running:
        running.requesters.create("before")
        for new in ("second", "third"):
            (old,) = keks(installed)
            installed.ok("keys", "add", "--id", new)
            installed.ok("keys", "activate", new)
            made = running.requesters.create(f"under-{new}")
            assert keks(installed)[new] == ("active", 1)
            installed.ok("keys", "rewrap")
            installed.ok("keys", "retire", old)
            assert running.requesters.webhook_secrets(made.requester_id) == [made.webhook_secret]


def test_a_key_that_wraps_secrets_and_is_not_in_the_ring_is_shown_missing(
    installed: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed.json("requester", "create", "newsroom")
    (old,) = keks(installed)
    monkeypatch.setenv("EUTERPE_KEK_FILE", "other.json")
    installed.ok("keys", "add", "--id", "other")
    assert keks(installed) == {"other": ("active", 0), old: ("missing", 1)}
    assert old in installed.fails("keys", "rewrap")


def test_a_ring_in_the_environment_is_changed_there(installed: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    installed.ok("keys", "add")
    monkeypatch.setenv("EUTERPE_KEKS", RING.read_text())
    (kek_id,) = keks(installed)
    for command in (("add",), ("activate", kek_id)):
        assert "EUTERPE_KEKS" in installed.fails("keys", *command)


def test_another_engine_without_keys_names_the_settings(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EUTERPE_DATABASE_URL", "postgresql://127.0.0.1:1/none")
    line = cli.fails("keys", "add")
    assert "EUTERPE_KEK_FILE" in line
    assert "EUTERPE_KEKS" in line


def test_no_key_is_ever_shown(installed: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    installed.ok("keys", "add", "--id", "k1")
    (secret,) = json.loads(RING.read_text())["keys"].values()
    shown = [installed("keys", *command) for command in (("list",), ("add",), ("rewrap",), ("activate", "x"))]
    monkeypatch.setenv("EUTERPE_KEKS", json.dumps({"active": "k2", "keys": {"k1": secret}}))
    shown += [installed("keys", "list"), installed("doctor")]
    monkeypatch.setenv("EUTERPE_KEKS", secret)
    shown += [installed("keys", "list"), installed("doctor")]
    assert not any(secret in ran.out + ran.err for ran in shown)
    assert shown[-1].code == 1


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[VaultServer]:
    """Yield a Vault server that the settings do not name yet."""
    (folder := tmp_path / "vault").mkdir()
    with VaultServer(folder) as server:
        yield server


def use(vault: VaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in vault.settings().items():
        monkeypatch.setenv(name, value)


V1, V2 = "vault:transit/euterpe:v1", "vault:transit/euterpe:v2"


def test_every_secret_is_moved_from_a_file_to_vault_and_back(
    installed: Cli, vault: VaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    requester = installed.json("requester", "create", "newsroom")
    submit()
    (old,) = keks(installed)
    use(vault, monkeypatch)
    assert keks(installed) == {V1: ("active", 0), old: ("decrypts", 2)}
    assert installed.json("keys", "rewrap") == {"kek_id": V1, "rewrapped": 2}
    assert keks(installed) == {V1: ("active", 2), old: ("decrypts", 0)}
    RING.rename("backup.json")
    assert keks(installed) == {V1: ("active", 2)}
    with opened() as store:
        assert store.requesters.webhook_secrets(requester["requester_id"]) == [requester["webhook_secret"]]
        assert store.credentials.open(claim_one(store))[0] is not None
    monkeypatch.setenv("EUTERPE_KEY_PROVIDER", "local")
    monkeypatch.setenv("EUTERPE_KEK_FILE", "backup.json")
    assert keks(installed) == {old: ("active", 0), V1: ("decrypts", 2)}
    assert installed.json("keys", "rewrap") == {"kek_id": old, "rewrapped": 2}
    monkeypatch.delenv("EUTERPE_VAULT_URL")
    vault.is_sealed = True
    assert keks(installed) == {old: ("active", 2)}


def test_a_key_in_vault_is_rotated_there_and_rewrapped_here(
    installed: Cli, vault: VaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(vault, monkeypatch)
    installed.json("requester", "create", "newsroom")
    assert not RING.exists()
    for command in (("add",), ("activate", "k1"), ("retire", "k1")):
        line = installed.fails("keys", *command)
        assert "`vault write -f transit/keys/euterpe/rotate` and `euterpe keys rewrap`" in line
    vault.rotate()
    assert keks(installed) == {V2: ("active", 0), V1: ("decrypts", 1)}
    assert installed.json("keys", "rewrap") == {"kek_id": V2, "rewrapped": 1}
    vault.min_decryption_version = 2
    assert keks(installed) == {V2: ("active", 1)}


def test_the_self_test_names_the_active_key_and_its_time(
    installed: Cli, vault: VaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed.ok("keys", "add", "--id", "k1")
    assert installed.json("keys", "test")["kek_id"] == "k1"
    use(vault, monkeypatch)
    assert installed.ok("keys", "test").out.startswith(f"{V1} encrypts and decrypts; that took ")
    vault.answers = [errors(403, "permission denied")]
    line = installed.fails("keys", "test")
    assert "renew the token" in line
    assert vault.token not in line


def test_an_outage_of_vault_ends_a_command_with_one_line(
    installed: Cli, vault: VaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(vault, monkeypatch)
    installed.json("requester", "create", "newsroom")
    vault.token = "revoked"
    assert "with 403" in installed.fails("keys", "rewrap")
    assert "with 403" in installed.fails("requester", "create", "archive")
    assert [row["name"] for row in installed.json("requester", "list")] == ["newsroom"], "this needs no key"


def test_a_sealed_secret_works_in_the_file_and_keeps_its_key(
    installed: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{CANARY}\n"))
    line = installed.ok("keys", "seal", "main", "secret_access_key").out
    assert line.startswith('secret_access_key_sealed = "eus1.')
    assert CANARY not in line
    Path("euterpe.toml").write_text(
        f'[storage.main]\ntype = "s3"\naccess_key_id = "AKIA"\n{line}requesters = ["newsroom"]\n'
    )
    credentials = load_storage_profiles(load())["main"].credentials
    assert credentials.type == "s3"
    assert credentials.secret_access_key.get_secret_value() == CANARY
    details = {finding["check"]: finding for finding in installed.json("doctor")}
    assert details["storage profiles"]["ok"]
    (old,) = keks(installed)
    installed.ok("keys", "add", "--id", "new")
    installed.ok("keys", "activate", "new")
    assert "still encrypts a field of euterpe.toml" in installed.fails("keys", "retire", old)
    Path("euterpe.toml").unlink()
    installed.ok("keys", "retire", old)


def test_only_a_field_of_the_credentials_is_sealed(installed: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(CANARY))
    line = installed.fails("keys", "seal", "main", "secret_access_keyy", code=2)
    assert "FIELD: must be one of " in line
    assert "secret_access_key, service_account_json" in line
    assert CANARY not in line


def test_sealing_needs_a_secret(installed: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    assert "stdin: must contain the secret" in installed.fails("keys", "seal", "main", "access_token", code=2)
