"""Generated source clips for the transcode benchmark, and the baseline: the same encode by ffmpeg alone."""

import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from euterpe.bench.figures import BenchFailed
from euterpe.domain.profiles import PROFILES
from euterpe.media.plan import Plan, plan
from euterpe.media.sandbox import Sandbox

PROFILE = "h264-720p"
_RAW_FRAME_BYTES = 3840 * 2160 * 3 // 2


class Clips:
    def __init__(self, ffmpeg: Path) -> None:
        self._ffmpeg = ffmpeg

    def make(self, path: Path, *, seconds: float) -> None:
        """Write a 720p clip with sound to `path`."""
        picture = f"testsrc2=size=1280x720:rate=30:duration={seconds}"
        sound = f"sine=frequency=330:beep_factor=4:duration={seconds}"
        codecs = ("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac")
        self._run("-f", "lavfi", "-i", picture, "-f", "lavfi", "-i", sound, *codecs, str(path))

    def make_large(self, path: Path, *, size_bytes: int) -> None:
        """Write raw, uncompressed video of `size_bytes` to `path`, which takes only seconds."""
        # Three times the size: a worker also fetches a copy, and keeps some space free.
        if shutil.disk_usage(path.parent).free < 3 * size_bytes:
            raise BenchFailed(f"{path.parent} has no room for a source of {size_bytes} bytes and its copy")
        picture, frames = (
            "color=gray:size=3840x2160:rate=25,format=yuv420p",
            -(-size_bytes // _RAW_FRAME_BYTES),
        )
        self._run("-f", "lavfi", "-i", picture, "-frames:v", str(frames), "-c:v", "rawvideo", str(path))

    def encode_bare(self, sources: Sequence[Path], *, slots: int, threads: int) -> float:
        """Return the seconds that `xargs` takes to run the worker's ffmpeg command on identical sources."""
        command = self._bare_command(self._planned(sources[0], threads))
        began = time.perf_counter()
        subprocess.run(  # noqa: S603  no part comes from outside
            ["xargs", "-P", str(slots), "-I", "{}", *command],  # noqa: S607  found on PATH
            input="\n".join(map(str, sources)),
            text=True,
            check=True,
        )
        took = time.perf_counter() - began
        for source in sources:
            source.with_name(f"{source.name}.mp4").unlink()
        return took

    def _planned(self, source: Path, threads: int) -> Plan:
        with Sandbox(self._ffmpeg) as sandbox, source.open("rb") as file:
            return plan(PROFILES[PROFILE].outputs, sandbox.probe(file.fileno()), threads=threads)

    def _bare_command(self, planned: Plan) -> Sequence[str]:
        *outputs, _ = planned.outputs  # the last argument is the file name
        threads = ("-threads", str(planned.threads))
        return (str(self._ffmpeg), "-nostdin", "-loglevel", "error", *threads, "-i", "{}", *outputs, "{}.mp4")

    def _run(self, *arguments: str) -> None:
        subprocess.run([self._ffmpeg, "-y", "-nostdin", "-loglevel", "error", *arguments], check=True)  # noqa: S603
