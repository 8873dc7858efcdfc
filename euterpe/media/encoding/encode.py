"""Make the outputs of a plan: run its measurements, insert the results, and run its commands with ffmpeg."""

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from euterpe.media.encoding.expected import ExpectedFile, files_of
from euterpe.media.encoding.film_subtitles import disable_subtitles, write_text_inputs
from euterpe.media.encoding.measure import measure
from euterpe.media.encoding.optional_outputs import MAY_FAIL, output_failed
from euterpe.media.encoding.output_folder import remove_products, write_file
from euterpe.media.encoding.progress import EncodeProgress
from euterpe.media.encoding.runner import OpenFiles, Runner, SourceStream
from euterpe.media.errors import MediaError
from euterpe.media.planning.argv import arguments
from euterpe.media.planning.measurements import settled
from euterpe.media.planning.picture_counts import COUNTS
from euterpe.media.planning.quality import LOGS
from euterpe.media.planning.text_inputs import SUBTITLES
from euterpe.media.planning.tracks import STATISTICS
from euterpe.media.planning.tree import Command, Discard, File, Plan, PlanWarning, Rendition, Still
from euterpe.media.sandbox.confine import ResourceLimits
from euterpe.media.sandbox.sandbox import Sandbox

_GB = 10**9
_SMALL_SOURCE_CAP = 10 * _GB


@dataclass(frozen=True)
class EncodeStats:
    plan: Plan  # the plan, with measured numbers in place of its goals
    wall_seconds: float
    cpu_seconds: float
    peak_memory_bytes: int
    out_bytes: int
    failed: tuple[PlanWarning, ...] = ()  # a warning for each optional output that could not be made
    damage: PlanWarning | None = None  # a warning of damage in the source, if the job tolerates damage


def max_output_bytes(source_bytes: int) -> int:
    """Return the size limit of each output.

    The limit is twice the size of a source above 1 GB (contract §11), and 10 GB for a smaller source.
    """
    return 2 * source_bytes if source_bytes > _GB else _SMALL_SOURCE_CAP


def encode(
    sandbox: Sandbox,
    plan: Plan,
    source_fd: int,
    folder: Path,
    *,
    timeout_seconds: float,
    stall_seconds: float,
    max_output_bytes: int,
    on_progress: Callable[[EncodeProgress], None],
    on_cpu: Callable[[float], None],
    on_disk: Callable[[int], None],
    memory_bytes: int,
    stream: SourceStream | None = None,
    on_made: Callable[[ExpectedFile], None] = lambda _: None,
    watermark_fds: Sequence[int] = (),
) -> EncodeStats:
    """Write the planned files into `folder`. Raise `MediaError` when ffmpeg fails or exceeds a limit.

    `watermark_fds` are the open files of the plan's watermarks.

    The measurements of the plan run first, and their results replace the goals in the plan. ffmpeg has ended
    when this function returns or raises. `on_progress` and `on_disk` may raise to stop ffmpeg. With `stream`,
    the plan has one command and no measurements, and ffmpeg reads a pipe instead of `source_fd`.
    `on_made` is called for each finished file outside adaptive outputs, before the file is verified. Every
    half second and once at the end, `on_cpu` receives the processor seconds used so far, and `on_disk`
    receives the bytes that the files occupy on the disk.
    """
    runner = Runner(
        sandbox,
        plan,
        OpenFiles(source_fd, tuple(watermark_fds)),
        folder,
        ResourceLimits(
            memory_bytes=memory_bytes,
            cpu_seconds=int(timeout_seconds * (os.cpu_count() or 1)) + 1,
            file_bytes=max_output_bytes,
        ),
        deadline=monotonic() + timeout_seconds,
        stall_seconds=stall_seconds,
        on_progress=on_progress,
        on_cpu=on_cpu,
        on_disk=on_disk,
        stream=stream,
    )
    began = monotonic()
    if plan.measures_quality:
        (folder / LOGS).mkdir(exist_ok=True)  # it exists if the first command ran during the fetch
    measured = measure(runner, plan)
    plan, failed = settled(plan, measured.results), dict(measured.failed)
    _prepare(plan, folder)
    for command in plan.commands:
        if failed.keys().isdisjoint(command.outputs):
            failed |= _run(runner, plan, command, folder)
        runner.finish(command)
        if failed.keys().isdisjoint(command.outputs):
            for file in files_of(command):
                on_made(file)
    # Remove the statistics of two-pass encodes, which take 1.5 GB for a film of two hours with 1080 lines.
    _remove_folder(folder / STATISTICS)
    return EncodeStats(
        plan=plan,
        wall_seconds=monotonic() - began,
        cpu_seconds=runner.cpu_seconds,
        peak_memory_bytes=runner.peak_memory_bytes,
        out_bytes=runner.out_bytes,
        failed=tuple(failed.values()),
        damage=runner.damage,
    )


def _run(runner: Runner, plan: Plan, command: Command, folder: Path) -> dict[str, PlanWarning]:
    """Run a command.

    If an optional command fails, remove its outputs and return a warning for each output.
    """
    try:
        on_tick = runner.on_tick(command)
        write_text_inputs(runner.sandbox, command, runner.files.source, folder, on_tick=on_tick)
        runner.run(command, arguments(plan, command, runner.sandbox.ffmpeg))
        disable_subtitles(runner.sandbox, command, folder, on_tick=on_tick)
    except MediaError as error:
        if not command.is_optional or error.code not in MAY_FAIL:
            raise
        remove_products(command, folder)
        return {name: output_failed(name, error) for name in command.outputs}
    return {}


def _prepare(plan: Plan, folder: Path) -> None:
    for product in (product for command in plan.commands for product in command.products):
        match product:
            case Rendition():
                (folder / product.folder).mkdir(exist_ok=True)
            case File() | Still():
                (folder / product.path).parent.mkdir(exist_ok=True)
            case Discard():
                (folder / STATISTICS).mkdir(exist_ok=True)
    if any(command.videos for command in plan.commands):
        (folder / COUNTS).mkdir(exist_ok=True)
    for text in plan.texts:
        path = folder / text.path
        path.parent.mkdir(exist_ok=True)
        # If the first command ran during the fetch, a compromised ffmpeg may have put a link here, so use
        # `write_file`, which refuses an existing name.
        write_file(path.parent, path.name, text.text)


def remove_inputs_and_logs(folder: Path) -> None:
    """Remove the subtitle inputs (up to 200 MB) and the logs of the pictures. Call this after `verify`."""
    for name in (SUBTITLES, LOGS, COUNTS):
        _remove_folder(folder / name)


def _remove_folder(path: Path) -> None:
    if path.is_symlink():  # a compromised ffmpeg may have made this link
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)
