"""Tests of the check that packets of an MP4 film have the same order in a pipe as in a file."""

import subprocess
from pathlib import Path

import av
import pytest

from euterpe.media.ffmpeg import find_ffmpeg
from euterpe.media.source.packet_order import is_read_in_order
from euterpe.media.source.probe import open_source

_PICTURE = ("-f", "lavfi", "-i", "testsrc2=size=64x48:rate=10:duration=6")
_SOUND = ("-f", "lavfi", "-i", "sine=duration=6")
_CODECS = ("-c:v", "libx264", "-preset", "ultrafast", "-c:a", "aac", "-movflags")


def make(path: Path, *arguments: str) -> Path:
    quiet = ("-y", "-loglevel", "error")
    subprocess.run([find_ffmpeg(), *quiet, *arguments, path], check=True, timeout=60)
    return path


def in_order(path: Path) -> bool:
    with path.open("rb") as file, open_source(file.fileno()) as container:
        return is_read_in_order(file.fileno(), container)


@pytest.fixture
def usual(tmp_path: Path) -> Path:
    return make(tmp_path / "usual.mp4", *_PICTURE, *_SOUND, *_CODECS, "+faststart")


def test_a_film_with_short_chunks_is_read_in_order(usual: Path) -> None:
    assert in_order(usual)


def test_a_film_whose_sound_follows_all_pictures_is_not(usual: Path, tmp_path: Path) -> None:
    """In a file, libavformat seeks back and forth between pictures and sound. A pipe does not allow seeks."""
    apart = tmp_path / "apart.mp4"
    options = {"movflags": "+faststart", "max_interleave_delta": "1"}
    with av.open(str(usual)) as source, av.open(str(apart), "w", options=options) as target:
        tracks = {stream.index: target.add_stream_from_template(stream) for stream in source.streams}
        packets = [packet for packet in source.demux() if packet.dts is not None]
        for packet in sorted(packets, key=lambda packet: packet.stream_index):
            packet.stream = tracks[packet.stream_index]
            target.mux_one(packet)
    assert not in_order(apart)


def test_of_a_film_in_fragments_the_order_is_not_known(tmp_path: Path) -> None:
    fragments = "+frag_keyframe+empty_moov+default_base_moof"
    assert not in_order(make(tmp_path / "fragments.mp4", *_PICTURE, *_SOUND, *_CODECS, fragments))
