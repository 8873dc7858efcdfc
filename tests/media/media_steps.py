"""Helpers that probe, encode and verify a source as a worker does, with defaults for most arguments."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from euterpe.domain.outputs import M4aOutput, Mp4Output, OutputSpec, Rung
from euterpe.media.encoding.encode import EncodeStats, encode
from euterpe.media.encoding.progress import EncodeProgress
from euterpe.media.encoding.verify import MadeFile, verify
from euterpe.media.planning.planner import plan
from euterpe.media.planning.tree import Plan
from euterpe.media.sandbox.sandbox import Sandbox
from euterpe.media.source.media_info import MediaInfo
from euterpe.media.source.watermark_info import WatermarkInfo

# Even on a slow machine, no step takes this long.
TIMEOUT_S = 60.0

FILM = Mp4Output(name="film", type="mp4")
SOUND = M4aOutput(name="sound", type="m4a")


def film(codec: str = "h264", height: int | None = None, **options: object) -> Mp4Output:
    return Mp4Output.model_validate(
        {"name": "film", "type": "mp4", "video": {"codec": codec, "height": height}, **options}
    )


def rungs(*heights: int) -> tuple[Rung, ...]:
    return tuple(Rung(height=height) for height in heights)


def probe(sandbox: Sandbox, path: Path) -> MediaInfo:
    with path.open("rb") as file:
        return sandbox.probe(file.fileno())


def probe_watermark(sandbox: Sandbox, path: Path) -> WatermarkInfo:
    with path.open("rb") as file:
        return sandbox.watermark(file.fileno())


def run(
    sandbox: Sandbox,
    planned: Plan,
    source: Path,
    folder: Path,
    *,
    timeout_seconds: float = TIMEOUT_S,
    stall_seconds: float = TIMEOUT_S,
    max_output_bytes: int = 1 << 30,
    on_progress: Callable[[EncodeProgress], None] = lambda _: None,
    on_cpu: Callable[[float], None] = lambda _: None,
    on_disk: Callable[[int], None] = lambda _: None,
    memory_bytes: int = 4 << 30,
    watermarks: Sequence[Path] = (),
) -> EncodeStats:
    with source.open("rb") as file, ExitStack() as opened:
        return encode(
            sandbox,
            planned,
            file.fileno(),
            folder,
            timeout_seconds=timeout_seconds,
            stall_seconds=stall_seconds,
            max_output_bytes=max_output_bytes,
            on_progress=on_progress,
            on_cpu=on_cpu,
            on_disk=on_disk,
            memory_bytes=memory_bytes,
            watermark_fds=[opened.enter_context(path.open("rb")).fileno() for path in watermarks],
        )


def make(sandbox: Sandbox, source: Path, outputs: Sequence[OutputSpec], folder: Path) -> tuple[MadeFile, ...]:
    planned = plan(outputs, probe(sandbox, source), threads=1)
    planned = run(sandbox, planned, source, folder).plan
    with source.open("rb") as file:
        return verify(sandbox, planned, folder, source_fd=file.fileno()).files
