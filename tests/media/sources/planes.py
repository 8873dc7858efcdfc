"""Encode raw pictures (yuv420p, as numpy arrays) into files, at a constant rate or at exact times."""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
from av.container import OutputContainer
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from tests.media.sources.cache import ffmpeg

Plane = npt.NDArray[np.uint8]

# B-frames and a keyframe every half second (at 25 pictures per second), as in ordinary films. Each picture is
# very different from the picture before it, so a scene cut detection would make each picture a keyframe.
X264 = "-c:v libx264 -preset veryfast -crf 12 -g 12 -bf 2 -sc_threshold 0 -threads 1"
_OPTIONS = {"preset": "veryfast", "crf": "12", "bf": "2", "sc_threshold": "0", "threads": "1"}


def grey(luma: Plane) -> Plane:
    """Return the three planes of a yuv420p picture without colour, one below the other."""
    height, width = luma.shape
    return np.vstack((luma, np.full((height // 2, width), 128, np.uint8)))


def encode(
    path: Path,
    pictures: Iterable[Plane],
    rate: str,
    *,
    pixel_format: str = "yuv420p",
    size: tuple[int, int],
    inputs: str = "",
    arguments: str = X264,
) -> None:
    """Encode raw pictures at a constant rate, with ffmpeg. `inputs` names further inputs."""
    raw = b"".join(picture.tobytes() for picture in pictures)
    width, height = size
    source = (
        f"-f rawvideo -pixel_format {pixel_format} -video_size {width}x{height} -framerate {rate} -i pipe:0"
    )
    ffmpeg(f"{source} {inputs} {arguments} {path}", raw)


def encode_at(
    path: Path, pictures: Sequence[Plane], ticks: Sequence[int], time_base: Fraction, last_ticks: int
) -> None:
    """Encode yuv420p pictures with PyAV, each at its given time. The last picture lasts `last_ticks`."""
    durations = {before: after - before for before, after in pairwise([*ticks, ticks[-1] + last_ticks])}
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", options=_OPTIONS)
        stream.width, stream.height = pictures[0].shape[1], pictures[0].shape[0] * 2 // 3
        stream.pix_fmt, stream.gop_size, stream.time_base = "yuv420p", 12, time_base
        stream.codec_context.time_base = time_base
        for picture, pts in zip(pictures, ticks, strict=True):
            frame = VideoFrame.from_ndarray(picture, format="yuv420p")
            frame.pts, frame.time_base = pts, time_base
            _mux(container, stream, frame, durations)
        _mux(container, stream, None, durations)


def _mux(
    container: OutputContainer, stream: VideoStream, frame: VideoFrame | None, durations: Mapping[int, int]
) -> None:
    for packet in stream.encode(frame):
        if packet.pts is not None:
            packet.duration = durations[packet.pts]
        container.mux(packet)
