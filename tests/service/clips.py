"""Make small video files with ffmpeg, as sources for tests."""

import subprocess
from pathlib import Path

from euterpe.media.ffmpeg import find_ffmpeg


def make_clip(path: Path, *, seconds: float, size: str, rate: int = 25) -> Path:
    """Make a test pattern with a tone of 440 Hz."""
    sound = ("-f", "lavfi", "-i", f"sine=frequency=440:duration={seconds}", "-c:a", "aac", "-shortest")
    return _make(path, f"testsrc2=size={size}:rate={rate}:duration={seconds}", *sound)


def make_tiny_clip(path: Path) -> Path:
    """Make a clip of half a second, which takes almost no time to encode."""
    return make_clip(path, seconds=0.5, size="64x48", rate=10)


def make_noise(path: Path) -> Path:
    """Make two seconds of noise, which encoders cannot compress, so that the output is uploaded in parts."""
    return _make(path, "color=gray:size=640x360:rate=25:duration=2,noise=alls=100:allf=t", "-qp", "0")


def _make(path: Path, picture: str, *arguments: str) -> Path:
    codec = ("-c:v", "libx264", "-preset", "ultrafast")
    subprocess.run(
        [find_ffmpeg(), "-y", "-loglevel", "error", "-f", "lavfi", "-i", picture, *arguments, *codec, path],
        check=True,
        timeout=60,
    )
    return path
