import time

import pytest

from euterpe.cli.output import age, complain, fields, out, table


def test_an_age_is_shown_in_its_largest_unit() -> None:
    now = int(time.time() * 1000)
    assert [age(now - seconds * 1000) for seconds in (90, 7_200, 3 * 86_400)] == ["1m", "2h", "3d"]
    assert age(now + 60_000) == "0s", "the clock of the database may be ahead of ours"


def test_what_others_wrote_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "\x1b[2J\x9b31m\r\n\u202e[red]x"
    out(hostile)
    complain(hostile)
    table(("a",), [(hostile,), ({"in": [hostile]},)])
    fields({"a": hostile})
    shown = "".join(capsys.readouterr())
    assert not {"\x1b", "\x9b", "\r", "\u202e"} & set(shown)
    assert shown.count("[red]x") == 5, "the text must not be markup"


def test_an_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    complain("first\n\tsecond")
    assert capsys.readouterr().err == "error: first second\n"
