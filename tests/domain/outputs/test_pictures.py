"""Moments of stills, and the limits of previews."""

import pytest

from euterpe.domain.outputs import ImageOutput, PreviewOutput
from euterpe.domain.spec import parse_spec
from tests.domain.documents import EXAMPLE, altered, refusals
from tests.domain.outputs.one_output import IMAGE, parsed, refused


@pytest.mark.parametrize("moment", ["0%", "50%", "33.333%", "100%", "0s", "12.5s", "86400s"])
def test_a_moment_is_a_share_of_the_duration_or_a_time(moment: str) -> None:
    parse_spec(altered(EXAMPLE, "outputs", IMAGE, "at", to=[moment]))


@pytest.mark.parametrize(
    "moment", ["101%", "100.1%", "-1%", "50", "5m", "%", "1e3s", "\uff150%", "50%\n", 50, "$(id)s"]
)
def test_a_moment_is_nothing_else(moment: object) -> None:
    assert list(refusals(altered(EXAMPLE, "outputs", IMAGE, "at", 0, to=moment))) == [
        ("outputs", IMAGE, "at", 0)
    ]


def test_a_picture_is_taken_once() -> None:
    assert refusals(altered(EXAMPLE, "outputs", IMAGE, "at", to=["5s", "5s"])) == {
        ("outputs", IMAGE, "at"): "must not have the same item twice"
    }


def test_the_best_picture_is_a_moment() -> None:
    for at in ("best", ["best"]):
        image = parsed({"type": "image", "at": at, "format": "avif"})
        assert isinstance(image, ImageOutput)
        assert image.at == ("best",)
    parsed({"type": "image", "at": ["best", "50%", "1.5s"]})


def test_a_preview_is_short_and_small() -> None:
    preview = parsed({"type": "preview"})
    assert isinstance(preview, PreviewOutput)
    assert (preview.format, preview.seconds, preview.width, preview.fps) == ("webp", 3.0, 480, 10.0)
    assert refused({"type": "preview", "seconds": 31, "width": 1922, "fps": 31, "format": "png"}) == {
        ("format",): "must be 'webp' or 'gif'",
        ("seconds",): "must be at most 30",
        ("width",): "must be at most 1920",
        ("fps",): "must be at most 30",
    }
