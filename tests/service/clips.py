"""Sources of the tests' own, made by ffmpeg."""

import subprocess
from pathlib import Path

from euterpe.media.ffmpeg import find_ffmpeg


def make_tiny_clip(path: Path) -> Path:
    """Half a second of picture and sound: a job that costs little more than its steps."""
    sound = ("-f", "lavfi", "-i", "sine=frequency=440:duration=0.5", "-c:a", "aac", "-shortest")
    return _make(path, "testsrc2=size=64x48:rate=10:duration=0.5", *sound)


def make_noise(path: Path) -> Path:
    """Two seconds that nothing makes smaller: an output of it is sent in parts."""
    return _make(path, "color=gray:size=640x360:rate=25:duration=2,noise=alls=100:allf=t", "-qp", "0")


def _make(path: Path, picture: str, *arguments: str) -> Path:
    codec = ("-c:v", "libx264", "-preset", "ultrafast")
    subprocess.run(
        [find_ffmpeg(), "-loglevel", "error", "-f", "lavfi", "-i", picture, *arguments, *codec, path],
        check=True,
        timeout=60,
    )
    return path
