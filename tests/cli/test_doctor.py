import re
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from euterpe.runtime.installation import install_hint
from euterpe.store.engine.database import Database
from tests.cli.command_runner import CANARY, Cli, submit
from tests.free_port import free_port
from tests.service.test_mixed_fleet import incomplete_ffmpeg
from tests.vault_server import VaultServer

RING = Path("euterpe.db.keks.json")


def failed_checks(cli: Cli) -> list[tuple[str, str]]:
    """Assert that the JSON report and the text report agree. Return the failed checks."""
    report = cli("doctor", "--json")
    failed = [(finding["check"], finding["detail"]) for finding in report.json if not finding["ok"]]
    shown = cli("doctor")
    assert report.code == shown.code == int(bool(failed))
    assert shown.out.count("FAILED") == len(failed)
    assert report.err == shown.err == ""
    return failed


def test_a_sound_installation_has_no_trouble(installed: Cli) -> None:
    assert failed_checks(installed) == []
    assert not RING.exists(), "the check must not create keys"
    installed.json("requester", "create", "newsroom")
    submit()
    assert failed_checks(installed) == []
    details = {finding["check"]: finding["detail"] for finding in installed.json("doctor")}
    assert "write-ahead log" in details["database"]
    assert details["stored secrets"].startswith("2 ")


