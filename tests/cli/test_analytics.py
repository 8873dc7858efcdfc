"""`euterpe analytics` checks its options before Spark starts."""

from pathlib import Path

import pytest
import typer

from euterpe.cli.analytics import _create_folder, _question
from tests.cli.command_runner import Cli


@pytest.mark.parametrize(
    ("since", "day"),
    [("2026-11-01", "2026-11-01"), ("2026-11-01T23:30:00Z", "2026-11-01"), ("", "")],
)
def test_a_history_is_asked_from_a_day_on(since: str, day: str) -> None:
    assert _question(since, "").since == day


@pytest.mark.parametrize("since", ["2026-02-30", "yesterday"])
def test_a_day_that_is_none_is_refused(since: str) -> None:
    with pytest.raises(typer.BadParameter, match="must be a time"):
        _question(since, "")


def test_a_folder_that_cannot_be_written_is_an_error_before_the_computation(tmp_path: Path) -> None:
    (tmp_path / "report").touch()
    with pytest.raises(typer.BadParameter, match="report: File exists"):
        _create_folder(tmp_path / "report")


def test_a_made_history_cannot_end_in_the_future(cli: Cli, tmp_path: Path) -> None:
    error = cli.fails(
        *("analytics", "synthesize", "--jobs", "1", "--lake", "lake", "--until", "2037-01-01T00:00:00Z"),
        code=2,
    )
    assert "--until" in error
    assert "is in the future" in error
    assert not (tmp_path / "lake").exists()
