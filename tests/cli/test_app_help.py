from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

import euterpe
from euterpe.cli.app import app
from tests.cli.command_runner import Cli


def paths(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words of every command and group."""
    yield path
    for name, child in getattr(command, "commands", {}).items():
        yield from paths(child, (*path, name))


PATHS = list(paths(get_command(app)))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: " ".join(path) or "euterpe")
def test_every_command_has_help_with_an_example(cli: Cli, path: tuple[str, ...]) -> None:
    shown = " ".join(cli.ok(*path, "--help").out.split())
    assert f"Example: euterpe {' '.join(path)}".rstrip() in shown


@pytest.mark.parametrize("path", [path for path in PATHS if path], ids=" ".join)
def test_every_command_says_what_it_does(cli: Cli, path: tuple[str, ...]) -> None:
    usage, sentence = [line.strip() for line in cli.ok(*path, "--help").out.splitlines() if line.strip()][:2]
    assert usage.startswith(f"Usage: euterpe {' '.join(path)}")
    assert len(sentence) > 10


@pytest.mark.parametrize("path", [(), ("jobs",)])
def test_a_group_alone_shows_its_help_and_is_wrong_usage(cli: Cli, path: tuple[str, ...]) -> None:
    ran = cli(*path)
    assert (ran.code, ran.err) == (2, "")
    assert "Usage: euterpe" in ran.out


def test_the_version_is_that_of_the_package(cli: Cli) -> None:
    assert cli.ok("--version").out.strip() == euterpe.__version__
