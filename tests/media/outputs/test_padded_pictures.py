"""Tests of black bars around pictures."""

import pytest

from tests.media.outputs.product_path import Make
from tests.media.readers.media import frames
from tests.media.sources.cache import Sources
from tests.media.sources.numbered import constant


@pytest.mark.parametrize(
    ("output", "path", "shape"),
    [
        ({"type": "image", "at": ["50%"]}, "a/1.jpg", (160, 160)),
        ({"type": "image", "at": ["50%"], "format": "webp"}, "a/1.webp", (160, 160)),
        ({"type": "sprite", "interval_seconds": 2, "columns": 2}, "a/1.jpg", (160, 320)),
        ({"type": "preview", "format": "gif", "seconds": 0.2}, "a.gif", (160, 160)),
    ],
    ids=["jpeg", "webp", "sprite", "gif"],
)
def test_a_picture_has_black_bars(
    make: Make, sources: Sources, output: dict[str, object], path: str, shape: tuple[int, int]
) -> None:
    """An earlier version accepted and ignored the field `pad`."""
    made = make([{"name": "a", "pad": {"aspect": "1:1"}, **output}], constant(sources, 100)) / path
    _, frame = next(frames(made))
    assert (frame.height, frame.width) == shape
    luma = frame.reformat(format="gray").to_ndarray()
    assert luma[:30].mean() < 20  # GIF dithers
    assert luma[40:120].max() > 60
