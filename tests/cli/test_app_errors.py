"""Every failed command prints one line on stderr and returns an exit code."""

import errno
import json
import subprocess
import sys
from pathlib import Path

import pytest

from euterpe.cli import commands
from euterpe.runtime.installation import install_hint
from tests.cli.command_runner import CANARY, Cli
from tests.free_port import free_port

NEED_THE_DATABASE = [
    ("migrate",),
    ("migrate", "--status"),
    ("requester", "create", "x"),
    ("requester", "list"),
    ("requester", "rotate-key", "x"),
    ("requester", "rotate-secret", "x"),
    ("requester", "disable", "x"),
    ("jobs", "list"),
    ("jobs", "show", "x"),
    ("jobs", "retry", "x"),
    ("jobs", "cancel", "x"),
    ("queues", "list"),
    ("queues", "pause", "x"),
    ("queues", "resume", "x"),
    ("outbox", "list"),
    ("outbox", "show", "x"),
    ("outbox", "replay", "x"),
    ("keys", "list"),
    ("keys", "rewrap"),
    ("keys", "retire", "x"),
]
every_command = pytest.mark.parametrize("command", NEED_THE_DATABASE, ids=" ".join)


@every_command
@pytest.mark.parametrize("scheme", ["postgresql", "libsql"])
def test_an_unreachable_database_is_one_line(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, scheme: str, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("EUTERPE_DATABASE_URL", f"{scheme}://user:{CANARY}@127.0.0.1:{free_port()}/euterpe")
    monkeypatch.setenv("EUTERPE_KEK_FILE", "ring.json")
    cli.ok("keys", "add")
    line = cli.fails(*command)
    assert "connect" in line
    assert CANARY not in line


@every_command
def test_an_unknown_engine_is_one_line(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("EUTERPE_DATABASE_URL", f"mysql://user:{CANARY}@127.0.0.1/euterpe")
    line = cli.fails(*command)
    assert "mysql" in line
    assert CANARY not in line


@pytest.mark.parametrize(("extra", "package"), [("postgres", "psycopg"), ("libsql", "libsql_client")])
def test_a_driver_that_is_not_installed_is_named_with_what_to_run(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, extra: str, package: str
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setenv("EUTERPE_DATABASE_URL", f"{extra}://127.0.0.1:1/x")
    line = cli.fails("migrate")
    assert f" needs the package {package}" in line
    assert line.endswith(f"; {install_hint(extra)}")


@pytest.mark.parametrize("command", NEED_THE_DATABASE[2:], ids=" ".join)
def test_a_database_that_is_not_there_is_not_made_but_asked_for(cli: Cli, command: tuple[str, ...]) -> None:
    assert "run `euterpe migrate`" in cli.fails(*command)
    assert not list(Path().iterdir())


@pytest.mark.parametrize("command", NEED_THE_DATABASE[2:], ids=" ".join)
def test_an_empty_database_is_not_worked_on(cli: Cli, command: tuple[str, ...]) -> None:
    Path("euterpe.db").touch()
    assert "run `euterpe migrate`" in cli.fails(*command)


@pytest.mark.parametrize(
    "command",
    [
        ("nope",),
        ("jobs", "nope"),
        ("jobs", "show"),
        ("jobs", "show", "a", "b"),
        ("jobs", "list", "--nope"),
        ("jobs", "list", "--status", "nope"),
        ("jobs", "list", "--limit", "0"),
        ("jobs", "list", "--limit", "many"),
        ("jobs", "list", "--limit"),
        ("jobs", "list", "--before", "nope"),
        ("outbox", "list", "--before", "nope"),
        ("outbox", "list", "--job", "nope"),
        ("requester", "create", "x", "--scope", "everything"),
        ("requester", "rotate-key", "x", "--keep", "1"),
        ("jobs", "show", "\udcff"),
        ("jobs", "show", "\0"),
    ],
)
def test_wrong_usage_is_one_line_that_leads_to_the_help(cli: Cli, command: tuple[str, ...]) -> None:
    line = cli.fails(*command, code=2)
    assert "--help`" in line
    assert "Value error" not in line


def test_wrong_settings_are_a_line_each_and_wrong_usage(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EUTERPE_OUTBOX_BATCH", "26")
    Path("euterpe.toml").write_text(f'job_max_attempts = "x"\nkeks = ["{CANARY}"]\ncolour = "red"\n')
    ran = cli("jobs", "list")
    assert (ran.code, ran.out) == (2, "")
    assert [line.split()[:3] for line in ran.err.splitlines()] == [
        ["error:", "euterpe.toml:", "keks"],
        ["error:", "EUTERPE_OUTBOX_BATCH", "must"],
        ["error:", "euterpe.toml:", "job_max_attempts"],
        ["error:", "euterpe.toml:", "'colour'"],
    ]
    assert CANARY not in ran.err


@pytest.mark.parametrize(
    "keks",
    [
        CANARY,
        json.dumps({"active": "k1", "keys": {"k1": CANARY}}),
        json.dumps({"active": CANARY, "keys": {"k1": "A" * 43 + "="}}),
    ],
)
def test_a_broken_ring_is_one_line_without_its_keys(
    installed: Cli, monkeypatch: pytest.MonkeyPatch, keks: str
) -> None:
    monkeypatch.setenv("EUTERPE_KEKS", keks)
    line = installed.fails("requester", "create", "x")
    assert "EUTERPE_KEKS" in line
    if "active" not in keks:
        assert CANARY not in line


def test_an_exposed_ring_is_refused_with_what_to_run(installed: Cli) -> None:
    installed.ok("keys", "add")
    Path("euterpe.db.keks.json").chmod(0o644)
    assert "chmod 600" in installed.fails("requester", "create", "x")
    assert "no such file" not in installed.fails("keys", "list")


def test_a_bug_is_one_line_with_its_place_and_not_its_text(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeError(f"with a value: {CANARY}")

    monkeypatch.setattr(commands, "load", broken)
    line = cli.fails("jobs", "list")
    assert "unexpected RuntimeError" in line
    assert "test_app_errors.py" in line
    assert CANARY not in line


def test_ctrl_c_is_130_and_says_nothing(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "load", interrupted)
    ran = cli("jobs", "list")
    assert (ran.code, ran.out, ran.err) == (130, "", "")


def test_an_unwritable_ring_directory_is_named(installed: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EUTERPE_KEK_FILE", "nowhere/ring.json")
    assert "nowhere" in installed.fails("keys", "add")
    assert "euterpe keys add" in installed.fails("requester", "create", "x")


def test_a_place_that_cannot_be_written_to_is_named_and_no_bug(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**options: object) -> str:
        raise PermissionError(errno.EACCES, "Permission denied", str(options["dir"]))

    monkeypatch.setattr("euterpe.cli.demo.command.tempfile.mkdtemp", refuse)
    assert cli.fails("demo") == f"{Path.cwd()}: Permission denied"


def test_a_full_disk_behind_stdout_is_one_line(cli: Cli) -> None:
    cli.ok("migrate")
    command = [sys.executable, "-m", "euterpe", "jobs", "list", "--json"]
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(command, check=False, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (ran.returncode, ran.stderr) == (1, "error: No space left on device\n")


def test_an_sqlite_file_of_somebody_else_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root can write to any file, so `os.access` is replaced by the answer that other users would get."""
    cli.ok("migrate")
    monkeypatch.setattr("euterpe.wiring.database.os.access", lambda path, _: Path(path).name != "euterpe.db")
    assert cli.fails("jobs", "list").startswith("euterpe.db cannot be written to by this user")


def test_an_address_with_two_slashes_is_corrected(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EUTERPE_DATABASE_URL", "sqlite://euterpe.db")
    assert "sqlite:///euterpe.db" in cli.fails("migrate")
