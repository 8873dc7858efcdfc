"""Renditions as values, without files."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

from euterpe.media.packaging.rendition import AudioRendition, FileRange, Segment, VideoRendition

# Three segments of 4, 4 and 5 seconds.
VIDEO = VideoRendition(
    name="720p",
    codec="avc1.64001f",
    timescale=1000,
    segments=(
        Segment(0, 4000, 500_000, True, FileRange(24, 40_000)),
        Segment(4000, 4000, 600_000, True, FileRange(24, 60_000)),
        Segment(8000, 5000, 400_000, True, FileRange(24, 20_000)),
    ),
    width=1280,
    height=720,
    frame_rate=Fraction(30000, 1001),
    max_frame_rate=Fraction(30000, 1001),
)
AUDIO = AudioRendition(
    name="audio",
    codec="mp4a.40.2",
    timescale=1000,
    segments=(Segment(0, 3980, 64_000), Segment(3980, 4010, 70_000), Segment(7990, 5010, 80_000)),
    channels=2,
    sample_rate=48_000,
    priming=20,
)


def video(name: str = "720p", **fields: Any) -> VideoRendition:
    return replace(VIDEO, name=name, **fields)


def audio(name: str = "audio", **fields: Any) -> AudioRendition:
    return replace(AUDIO, name=name, **fields)
