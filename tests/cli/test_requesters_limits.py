"""`euterpe requester set`: the weight, the cap and the limits on jobs of a requester."""

import pytest

from euterpe.cli.commands import opened
from tests.cli.command_runner import Cli


def test_limits_are_set_and_shown(installed: Cli) -> None:
    installed.json("requester", "create", "newsroom")
    ran = installed.ok("requester", "set", "newsroom", "--weight", "300", "--max-running", "4")
    assert ran.out.strip() == "newsroom: weight is 300, max_running is 4"
    installed.ok("requester", "set", "newsroom", "--max-timeout", "2h", "--max-attempts", "2")
    installed.ok("requester", "set", "newsroom", "--max-priority", "60")
    (row,) = installed.json("requester", "list")
    shown = {name: row[name] for name in row if name == "weight" or name.startswith("max_")}
    assert shown == {
        "weight": 300,
        "max_running": 4,
        "max_timeout_seconds": 7200,
        "max_attempts": 2,
        "max_priority": 60,
    }
    assert "weight 300, running 4" in installed.ok("requester", "list").out


def test_none_removes_a_limit_and_leaves_the_others(installed: Cli) -> None:
    installed.json("requester", "create", "newsroom")
    installed.ok("requester", "set", "newsroom", "--max-running", "4", "--max-priority", "60")
    ran = installed.ok("requester", "set", "newsroom", "--max-running", "none")
    assert "max_running is not limited" in ran.out
    (row,) = installed.json("requester", "list")
    assert (row["max_running"], row["max_priority"]) == (None, 60)


def test_a_weight_of_none_is_the_default(installed: Cli) -> None:
    installed.json("requester", "create", "newsroom")
    installed.ok("requester", "set", "newsroom", "--weight", "300")
    installed.ok("requester", "set", "newsroom", "--weight", "none")
    (row,) = installed.json("requester", "list")
    assert row["weight"] == 100


@pytest.mark.parametrize(
    "wrong",
    [
        (),
        ("--weight", "0"),
        ("--weight", "10001"),
        ("--max-running", "-1"),
        ("--max-running", "0"),
        ("--max-timeout", "60"),
        ("--max-timeout", "8d"),
        ("--max-attempts", "101"),
        ("--max-priority", "high"),
    ],
    ids=" ".join,
)
def test_a_limit_that_makes_no_sense_is_wrong_usage(installed: Cli, wrong: tuple[str, ...]) -> None:
    installed.json("requester", "create", "newsroom")
    ran = installed("requester", "set", "newsroom", *wrong)
    assert ran.code == 2
    assert len(ran.err.strip().splitlines()) <= 3
    assert not wrong or wrong[0] in ran.err or wrong[0][2:].replace("-", "_") in ran.err
    with opened() as store:
        (row,) = store.requesters.all()
    assert (row.weight, row.max_running) == (100, None)


def test_limits_of_nobody_are_a_failure(installed: Cli) -> None:
    assert installed("requester", "set", "nobody", "--weight", "5").code == 1
