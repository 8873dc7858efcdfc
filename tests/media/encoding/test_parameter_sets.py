"""Tests of detecting streams whose parameters change, and streams whose parameters stay the same."""

from pathlib import Path

import av
import pytest

from euterpe.media.encoding.parameter_sets import ParameterSets
from tests.media.sources.cache import Sources, ffmpeg

SMALL, LARGE = "160x90", "320x180"
ENCODERS = {
    "h264": "libx264 -preset ultrafast -x264-params repeat-headers=1",
    "hevc": "libx265 -preset ultrafast -x265-params log-level=error:repeat-headers=1",
    "vp9": "libvpx-vp9 -deadline realtime -cpu-used 8",
    "av1": "libsvtav1 -preset 12",
}


def packets(sources: Sources, codec: str, size: str, container: str) -> tuple[bytes, list[bytes]]:
    """Return the extradata and the packets of a film of 30 pictures. Every tenth picture is a keyframe."""
    picture = f"-f lavfi -i testsrc2=size={size}:rate=25 -frames:v 30 -pix_fmt yuv420p -g 10"

    def generate(path: Path) -> None:
        ffmpeg(f"{picture} -c:v {ENCODERS[codec]} {path}")

    with av.open(str(sources.get(f"sets-{codec}-{size}.{container}", generate))) as film:
        stream = film.streams.video[0]
        return stream.codec_context.extradata or b"", [bytes(one) for one in film.demux(stream) if one.size]


CASES = [
    *((codec, "mp4") for codec in ENCODERS),
    ("h264", "ts"),
    ("hevc", "ts"),
    ("vp9", "mkv"),
    ("av1", "mkv"),
]


@pytest.mark.parametrize(("codec", "container"), CASES)
def test_only_another_size_is_a_change(sources: Sources, codec: str, container: str) -> None:
    extradata, small = packets(sources, codec, SMALL, container)
    _, large = packets(sources, codec, LARGE, container)
    sets = ParameterSets(codec, extradata)
    assert not any(map(sets.are_changed_by, small))
    assert any(map(sets.are_changed_by, large))


@pytest.mark.parametrize("codec", [*ENCODERS, "aac"])
@pytest.mark.parametrize("extradata", [b"", b"\1", b"\1" * 40])
@pytest.mark.parametrize("packet", [b"", b"\0", b"\0\0\1", b"\x0a" * 9, b"\0" * 40, b"\xff" * 40])
def test_any_bytes_can_be_read(codec: str, extradata: bytes, packet: bytes) -> None:
    ParameterSets(codec, extradata).are_changed_by(packet)
