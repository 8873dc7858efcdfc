import os
from pathlib import Path

import pytest

from tests.cli.command_runner import Cli, capturing
from tests.media.clips import clips

__all__ = ["clips"]


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Return a command runner without settings.

    The runner's directory is empty, and will contain the database.
    """
    for name in [name for name in os.environ if name.startswith("EUTERPE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return capturing(capsys)


@pytest.fixture
def installed(cli: Cli) -> Cli:
    """Return the command runner over a migrated database."""
    cli.ok("migrate")
    return cli
