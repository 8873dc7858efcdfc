"""Run the commands of a plan with ffmpeg, and enforce timeout, stall detection and output size limits."""

import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from time import monotonic, sleep

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.encoding.failure_reason import FailureReason
from euterpe.media.encoding.optional_outputs import MAY_FAIL, output_failed
from euterpe.media.encoding.output_folder import OutputFolder
from euterpe.media.encoding.progress import EncodeProgress, PlanProgress, ProgressLine, ReportReader
from euterpe.media.errors import MediaError
from euterpe.media.planning.argv import FIRST_FD, arguments
from euterpe.media.planning.tracks import STATISTICS
from euterpe.media.planning.tree import Command, Discard, File, Plan, PlanWarning, Rendition, Still
from euterpe.media.sandbox.child import Child
from euterpe.media.sandbox.confine import ResourceLimits
from euterpe.media.sandbox.sandbox import Sandbox, reopened

# The interval at which the bytes are counted and `on_progress` is called, even if ffmpeg writes nothing.
_TICK_S = 0.5

# After this number of reads within one tick, sleep before each further read, because a child that flooded its
# pipes took half of the GIL from the worker's other threads.
_MAX_READS_PER_TICK = 100
_PACE_S = 0.005

_GB = 10**9
_SMALL_SOURCE_CAP = 10 * _GB


@dataclass(frozen=True)
class EncodeStats:
    wall_seconds: float
    cpu_seconds: float
    peak_memory_bytes: int
    out_bytes: int
    failed: tuple[PlanWarning, ...] = ()  # one for each optional output that could not be made


def max_output_bytes(source_bytes: int) -> int:
    """Return the size limit of each output: twice a source above 1 GB (contract §11), else 10 GB."""
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
) -> EncodeStats:
    """Write the planned files into `folder`. Raise `MediaError` when ffmpeg fails or exceeds a limit.

    When this function returns or raises, ffmpeg has ended. `on_progress` and `on_disk` may raise to stop
    ffmpeg. Every half second and once more at the end, `on_cpu` receives the processor seconds used so far,
    and `on_disk` receives the bytes that the files occupy on the disk.
    """
    run = _Run(
        sandbox,
        plan,
        source_fd,
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
    )
    began = monotonic()
    _prepare(plan, folder)
    for command in plan.commands:
        run.run(command)
    _remove_statistics(folder)
    failed = tuple(run.failed.values())
    return EncodeStats(monotonic() - began, run.cpu_seconds, run.peak_memory_bytes, run.out_bytes, failed)


class _Run:
    """The commands of a plan, one after the other, with the resources that they have used so far."""

    def __init__(
        self,
        sandbox: Sandbox,
        plan: Plan,
        source_fd: int,
        folder: Path,
        limits: ResourceLimits,
        *,
        deadline: float,
        stall_seconds: float,
        on_progress: Callable[[EncodeProgress], None],
        on_cpu: Callable[[float], None],
        on_disk: Callable[[int], None],
    ) -> None:
        self._sandbox, self._plan, self._source_fd, self._folder = sandbox, plan, source_fd, folder
        self._limits, self._deadline, self._stall_seconds = limits, deadline, stall_seconds
        self._on_progress, self._on_cpu, self._on_disk = on_progress, on_cpu, on_disk
        self._progress = PlanProgress(plan)
        self.cpu_seconds = 0.0
        self.peak_memory_bytes = self.out_bytes = 0
        self.failed: dict[str, PlanWarning] = {}

    def run(self, command: Command) -> None:
        """Run a command. If it fails, and its outputs are optional, remove them and note that they failed."""
        if self.failed.keys().isdisjoint(command.outputs):
            try:
                self._run(command)
            except MediaError as error:
                if not command.is_optional or error.code not in MAY_FAIL:
                    raise
                self.failed |= {name: output_failed(name, error) for name in command.outputs}
                _remove(command, self._folder)
        self._progress.finish(command)

    def _run(self, command: Command) -> None:
        with ExitStack() as ended:
            fds = {
                FIRST_FD + place: ended.enter_context(reopened(self._source_fd))
                for place in range(len(command.inputs))
            }
            argv = arguments(self._plan, command, self._sandbox.ffmpeg)
            child = self._sandbox.run(argv, fds=fds, cwd=self._folder, limits=self._limits)
            before = self.cpu_seconds

            def on_end() -> None:
                self.cpu_seconds = before + child.cpu_seconds
                self._on_cpu(self.cpu_seconds)

            ended.callback(on_end)
            ended.enter_context(child)
            files = OutputFolder(self._plan, self._folder, child.pid)
            watch = _Watch(files, child.pid, self._stall_seconds, self._limits.file_bytes)

            def on_tick() -> None:
                self._on_cpu(before + child.cpu_seconds)
                self._on_disk(watch.disk_bytes)
                self._on_progress(self._progress.at(command, watch.report, watch.out_bytes))

            evidence = _follow(child, watch, self._deadline, on_tick)
            # Report the disk usage before any other cause of failure: if the encode used more disk than its
            # share, `on_disk` raises, and the job is to blame.
            watch.count()
            self._on_disk(watch.disk_bytes)
            if child.end.code != 0:
                watch.refuse_a_full_file()
                raise evidence.verdict(child.end, self._limits, watch.held_memory_bytes)
            watch.check()
            self.peak_memory_bytes = max(self.peak_memory_bytes, child.end.peak_memory_bytes)
            self.out_bytes = watch.out_bytes


