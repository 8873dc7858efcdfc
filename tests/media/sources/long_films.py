"""Make films that are hard to compress, have many scene cuts, or are long."""

from pathlib import Path

from tests.media.sources.cache import Sources, ffmpeg
from tests.media.sources.numbered import NTSC, SIZE, constant, pictures
from tests.media.sources.planes import X264, encode

LONG_SECONDS = 60


def noise(sources: Sources) -> Path:
    """Return 4 s of random pictures of 640x360, which no encoder can compress."""
    words = "-f lavfi -i color=gray:size=640x360:rate=25:duration=4,noise=alls=100:allf=t"
    return sources.get(
        "noise.mp4", lambda path: ffmpeg(f"{words} -c:v libx264 -preset ultrafast -crf 10 {path}")
    )


def scene_cuts(sources: Sources) -> Path:
    """Return 4 s with a scene cut every 0.28 s. Encoders put keyframes at scene cuts by default."""
    count, each = 100, 7
    shown = pictures(count)
    cut = [shown[number] if number // each % 2 else 255 - shown[number] for number in range(count)]
    return sources.get("scene-cuts.mp4", lambda path: encode(path, cut, "25", size=SIZE, arguments=X264))


def long_film(sources: Sources) -> Path:
    """Return a film of 60 s and 640x360, with a keyframe each second."""
    words = "-f lavfi -i testsrc2=size=640x360:rate=25:duration=4"
    part = sources.get(
        "part.mp4", lambda path: ffmpeg(f"{words} -c:v libx264 -preset ultrafast -g 25 {path}")
    )
    loops = LONG_SECONDS // 4 - 1
    return sources.remuxed("long.mp4", part, "", before=f"-stream_loop {loops}")


def long_ntsc(sources: Sources) -> Path:
    """Return 100 s of small numbered pictures at 29.97 pictures per second."""
    return constant(sources, 2997, NTSC, size=(96, 64))
