"""Test that `docs/media.md` agrees with the code: its examples, its warnings and its table of rates."""

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import euterpe
from euterpe.domain.codecs import CODECS
from euterpe.domain.documents import WarningDocument
from euterpe.domain.outputs import OutputSpec
from euterpe.domain.spec import parse_spec
from euterpe.media.planning.argv import arguments, measurement_arguments
from euterpe.media.planning.picture import Size
from euterpe.media.planning.planner import plan
from euterpe.media.planning.rates import most_kbps
from euterpe.media.source.colour import Colour
from euterpe.media.source.media_info import MediaInfo, StreamInfo
from euterpe.media.source.watermark_info import WatermarkInfo
from tests.media.planning.facts import measured

PACKAGE = Path(euterpe.__file__).parent
PAGE = (PACKAGE.parent / "docs" / "media.md").read_text()
_JSON = re.compile(r"^```json\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_CODE_ROW = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)

SOURCE = MediaInfo(
    "matroska",
    10_000_000,
    60.0,
    (
        StreamInfo(
            0, "video", "hevc", 60.0, width=3840, height=2160, fps=25.0, colour=Colour(9, 16, 9), bit_depth=10
        ),
        StreamInfo(1, "audio", "eac3", 60.0, channels=6, sample_rate=48_000, language="eng", is_default=True),
        StreamInfo(2, "audio", "aac", 60.0, channels=2, sample_rate=48_000, language="ger"),
        StreamInfo(3, "subtitle", "subrip", 60.0, language="eng"),
    ),
)


LOGOS = {"s3://in/logo.png": WatermarkInfo("png_pipe", 0, 600, 200)}


def documents() -> list[Any]:
    return [json.loads(text) for text in _JSON.findall(PAGE)]


def output_examples() -> list[list[dict[str, Any]]]:
    return [
        [found] if isinstance(found, dict) else found
        for found in documents()
        if isinstance(found, list) or "type" in found
    ]


def parsed(outputs: list[dict[str, Any]]) -> tuple[OutputSpec, ...]:
    spec = {"source": {"url": "s3://in/a.mkv"}, "output": {"url": "s3://out/a/"}, "outputs": outputs}
    return parse_spec(spec).outputs or ()


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def warnings_in_the_code() -> Iterator[str]:
    """Yield the code of each `PlanWarning` that the package creates."""
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Call(
                    func=ast.Name(id="PlanWarning") | ast.Attribute(attr="PlanWarning"),
                    args=[ast.Constant(value=str(code)), *_],
                ):
                    yield code
                case ast.Call(func=ast.Name(id="PlanWarning") | ast.Attribute(attr="PlanWarning")):
                    pytest.fail(f"{file.name}:{node.lineno}: the code of a warning is not a literal")


# -- examples


@pytest.mark.parametrize("outputs", output_examples(), ids=lambda outputs: outputs[0]["name"])
def test_every_example_is_a_request_that_can_be_planned(outputs: list[dict[str, Any]]) -> None:
    planned = plan(parsed(outputs), SOURCE, threads=1, watermarks=LOGOS)
    assert list(planned.outputs) == [output["name"] for output in outputs]
    for measurement in planned.measurements:
        assert measurement_arguments(planned, measurement, Path("ffmpeg"))
    planned = measured(planned)
    for command in planned.commands:
        assert arguments(planned, command, Path("ffmpeg"))


def test_the_examples_show_every_type_of_output() -> None:
    shown = {output["type"] for outputs in output_examples() for output in outputs}
    assert shown == {kind for codec in CODECS.values() for kind in codec.outputs}


def test_the_files_of_the_first_example_have_the_names_of_the_page() -> None:
    planned = plan(parsed(output_examples()[0]), SOURCE, threads=1)
    (package,) = planned.packages
    assert {"720p", "audio_eng"} <= set(package.renditions)
    assert (package.hls, package.dash, package.trick_play) == (True, True, True)


# -- warnings


def test_the_page_lists_the_warnings_of_the_code() -> None:
    shown = _CODE_ROW.findall(section("What is named in `warnings`"))
    assert len(shown) == len(set(shown))
    assert set(shown) == set(warnings_in_the_code())


def test_the_example_of_a_warning_has_the_fields_of_the_product() -> None:
    (example,) = [found["warnings"] for found in documents() if "warnings" in found]
    assert [list(one) for one in example] == [[field.name for field in fields(WarningDocument)]]
    assert {one["code"] for one in example} <= set(warnings_in_the_code())


# -- numbers


def test_the_table_of_rates_is_that_of_the_planner() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section("Rates").splitlines()
        if re.match(r"\| (lines|\d+) \|", line)
    ]
    codecs = [name.strip("`") for name in rows[0][1:]]
    assert len(rows) == 7
    for lines, *rates in rows[1:]:
        height = int(lines)
        size = Size(2 * round(height * 16 / 9 / 2), height)
        assert [int(rate) for rate in rates] == [most_kbps(size, 30.0, codec) for codec in codecs]
