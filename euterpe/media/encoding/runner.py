"""Run ffmpeg in the sandbox, one process after the other, under the limits of a job."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Protocol

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.encoding.failure_reason import FailureReason
from euterpe.media.encoding.output_folder import OutputFolder
from euterpe.media.encoding.progress import EncodeProgress, PlanProgress, ProgressLine, ReportReader, Step
from euterpe.media.errors import MediaError
from euterpe.media.planning.argv import FIRST_FD
from euterpe.media.planning.tree import Input, Plan, PlanWarning
from euterpe.media.sandbox.child import Child
from euterpe.media.sandbox.confine import ResourceLimits
from euterpe.media.sandbox.sandbox import Sandbox, reopened

# The interval at which the output bytes are counted and `on_progress` is called, even if ffmpeg writes
# nothing.
_TICK_S = 0.5

# After this number of reads within one tick, sleep before each further read. Without the sleep, the reads
# from a child that flooded its pipes took half of the GIL from the worker's other threads.
_MAX_READS_PER_TICK = 100
_PACE_S = 0.005


class SourceStream(Protocol):
    """A source that is still being fetched, and that the first command reads from a pipe."""

    @property
    def is_starved(self) -> bool:
        """Return whether ffmpeg waits for bytes that are not fetched yet.

        This wait does not count as a stall.
        """
        ...

    def reader(self) -> AbstractContextManager[int]:
        """Yield the reading end of the pipe."""
        ...


@dataclass(frozen=True)
class OpenFiles:
    """The open files that the commands of a plan read."""

    source: int
    watermarks: tuple[int, ...]

    def of(self, one: Input) -> int:
        return self.source if one.watermark is None else self.watermarks[one.watermark]


class Runner:
    """The runs of ffmpeg for a plan: its measurements and its commands, with the resources used so far."""

    def __init__(
        self,
        sandbox: Sandbox,
        plan: Plan,
        files: OpenFiles,
        folder: Path,
        limits: ResourceLimits,
        *,
        deadline: float,
        stall_seconds: float,
        on_progress: Callable[[EncodeProgress], None],
        on_cpu: Callable[[float], None],
        on_disk: Callable[[int], None],
        stream: SourceStream | None = None,
    ) -> None:
        self.sandbox = sandbox
        self._stream = stream
        self.files = files
        self._plan, self.folder = plan, folder
        self._limits, self._deadline, self._stall_seconds = limits, deadline, stall_seconds
        self._on_progress, self._on_cpu, self._on_disk = on_progress, on_cpu, on_disk
        self._progress = PlanProgress(plan)
        self.cpu_seconds = 0.0
        self.peak_memory_bytes = self.out_bytes = 0
        # A warning of damage in the source, if the job tolerates damage.
        self.damage: PlanWarning | None = None

    def run(self, step: Step, argv: Sequence[str]) -> str:
        """Run ffmpeg for a measurement or a command, and return the end of its log.

        Raise `MediaError` when it fails or exceeds a limit.
        """
        with ExitStack() as ended:
            fds = {
                FIRST_FD + place: ended.enter_context(self._reader_of(one))
                for place, one in enumerate(step.inputs)
            }
            child = self.sandbox.run(argv, fds=fds, cwd=self.folder, limits=self._limits)
            before = self.cpu_seconds

            def on_end() -> None:
                self.cpu_seconds = before + child.cpu_seconds
                self._on_cpu(self.cpu_seconds)

            ended.callback(on_end)
            ended.enter_context(child)
            files = OutputFolder(self._plan, self.folder, child.pid)
            watch = _Watch(files, child.pid, self._stall_seconds, self._limits.file_bytes, self._stream)

            def on_tick() -> None:
                self._on_cpu(before + child.cpu_seconds)
                self._on_disk(watch.disk_bytes)
                self._on_progress(self._progress.at(step, watch.report, watch.out_bytes))

            evidence = _follow(child, watch, self._deadline, on_tick)
            # Report the disk usage before the exit status is checked: if the encode used more disk than its
            # share, `on_disk` raises an error that blames the job.
            watch.count()
            self._on_disk(watch.disk_bytes)
            if child.end.code != 0:
                watch.refuse_a_full_file()
                raise evidence.verdict(child.end, self._limits, watch.held_memory_bytes)
            if self._plan.tolerates_damage:
                used = (child.end, self._limits, watch.held_memory_bytes)
                if (error := evidence.out_of_memory(*used)) is not None:
                    raise error
                self._note_damage(step, watch.report, evidence.damage())
            watch.check()
            self.peak_memory_bytes = max(self.peak_memory_bytes, child.end.peak_memory_bytes)
            self.out_bytes = watch.out_bytes
            return evidence.text

    def _note_damage(self, step: Step, report: ProgressLine, found: str | None) -> None:
        if found is not None:
            parts = (report.done_seconds, step.seconds)
            made = "" if None in parts else "; {:.2f} s of {:.2f} s were made".format(*parts)
            self.damage = PlanWarning("source_damaged", None, f"{found}{made}")

    def _reader_of(self, one: Input) -> AbstractContextManager[int]:
        if one.watermark is None and self._stream is not None:
            return self._stream.reader()
        return reopened(self.files.of(one))

    def on_tick(self, step: Step) -> Callable[[], None]:
        """Return a function that reports progress while a step runs something other than ffmpeg."""
        return lambda: self._on_progress(self._progress.at(step, ProgressLine(None, None), self.out_bytes))

    def finish(self, step: Step) -> None:
        """Count the step as done, even if it failed or was skipped."""
        self._progress.finish(step)


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
    """The state of one running encode: its progress, its files, and the time of its last progress."""

    def __init__(
        self,
        folder: OutputFolder,
        pid: int,
        stall_seconds: float,
        max_output_bytes: int,
        stream: SourceStream | None,
    ) -> None:
        self._stream = stream
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
        # Written bytes count as progress too. ffmpeg can take minutes to move the index of a large file to
        # its beginning, and in these minutes neither the file size nor the media time grows.
        signs = (self.report.done_seconds, self.out_bytes, _written_bytes(self._pid))
        if signs != self._signs or (self._stream is not None and self._stream.is_starved):
            self._signs, self._moved_at = signs, monotonic()
        elif monotonic() - self._moved_at > self._stall_seconds:
            stalled = f"ffmpeg made no progress for {self._stall_seconds:g} s"
            raise MediaError(ErrorCode.ENCODE_STALLED, stalled)

    def refuse_a_full_file(self) -> None:
        """Raise when a file has reached its size limit.

        The exit status does not always show that the limit was reached, because ffmpeg can catch SIGXFSZ and
        exit with its own error.
        """
        for output, size in self._folder.lengths():
            if size >= self._max_output_bytes:
                raise MediaError(
                    ErrorCode.OUTPUT_TOO_LARGE, f"output {output} grew to {self._max_output_bytes} bytes"
                )


def _data_bytes(pid: int) -> int:
    """Return the bytes that RLIMIT_DATA counts, even if the process has only reserved them.

    Return 0 if the process has ended.
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_bytes().split(b"\n")  # the process name can be any bytes
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(b"VmData:"))
    except (OSError, StopIteration):
        return 0


def _written_bytes(pid: int) -> str:
    try:
        return next(line for line in Path(f"/proc/{pid}/io").read_text().splitlines() if "wchar" in line)
    except (OSError, StopIteration):  # the process has ended, or the kernel hides the file
        return ""
