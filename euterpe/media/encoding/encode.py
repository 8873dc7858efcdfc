"""Run the ffmpeg process of a job, and enforce its timeout, stall detection and output size limits."""

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.encoding.failure_reason import FailureReason
from euterpe.media.encoding.output_folder import OutputFolder
from euterpe.media.encoding.progress import EncodeProgress, ProgressLine, ReportReader, progress_of
from euterpe.media.errors import MediaError
from euterpe.media.planning.plan import SOURCE_FD, Plan
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
    limits = ResourceLimits(
        memory_bytes=memory_bytes,
        cpu_seconds=int(timeout_seconds * (os.cpu_count() or 1)) + 1,
        file_bytes=max_output_bytes,
    )
    began = monotonic()
    _prepare(plan, folder)
    with ExitStack() as ended:
        source = ended.enter_context(reopened(source_fd))
        child = sandbox.run(plan.argv(sandbox.ffmpeg), fds={SOURCE_FD: source}, cwd=folder, limits=limits)
        ended.callback(lambda: on_cpu(child.cpu_seconds))
        ended.enter_context(child)
        watch = _Watch(plan, folder, child.pid, stall_seconds, max_output_bytes)

        def on_tick(progress: EncodeProgress) -> None:
            on_cpu(child.cpu_seconds)
            on_disk(watch.disk_bytes)
            on_progress(progress)

        evidence = _follow(child, watch, began + timeout_seconds, on_tick)
        # Report the disk usage before any other cause of failure: if the encode used more disk than its
        # share, `on_disk` raises, and the job is to blame.
        watch.count()
        on_disk(watch.disk_bytes)
        if child.end.code != 0:
            watch.refuse_a_full_file()
            raise evidence.verdict(child.end, limits, watch.held_memory_bytes)
        watch.refuse_an_early_end()
        watch.check()
        wall = monotonic() - began
        return EncodeStats(wall, child.end.cpu_seconds, child.end.peak_memory_bytes, watch.out_bytes)


def _prepare(plan: Plan, folder: Path) -> None:
    for file in plan.files:
        path = folder / file.path
        path.parent.mkdir(exist_ok=True)
        if file.text is not None:
            path.write_text(file.text)


def _follow(
    child: Child, watch: "_Watch", deadline: float, on_progress: Callable[[EncodeProgress], None]
) -> FailureReason:
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
            on_progress(watch.progress())
            next_check, reads = monotonic() + _TICK_S, 0
    return evidence


class _Watch:
    """The state of one running encode: its progress, its files, and when it last progressed."""

    def __init__(
        self, plan: Plan, folder: Path, pid: int, stall_seconds: float, max_output_bytes: int
    ) -> None:
        self.report = ProgressLine(None, None)
        self.out_bytes = self.disk_bytes = 0
        self.held_memory_bytes = 0
        self._plan, self._folder, self._pid = plan, OutputFolder(plan, folder, pid), pid
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

    def refuse_an_early_end(self) -> None:
        """Raise when ffmpeg ended too early, because some demuxers report a truncated source as complete."""
        done, least = self.report.done_seconds, self._plan.least_seconds
        if done is not None and least is not None and done < least:
            raise MediaError(
                ErrorCode.SOURCE_TRUNCATED,
                f"the source is cut off: it ends after {done:.2f} s of {self._plan.duration_seconds:.2f} s",
            )

    def progress(self) -> EncodeProgress:
        return progress_of(self.report, self._plan.duration_seconds, self.out_bytes)


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
