"""A valid answer of the probe, and a check that an invalid answer is refused."""

from typing import Any

import pytest

from euterpe.domain.error_codes import RetryClass
from euterpe.media.errors import MediaError
from euterpe.media.source.media_info import MediaInfo

STREAM: dict[str, Any] = {
    "index": 0,
    "kind": "video",
    "codec": "h264",
    "duration_seconds": 2.0,
    "first_seconds": 0.0,
    "end_seconds": 2.0,
    "latest_seconds": 1.96,
    "declared_seconds": 2.0,
    "profile": "High",
    "language": None,
    "title": None,
    "is_default": False,
    "is_forced": False,
    "bit_rate": None,
    "width": 640,
    "height": 360,
    "rotation": 0,
    "is_flipped": False,
    "pixel_aspect": 1.0,
    "fps": 25.0,
    "busiest_fps": 25.0,
    "pixel_format": "yuv420p",
    "bit_depth": 8,
    "colour": {"primaries": 1, "transfer": 1, "matrix": 1, "full_range": False},
    "interlaced": False,
    "top_field_first": False,
    "mastering_display": None,
    "content_light": None,
    "has_captions": False,
    "dolby_vision": False,
    "has_alpha": False,
    "keyframe_interval": None,
    "has_crop": False,
    "starts_with_keyframe": True,
    "has_edits": False,
    "channels": None,
    "layout": None,
    "sample_rate": None,
}


def answer(**changes: Any) -> dict[str, Any]:
    return {"container": "mov", "duration_seconds": 2.0, "streams": [STREAM | changes]}


def assert_refused(found: Any) -> None:
    with pytest.raises(MediaError) as refused:
        MediaInfo.parse(found, 1000)
    assert (refused.value.code, refused.value.retry_class) == ("source_unsupported", RetryClass.PERMANENT)
