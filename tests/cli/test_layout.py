import re

import pytest

from euterpe.cli.layout import field_lines, flat, table_lines, wrap

ID = "01a1f4fb-c543-7000-8fae-ea766e5464bc"
COLUMNS = ("no", "status", "empty", "id", "error")
ROWS = [(1, "pending", None, ID, None), (10, "dead_letter", None, ID, "the receiver answered 502 twice")]


def table(width: int | None, below: int = 2) -> list[str]:
    return list(table_lines(COLUMNS, ROWS, width, below=below))


def test_for_programs_a_table_has_all_columns_and_one_line_for_each_row() -> None:
    header, first, second = table(None)
    assert header.split() == ["no", "status", "empty", "id", "error"]
    assert first.split() == ["1", "pending", ID]
    assert second.endswith(f"  {ID}  the receiver answered 502 twice")


def test_a_table_that_fits_a_terminal_leaves_out_empty_columns_only() -> None:
    header, *rows = table(100)
    assert header.split() == ["no", "status", "id", "error"]
    assert len(rows) == 2


def test_the_last_columns_move_below_their_row_if_a_terminal_is_too_narrow() -> None:
    assert table(60) == [
        f"no  status       {'id'}",
        f"1   pending      {ID}",
        f"10  dead_letter  {ID}",
        "  the receiver answered 502 twice",
    ]
    assert table(40) == [
        "no  status",
        "1   pending",
        f"  {ID}",
        "10  dead_letter",
        f"  {ID}",
        "  the receiver answered 502 twice",
    ]


def test_a_table_becomes_blocks_if_a_terminal_is_narrower_still() -> None:
    blocks = "\n".join(table(10)).split("\n\n")
    assert blocks[0].splitlines() == ["no      1", "status  pending", f"id      {ID}"]
    assert "answered" in blocks[1]


@pytest.mark.parametrize("width", [None, *range(1, 120)])
def test_no_width_cuts_a_word(width: int | None) -> None:
    text = " ".join(table(width))
    for value in (value for row in ROWS for value in row if value is not None):
        for word in str(value).split():
            assert re.search(rf"(^|\s){re.escape(word)}(\s|$)", text), (width, word)


@pytest.mark.parametrize("width", [60, 80, 140])
def test_only_a_long_word_is_wider_than_the_terminal(width: int) -> None:
    assert all(len(line) <= width for line in table(width))


def test_an_empty_table_is_its_header() -> None:
    assert list(table_lines(("job", "status"), [], 80)) == ["job  status"]


def test_wide_characters_are_aligned_and_wrapped_by_the_room_that_they_take() -> None:
    lines = list(table_lines(("name", "n"), [("映画", 1), ("film", 2)], 80))
    assert lines == ["name  n", "映画  1", "film  2"]
    assert wrap("映画 映画 映画", 9) == ["映画 映画", "映画"]


def test_fields_are_wrapped_beside_their_labels() -> None:
    lines = list(field_lines({"a": "one two three four five six", "long": "x" * 40, "none": None}, 32))
    assert lines == ["a     one two three four five", "      six", f"long  {'x' * 40}"]
    assert list(field_lines({"a": "one two"}, None)) == ["a  one two"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            {"show": "news", "tags": ["a", "b"], "by": {"id": 3, "on": True}},
            "show=news, tags=a b, by.id=3, by.on=yes",
        ),
        ([{"a": 1}, {"b": None}], "a=1; b=none"),
        ({"empty": {}}, "empty="),
        ("text", "text"),
    ],
)
def test_a_json_value_is_flat_text(value: object, text: str) -> None:
    assert flat(value) == text
