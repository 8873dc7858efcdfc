"""The program `euterpe` in an installation that has no database driver."""

import pytest

from euterpe.cli.worker_app import main
from euterpe.runtime.installation import install_hint


def test_the_help_shows_the_commands_of_a_remote_worker(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert "worker" in shown
    assert "doctor" in shown
    assert "migrate" not in shown


@pytest.mark.parametrize("arguments", [["serve"], ["jobs", "list"], ["--json", "migrate"]])
def test_another_command_says_what_to_install(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.endswith(
        f"is no command of a remote worker; for the other commands, {install_hint('service')}\n"
    )
