import time

import pytest
import typer

from euterpe.cli.commands import duration_ms, instant_ms


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("0s", 0), ("90s", 90_000), ("15m", 900_000), ("12h", 43_200_000), ("30d", 2_592_000_000)],
)
def test_a_duration_is_a_number_and_a_unit(text: str, milliseconds: int) -> None:
    assert duration_ms(text, "--keep") == milliseconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "s",
        "-1s",
        "1.5h",
        "1 h",
        "1w",
        "1S",
        "\u0661s",
        "1s\n",
        "36501d",
        "999999999d",
        "9" * 99 + "s",
    ],
)
def test_anything_else_is_no_duration(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="a number and a unit"):
        duration_ms(text, "--keep")


def test_an_instant_is_a_time_or_how_long_ago_it_was() -> None:
    assert instant_ms("2030-01-31T12:00:00Z", "--since") == 1_896_091_200_000
    assert instant_ms("2030-01-31T13:00:00+01:00", "--since") == 1_896_091_200_000
    assert instant_ms("1h", "--since") <= time.time() * 1000 - 3_600_000


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2030-01-31", "2030-01-31T12:00:00", "1030-01-31T12:00:00Z"]
)
def test_anything_else_is_no_instant(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="how long ago"):
        instant_ms(text, "--since")