def test_what_jobs_may_reach_is_shown_with_the_names_of_the_settings(
    installed: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reach() -> str:
        (text,) = [row["detail"] for row in installed.json("doctor") if row["check"] == "what jobs may reach"]
        return str(text)

    assert "EUTERPE" not in reach()
    monkeypatch.setenv("EUTERPE_STORAGE_ROOTS", str(Path.cwd()))
    monkeypatch.setenv("EUTERPE_EGRESS_ALLOW", "127.0.0.1:9000")
    assert f"{Path.cwd()} by EUTERPE_STORAGE_ROOTS; 127.0.0.1:9000 by EUTERPE_EGRESS_ALLOW" in reach()


def test_the_profiles_are_checked(installed: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def profiles() -> str:
        (text,) = [row["detail"] for row in installed("doctor", "--json").json if row["check"] == "profiles"]
        return str(text)

    assert re.fullmatch(r"\d+ are built in", profiles())
    folder = tmp_path / "profiles"
    folder.mkdir()
    monkeypatch.setenv("EUTERPE_PROFILES", str(folder))
    assert profiles().endswith(f", and 0 are in {folder}")
    (folder / "a.toml").touch()
    assert "a.toml: outputs: is required" in profiles()


def java(cli: Cli) -> str:
    (text,) = [row["detail"] for row in cli.json("doctor") if row["check"] == "Java"]
    return str(text)


def test_java_is_shown_with_its_version(installed: Cli) -> None:
    assert re.fullmatch(r"\d+ at /.+/java, for analytics", java(installed))


def test_a_java_that_is_not_there(installed: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(Path.cwd()))
    ((check, detail),) = failed_checks(installed)
    assert check == "Java"
    assert "openjdk-17-jre-headless" in detail


def test_java_is_not_needed_without_analytics(installed: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "euterpe.analytics.session", None)
    monkeypatch.setenv("JAVA_HOME", str(Path.cwd()))
    assert "not needed" in java(installed)
    assert java(installed).endswith(install_hint("analytics"))


def test_a_database_that_is_not_there(cli: Cli) -> None:
    ((check, detail),) = failed_checks(cli)
    assert check == "database"
    assert "run `euterpe migrate`" in detail
    assert not list(Path().iterdir()), "the check must not create a database"


def test_a_database_that_does_not_answer(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EUTERPE_DATABASE_URL", f"postgresql://u:{CANARY}@127.0.0.1:{free_port()}/euterpe")
    (ring, database) = failed_checks(cli)
    assert "EUTERPE_KEK_FILE" in ring[1]
    assert "EUTERPE_DATABASE_URL" in database[1]
    assert CANARY not in cli("doctor").out


def test_a_schema_that_is_behind(cli: Cli) -> None:
    Path("euterpe.db").touch()
    ((check, detail),) = failed_checks(cli)
    assert check == "schema"
    assert "run `euterpe migrate`" in detail


def test_a_file_system_without_a_write_ahead_log(installed: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def delete(_: Database) -> str:
        return "delete"

    monkeypatch.setattr(Database, "journal_mode", delete)
    ((check, detail),) = failed_checks(installed)
    assert check == "database"
    assert "local disk" in detail


def test_an_sqlite_that_is_too_old(installed: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 37, 2))
    ((check, detail),) = failed_checks(installed)
    assert check == "database"
    assert "3.38" in detail


def test_a_ring_that_is_exposed(installed: Cli) -> None:
    installed.json("requester", "create", "newsroom")
    RING.chmod(0o644)
    failed = dict(failed_checks(installed))
    assert set(failed) == {"key ring", "stored secrets"}
    assert "chmod 600" in failed["key ring"]


def test_several_problems_of_a_check_are_one_line(installed: Cli) -> None:
    tables = (f'[storage.{name}]\ntype = "s3"\nrequesters = []\n' for name in ("a", "b"))
    Path("euterpe.toml").write_text("".join(tables))
    detail = dict(failed_checks(installed))["storage profiles"]
    assert "\n" not in detail
    assert "; euterpe.toml: storage.b: " in detail


def test_a_ring_that_is_lost(installed: Cli) -> None:
    installed.json("requester", "create", "newsroom")
    RING.unlink()
    ((check, detail),) = failed_checks(installed)
    assert check == "stored secrets"
    assert "put it back" in detail


def test_a_vault_that_works_and_one_that_refuses(
    installed: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (folder := tmp_path / "vault").mkdir()
    with VaultServer(folder) as vault:
        for name, value in vault.settings().items():
            monkeypatch.setenv(name, value)
        installed.json("requester", "create", "newsroom")
        checks = {finding["check"]: finding["detail"] for finding in installed.json("doctor")}
        assert checks["key ring"] == "KEK vault:transit/euterpe:v1 is active, one of 1"
        assert checks["stored secrets"].startswith("1 credentials and webhook secrets")
        vault.token = "revoked"
        failed = dict(failed_checks(installed))
    assert set(failed) == {"key ring", "stored secrets"}
    assert "renew the token" in failed["key ring"]
    assert vault.token_file.read_text().strip() not in str(failed)


@pytest.mark.parametrize(("mode", "verdict"), [(0o600, []), (0o640, []), (0o644, [True]), (0o606, [True])])
def test_a_token_file_that_others_can_use_is_a_warning(
    installed: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mode: int, verdict: list[bool]
) -> None:
    """Vault Agent writes its token file with mode 0640, for a program in its group."""
    (folder := tmp_path / "vault").mkdir()
    with VaultServer(folder) as vault:
        vault.token_file.chmod(mode)
        for name, value in vault.settings().items():
            monkeypatch.setenv(name, value)
        found = [finding for finding in installed.json("doctor") if finding["check"] == "token file"]
    assert [finding["is_warning"] for finding in found] == verdict
    assert all(finding["ok"] and "chmod" in finding["detail"] for finding in found)


def test_a_key_that_is_missing_from_the_ring(installed: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    installed.json("requester", "create", "newsroom")
    (kek,) = installed.json("keys", "list")
    monkeypatch.setenv("EUTERPE_KEK_FILE", "other.json")
    installed.ok("keys", "add")
    ((check, detail),) = failed_checks(installed)
    assert check == "stored secrets"
    assert kek["kek_id"] in detail


def test_a_key_that_has_the_right_id_and_is_another(installed: Cli) -> None:
    installed.ok("keys", "add", "--id", "k1")
    job_id = submit()
    RING.unlink()
    installed.ok("keys", "add", "--id", "k1")
    ((check, detail),) = failed_checks(installed)
    assert check == "stored secrets"
    assert f"inbox_jobs {job_id}" in detail


def test_a_secret_that_was_moved_to_another_row(installed: Cli) -> None:
    first, second = submit(), submit()
    with closing(sqlite3.connect("euterpe.db")) as database:
        database.execute(
            "UPDATE inbox_jobs SET (storage_creds_encrypted, storage_creds_dek_wrapped) = (SELECT "
            "storage_creds_encrypted, storage_creds_dek_wrapped FROM inbox_jobs WHERE job_id = ?) "
            "WHERE job_id = ?",
            (first, second),
        )
        database.commit()
    ((check, detail),) = failed_checks(installed)
    assert check == "stored secrets"
    assert "1 of a sample" in detail
    assert second in detail


def damage(number: int) -> None:
    with Path("euterpe.db").open("r+b") as file:
        file.seek(number)
        file.write(b"\xff" * 200)


def test_a_damaged_database(installed: Cli) -> None:
    for _ in range(20):
        submit(metadata={"note": CANARY * 20})
    with closing(sqlite3.connect("euterpe.db")) as database:
        (size,) = database.execute("PRAGMA page_size").fetchone()
        (page,) = database.execute(
            "SELECT max(pageno) FROM dbstat WHERE name = 'inbox_jobs' AND pagetype = 'leaf'"
        ).fetchone()
    damage((page - 1) * size)
    ((check, detail),) = failed_checks(installed)
    assert check == "stored data"
    assert "damaged" in detail
    assert "restore a backup" in detail
    assert CANARY not in detail


def test_a_file_that_is_no_database(installed: Cli) -> None:
    damage(0)
    ((check, detail),) = failed_checks(installed)
    assert check == "database"
    assert "the database is damaged" in detail
    assert "restore it from a backup" in detail


def test_an_ffmpeg_without_an_encoder_is_a_warning(
    installed: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "ffmpeg features" not in {row["check"] for row in installed.json("doctor")}
    monkeypatch.setenv("EUTERPE_FFMPEG", str(incomplete_ffmpeg(tmp_path / "ffmpeg", "libsvtav1")))
    assert failed_checks(installed) == [], "the worker runs all other jobs"
    (found,) = [row for row in installed.json("doctor") if row["check"] == "ffmpeg features"]
    assert found["is_warning"]
    assert found["detail"].startswith("no encoder libsvtav1: ")
