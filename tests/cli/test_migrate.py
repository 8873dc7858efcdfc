import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.command_runner import Cli


def write(statement: str) -> None:
    with closing(sqlite3.connect("euterpe.db")) as database:
        database.execute(statement)
        database.commit()


def test_a_new_database_is_brought_to_the_schema_once(cli: Cli) -> None:
    assert "applied 0001_core" in cli.ok("migrate").out
    assert "nothing to apply" in cli.ok("migrate").out
    assert cli.json("migrate") == {"applied": []}


def test_the_status_of_no_database_says_what_to_run_and_creates_none(cli: Cli) -> None:
    shown = cli.ok("migrate", "--status").out
    assert "pending 0001_core" in shown
    assert "run `euterpe migrate`" in shown
    assert not Path("euterpe.db").exists()


def test_the_status_of_an_empty_database_says_what_to_run(cli: Cli) -> None:
    Path("euterpe.db").touch()
    status = cli.json("migrate", "--status")
    assert (status["schema"], status["current"]) == (None, False)
    assert status["pending"][0] == {"version": 1, "name": "core"}
    assert "run `euterpe migrate`" in cli.ok("migrate", "--status").out


def test_the_status_of_a_current_database_says_so(installed: Cli) -> None:
    assert "it is current" in installed.ok("migrate", "--status").out
    status = installed.json("migrate", "--status")
    assert status["current"]
    assert status["schema"] >= 1


@pytest.mark.parametrize("command", [("migrate", "--status"), ("migrate",), ("jobs", "list")])
def test_a_newer_database_asks_for_the_newer_program(installed: Cli, command: tuple[str, ...]) -> None:
    write("INSERT INTO schema_migrations VALUES (9999, 'future', 'x', 1)")
    assert "install the newer Euterpe" in installed.fails(*command)


@pytest.mark.parametrize("command", [("migrate", "--status"), ("migrate",), ("jobs", "list")])
def test_a_tampered_database_asks_for_the_program_that_made_it(
    installed: Cli, command: tuple[str, ...]
) -> None:
    write("UPDATE schema_migrations SET checksum = 'x' WHERE version = 1")
    assert "install the version of Euterpe that applied it" in installed.fails(*command)


def test_a_missing_directory_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EUTERPE_DATABASE_URL", "sqlite:///nowhere/euterpe.db")
    assert "no directory nowhere" in cli.fails("migrate")


def test_a_file_that_is_no_database_is_refused(cli: Cli) -> None:
    Path("euterpe.db").write_text("something else entirely, and long enough to have a header" * 99)
    assert "not a database" in cli.fails("migrate")
