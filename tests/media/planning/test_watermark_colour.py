"""The colour of a watermark, by its tags and its pixel format."""

import pytest

from euterpe.media.planning.tree import PictureColour
from euterpe.media.source.colour import Colour
from euterpe.media.source.watermark_info import WatermarkInfo
from tests.media.planning.facts import planned, specs, watermarks_of

OUTPUT = {
    "name": "film",
    "type": "mp4",
    "video": {"codec": "h264", "height": 360},
    "watermark": {"source": {"url": "https://store.example/logo.png"}},
}


def colour_of(pixels: str | None, matrix: int) -> PictureColour:
    """Return the colour of a watermark with these tags in the plan."""
    (url,) = watermarks_of(specs(OUTPUT))
    found = WatermarkInfo("png_pipe", 0, 300, 200, pixel_format=pixels, colour=Colour(1, 13, matrix))
    made = planned(OUTPUT, watermarks={url: found})
    (overlay,) = [scale.overlay for command in made.commands for scale in command.scales if scale.overlay]
    return overlay.given


@pytest.mark.parametrize("pixels", ["rgb24", "gbrap", "pal8", "monob", None])
def test_a_picture_in_rgb_is_srgb(pixels: str | None) -> None:
    assert colour_of(pixels, 0) == PictureColour(1, 13, 0, full_range=True)


@pytest.mark.parametrize("pixels", ["yuv420p", "yuva444p", "gray"])
def test_the_matrix_of_rgb_is_a_missing_tag_of_other_pictures(pixels: str) -> None:
    """For example, AVIF pictures can have pixels in YUV and the matrix of RGB in their tags."""
    assert colour_of(pixels, 0) == PictureColour(1, 13, 5, full_range=True)
    assert colour_of(pixels, 1) == PictureColour(1, 13, 1, full_range=True)
