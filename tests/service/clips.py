"""Sources of the tests' own, made by ffmpeg."""

import subprocess
from pathlib import Path

from euterpe.media.ffmpeg import find_ffmpeg


def make_clip(path: Path, *, seconds: float, size: str, rate: int = 25) -> Path:
    """Picture and sound."""
    sound = ("-f", "lavfi", "-i", f"sine=frequency=440:duration={seconds}", "-c:a", "aac", "-shortest")
    return _make(path, f"testsrc2=size={size}:rate={rate}:duration={seconds}", *sound)


def make_tiny_clip(path: Path) -> Path:
    """Half a second: a job that costs little more than its steps."""
    return make_clip(path, seconds=0.5, size="64x48", rate=10)


def make_noise(path: Path) -> Path:
    """Two seconds that nothing makes smaller: an output of it is sent in parts."""
    return _make(path, "color=gray:size=640x360:rate=25:duration=2,noise=alls=100:allf=t", "-qp", "0")


def _make(path: Path, picture: str, *arguments: str) -> Path:
    codec = ("-c:v", "libx264", "-preset", "ultrafast")
    subprocess.run(
        [find_ffmpeg(), "-y", "-loglevel", "error", "-f", "lavfi", "-i", picture, *arguments, *codec, path],
        check=True,
        timeout=60,
    )
    return path
