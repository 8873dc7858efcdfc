"""Lists of outputs, their names and their types."""

from typing import Any, get_args

import pytest

from euterpe.domain.codecs import OutputType
from euterpe.domain.outputs import Audio, Mp4Output, Video, single_file
from euterpe.domain.spec import parse_spec
from tests.domain.documents import Document, refusals
from tests.domain.outputs.one_output import parsed, with_outputs


def test_an_output_needs_little() -> None:
    spec = parse_spec(with_outputs({"name": "a", "type": "mp4"}))
    assert spec.outputs == (
        Mp4Output(name="a", type="mp4", video=Video(codec="h264"), audio=Audio(codec="aac")),
    )


def test_there_are_one_to_twenty_outputs() -> None:
    outputs = [{"name": f"o{number}", "type": "m4a"} for number in range(21)]
    parse_spec(with_outputs(*outputs[:20]))
    assert refusals(with_outputs(*outputs)) == {("outputs",): "must have 1 to 20 items"}
    assert refusals(with_outputs()) == {("outputs",): "must have 1 to 20 items"}


def test_names_of_outputs_differ() -> None:
    twice = [{"name": name, "type": "m4a"} for name in ("b", "a", "b")]
    assert refusals(with_outputs(*twice)) == {
        ("outputs",): "must have different names; given more than once: b"
    }


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"name": "a"}, "must have a type, which is a string"),
        ({"name": "a", "type": ["hls"]}, "must have a type, which is a string"),
        (
            {"name": "a", "type": "avi"},
            f"must have a type that is one of {', '.join(repr(kind) for kind in get_args(OutputType))}",
        ),
        ("mp4", "must be an object"),
    ],
)
def test_the_type_decides_what_an_output_is(wrong: Any, message: str) -> None:
    assert refusals(with_outputs(wrong)) == {("outputs", 0): message}


def test_a_field_of_another_type_is_refused() -> None:
    wrong = {"name": "a", "type": "m4a", "video": {}, "audio": {"codec": "mp3"}}
    assert refusals(with_outputs(wrong)) == {
        ("outputs", 0, "audio", "codec"): "must be 'aac'",
        ("outputs", 0, "video"): "is not a known field",
    }


@pytest.mark.parametrize(
    ("output", "path"),
    [
        ({"type": "mp4"}, "a.mp4"),
        ({"type": "mov"}, "a.mov"),
        ({"type": "webm"}, "a.webm"),
        ({"type": "opus"}, "a.opus"),
        ({"type": "flac"}, "a.flac"),
        ({"type": "preview", "format": "gif"}, "a.gif"),
        ({"type": "image", "at": "best"}, None),
        ({"type": "hls", "video": {"ladder": "auto"}}, None),
    ],
)
def test_an_output_of_one_file_has_its_name(output: Document, path: str | None) -> None:
    assert single_file(parsed(output)) == path