def _prepare(plan: Plan, folder: Path) -> None:
    for product in (product for command in plan.commands for product in command.products):
        match product:
            case Rendition():
                (folder / product.folder).mkdir(exist_ok=True)
            case File() | Still():
                (folder / product.path).parent.mkdir(exist_ok=True)
            case Discard():
                (folder / STATISTICS).mkdir(exist_ok=True)
    for text in plan.texts:
        (folder / text.path).parent.mkdir(exist_ok=True)
        (folder / text.path).write_text(text.text)


def _remove_statistics(folder: Path) -> None:
    """Remove what the first of two passes wrote: 1.5 GB for two hours of 1080 lines."""
    statistics = folder / STATISTICS
    if statistics.is_symlink():  # a compromised ffmpeg may have put it there
        statistics.unlink()
    elif statistics.exists():
        shutil.rmtree(statistics)


def _remove(command: Command, folder: Path) -> None:
    """Remove what a failed command has written, so that it does not count as disk usage any more."""
    for product in command.products:
        match product:
            case Rendition():
                path = folder / product.folder
            case File() | Still():
                path = folder / Path(product.path).parts[0]
            case Discard():
                continue
        with suppress(OSError):  # it may be missing, or a link in place of a folder
            if path.is_dir():
                rmtree(path)
            else:
                path.unlink()


def _follow(child: Child, watch: "_Watch", deadline: float, on_tick: Callable[[], None]) -> FailureReason:
    evidence, reports = FailureReason(), ReportReader()
    next_check, reads = monotonic() + _TICK_S, 0
    for event in child.events(_TICK_S):
        reads += event is not None
        if reads > _MAX_READS_PER_TICK:
            sleep(_PACE_S)
        match event:
            case (1, data):
                for report in reports.feed(data):
                    watch.report = report
            case (_, data):
                evidence.add(data)
        if monotonic() >= deadline:
            raise MediaError(ErrorCode.ENCODE_TIMEOUT, "the encode took longer than the job's timeout")
        if monotonic() >= next_check:
            watch.check()
            on_tick()
            next_check, reads = monotonic() + _TICK_S, 0
    return evidence


class _Watch:
    """The state of one running encode: its progress, its files, and when it last progressed."""

    def __init__(self, folder: OutputFolder, pid: int, stall_seconds: float, max_output_bytes: int) -> None:
        self.report = ProgressLine(None, None)
        self.out_bytes = self.disk_bytes = 0
        self.held_memory_bytes = 0
        self._folder, self._pid = folder, pid
        self._stall_seconds, self._max_output_bytes = stall_seconds, max_output_bytes
        self._signs: object = None
        self._moved_at = monotonic()

    def count(self) -> Mapping[str, int]:
        """Measure the disk usage, and return the total file length of each output."""
        holding = self._folder.look()
        self.out_bytes, self.disk_bytes = holding.out_bytes, holding.disk_bytes
        return holding.sizes

    def check(self) -> None:
        """Raise when an output is too large or ffmpeg has stalled."""
        for output, size in self.count().items():
            if size > self._max_output_bytes:
                raise MediaError(
                    ErrorCode.OUTPUT_TOO_LARGE, f"output {output} grew beyond {self._max_output_bytes} bytes"
                )
        self.held_memory_bytes = max(self.held_memory_bytes, _data_bytes(self._pid))
        # Written bytes count as progress too, because ffmpeg needs minutes to move the index of a large file
        # to the front, and in that time neither the file size nor the media time grows.
        signs = (self.report.done_seconds, self.out_bytes, _written_bytes(self._pid))
        if signs != self._signs:
            self._signs, self._moved_at = signs, monotonic()
        elif monotonic() - self._moved_at > self._stall_seconds:
            raise MediaError(ErrorCode.ENCODE_STALLED, f"ffmpeg got nowhere for {self._stall_seconds:g} s")

    def refuse_a_full_file(self) -> None:
        """Raise when a file has reached its size limit.

        The exit status does not always show this, because ffmpeg may catch SIGXFSZ and exit with its own
        error.
        """
        for output, size in self._folder.lengths():
            if size >= self._max_output_bytes:
                raise MediaError(
                    ErrorCode.OUTPUT_TOO_LARGE, f"output {output} grew to {self._max_output_bytes} bytes"
                )


def _data_bytes(pid: int) -> int:
    """Return the bytes that RLIMIT_DATA counts, used or only reserved. Return 0 after the process's end."""
    try:
        lines = Path(f"/proc/{pid}/status").read_bytes().split(b"\n")  # the process name may be any bytes
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(b"VmData:"))
    except (OSError, StopIteration):
        return 0


def _written_bytes(pid: int) -> str:
    try:
        return next(line for line in Path(f"/proc/{pid}/io").read_text().splitlines() if "wchar" in line)
    except (OSError, StopIteration):  # the process has ended, or the kernel hides the file
        return ""
