"""Tests of cues: plain text from events of ASS, and the validation of the child's answer."""

from typing import Any

import pytest

from euterpe.media.errors import MediaError
from euterpe.media.source.cues import LONGEST_TEXT, MOST_CUES, SourceCue, parse_tracks, plain_text

EVENT = "7,0,Default,Tom,0,0,0,,"


@pytest.mark.parametrize(
    ("markup", "shown"),
    [
        ("one, two, three", "one, two, three"),
        (r"one\Ntwo\nthree\hfour", "one\ntwo three\xa0four"),
        (r"{\i1}Tom{\i0} & {\an8\pos(1,2)}Jerry{}", "Tom & Jerry"),
        (r"{\p1}m 0 0 l 10 0 10 10{\p0}after", "after"),
        (r"{\pos(1,2)\p2}m 0 0 l 1 1", ""),
        (r"{\pbo4}shown", "shown"),
        (r"brace \{{}b} and \{b\}", "brace {b} and {b}"),
        ("open { brace \\ and \\x", "open { brace \\ and \\x"),
        ("C:\\\u2060Name", "C:\\Name"),
        ("one\\N\\N \\Ntwo", "one\ntwo"),
        ("a\x00b\x1bc\u2028d\x85e", "abcde"),
        ("{" * 1000, "{" * 1000),
        (" \t ", ""),
    ],
)
def test_markup_is_removed(markup: str, shown: str) -> None:
    assert plain_text((EVENT + markup).encode(), has_comments=False) == shown


def test_braces_are_a_comment_in_ass_only() -> None:
    event = f"{EVENT}one {{two}} three".encode()
    assert plain_text(event, has_comments=True) == "one  three"
    assert plain_text(event, has_comments=False) == "one {two} three"


@pytest.mark.parametrize("event", [b"", b"text", b"0,0,Default,,0,0,0", b"," * 8, b"0,0,,,,,,,\xff\xfe"])
def test_any_bytes_give_a_text(event: bytes) -> None:
    assert plain_text(event, has_comments=False) in ("", "\ufffd\ufffd")


def test_a_long_text_is_cut() -> None:
    for markup in ("x" * 10_000_000, r"{\b1}" * 1_000_000, "\\N" * 5_000_000, "\\" * 10_000_000):
        assert len(plain_text((EVENT + markup).encode(), has_comments=False)) <= LONGEST_TEXT


def test_an_answer_is_read_as_cues() -> None:
    (track,) = parse_tracks([{"stream": 2, "cues": [[-5, 10, "one\ntwo"]]}], [2])
    assert track.cues == (SourceCue(-5, 10, "one\ntwo"),)


@pytest.mark.parametrize(
    "cue",
    [
        [0, 1, ""],
        [0, 1, "x" * (LONGEST_TEXT + 1)],
        [0, 1, "a\0b"],
        [0, 1, "a\rb"],
        [0, 1, "\ud800"],
        [0, 10**15, "x"],
        [-(10**15), 0, "x"],
        [0.5, 1, "x"],
        [True, 1, "x"],
        [0, 1],
        [0, 1, "x", "y"],
        [0, 1, ["x"]],
        "abc",
    ],
)
def test_an_answer_with_another_cue_is_refused(cue: Any) -> None:
    with pytest.raises(MediaError) as refused:
        parse_tracks([{"stream": 2, "cues": [cue]}], [2])
    assert refused.value.code == "source_unsupported"


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        [{"stream": 3, "cues": []}],
        [{"stream": 2, "cues": []}] * 2,
        [{"stream": 2, "cues": [], "more": 1}],
        [{"stream": 2, "cues": [[0, 1, "x"]] * (MOST_CUES + 1)}],
    ],
)
def test_an_answer_of_another_form_is_refused(answer: Any) -> None:
    with pytest.raises(MediaError):
        parse_tracks(answer, [2])
