"""Tests of the sizes and changes of pictures: rotation, short side, crop, padding and frame rate."""

from dataclasses import replace

import pytest

from euterpe.domain.outputs import Crop, Pad
from euterpe.media.errors import MediaError
from euterpe.media.planning.picture import (
    Size,
    cut,
    deinterlacing,
    fitted,
    frame_rate,
    padded,
    shown_fps,
    shown_size,
)
from euterpe.media.planning.tree import CropArea, Turn
from euterpe.media.source.media_info import StreamInfo
from tests.media.planning.facts import VIDEO

FULL_HD = Size(1920, 1080)


def video(width: int, height: int, aspect: float = 1.0, rotation: int = 0) -> StreamInfo:
    return replace(VIDEO, width=width, height=height, pixel_aspect=aspect, rotation=rotation)


@pytest.mark.parametrize(
    ("source", "rotation", "short", "size"),
    [
        ((1920, 1080, 1.0), 0, 720, (1280, 720)),
        ((1920, 1080, 1.0), 90, 720, (720, 1280)),  # 720 limits the short side, not the height
        ((1080, 1920, 1.0), 0, 720, (720, 1280)),
        ((1280, 720, 1.0), 0, 480, (854, 480)),
        ((640, 360, 1.0), 0, 720, (640, 360)),
        ((720, 576, 64 / 45), 0, None, (1024, 576)),
        ((641, 361, 1.0), 0, None, (640, 360)),
        ((720, 480, 1.0), 270, None, (480, 720)),
        ((720, 576, 64 / 45), 90, None, (576, 1024)),
    ],
)
def test_pictures_are_upright_square_even_and_never_enlarged(
    source: tuple[int, int, float], rotation: int, short: int | None, size: tuple[int, int]
) -> None:
    assert fitted(shown_size(video(*source, rotation)), short, "h264") == Size(*size)


def test_a_source_without_a_picture_size_is_refused() -> None:
    with pytest.raises(MediaError) as refused:
        shown_size(StreamInfo(0, "video", "h264"))
    assert refused.value.code == "source_unsupported"


def test_pictures_with_too_many_pixels_are_refused() -> None:
    with pytest.raises(MediaError, match="at most") as refused:
        shown_size(video(16_384, 16_384))
    assert refused.value.code == "source_unsupported"
    assert shown_size(video(8192, 4320)) == Size(8192, 4320)


@pytest.mark.parametrize(
    ("size", "codec"), [((14, 100), "h264"), ((62, 100), "av1"), ((16_386, 100), "h264"), ((0, 100), "vp9")]
)
def test_a_size_that_a_codec_cannot_hold_is_refused(size: tuple[int, int], codec: str) -> None:
    with pytest.raises(MediaError) as refused:
        fitted(Size(*size), None, codec)
    assert refused.value.code == "output_unsupported"


def test_a_crop_is_in_shown_pixels_and_its_cut_in_decoded_pixels() -> None:
    edges = Crop(left=128, right=128, top=10)
    assert shown_size(video(1920, 1080), edges) == Size(1664, 1070)
    assert cut(video(1920, 1080), edges) == CropArea(128, 10, 1664, 1070)
    wide = video(720, 576, 64 / 45)
    assert cut(wide, edges) == CropArea(90, 10, 540, 566)
    turned = video(720, 576, 64 / 45, 90)
    assert shown_size(turned, Crop(top=128)) == Size(576, 896)
    assert cut(turned, Crop(top=128)) == CropArea(0, 90, 576, 630)
    assert cut(wide, None) is None


@pytest.mark.parametrize("edges", [Crop(left=1920), Crop(left=960, right=960), Crop(top=16_384)])
def test_a_crop_that_leaves_nothing_is_refused(edges: Crop) -> None:
    with pytest.raises(MediaError, match="crop") as refused:
        shown_size(video(1920, 1080), edges)
    assert refused.value.code == "output_unsupported"


@pytest.mark.parametrize("rotation", [0, 90])
def test_a_crop_that_leaves_less_than_two_decoded_pixels_is_refused(rotation: int) -> None:
    """The pixels have an aspect ratio of 100:1, so 40 shown pixels are less than one decoded pixel.

    In an earlier version, a crop to 40 shown pixels made a filter of width 0.
    """
    wide = video(64, 720, 100.0, rotation)
    edges = Crop(left=6360) if rotation == 0 else Crop(top=6360)
    assert min(shown_size(wide, edges).width, shown_size(wide, edges).height) == 40
    with pytest.raises(MediaError, match="crop") as refused:
        cut(wide, edges)
    assert refused.value.code == "output_unsupported"
    assert cut(wide, Crop(left=6200) if rotation == 0 else Crop(top=6200)) == CropArea(
        *((62, 0, 2, 720) if rotation == 0 else (0, 62, 720, 2))
    )


@pytest.mark.parametrize(("turn", "size"), [(0, (1664, 1070)), (90, (1070, 1664)), (180, (1664, 1070))])
def test_a_turn_comes_after_the_crop(turn: Turn, size: tuple[int, int]) -> None:
    assert shown_size(video(1920, 1080), Crop(left=128, right=128, top=10), turn) == Size(*size)


def test_bars_make_another_shape_and_never_cut() -> None:
    assert padded(FULL_HD, None) is None
    assert padded(FULL_HD, Pad(aspect="16:9")) is None
    assert padded(FULL_HD, Pad(aspect="1:1")) == Size(1920, 1920)
    assert padded(Size(608, 1080), Pad(aspect="16:9")) == FULL_HD


@pytest.mark.parametrize(
    ("fps", "most", "made", "expected"),
    [
        (25.0, None, None, 25.0),
        (60.0, None, None, 60.0),
        (60000 / 1001, 60.0, None, 60000 / 1001),
        (120.0, None, 60.0, 60.0),
        (240.0, 120.0, 120.0, 120.0),
        (120.0, 240.0, None, 120.0),
        (50.0, 25.0, 25.0, 25.0),
        (30.0, 29.97, None, 30.0),
        (None, None, None, 25.0),
    ],
)
def test_a_rate_is_kept_up_to_60_or_up_to_what_is_asked(
    fps: float | None, most: float | None, made: float | None, expected: float
) -> None:
    source = replace(VIDEO, fps=fps)
    assert frame_rate(source, most) == made
    assert shown_fps(source, most) == pytest.approx(expected)


def test_interlaced_pictures_become_frames_or_on_request_fields() -> None:
    fields = replace(VIDEO, interlaced=True)
    assert deinterlacing(VIDEO, 50.0) == "none"
    assert deinterlacing(fields, None) == deinterlacing(fields, 25.0) == "frame"
    assert deinterlacing(fields, 50.0) == "field"
    assert shown_fps(fields, 50.0) == 50.0
    assert frame_rate(fields, 50.0) is None
