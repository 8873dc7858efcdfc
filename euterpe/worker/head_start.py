"""Head start: begin an encode before its source is complete.

Keep the encode only if the final plan needs the same encode. The facts from the beginning of the source give
an early plan, whose first command reads the source from a pipe. The facts of the complete source give the
final plan. If the first command of the final plan has the same arguments, the running encode is kept.
Otherwise the running encode is stopped, and its files are removed. The pipe ends only when the source is
complete and unchanged, so a kept encode has read the whole source.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass
from fcntl import F_SETPIPE_SZ, fcntl
from functools import partial
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Protocol, Self

import structlog

from euterpe.domain.errors import EuterpeError
from euterpe.domain.outputs import OutputSpec
from euterpe.media.encoding.encode import EncodeStats
from euterpe.media.encoding.progress import EncodeProgress
from euterpe.media.encoding.runner import SourceStream
from euterpe.media.errors import MediaError
from euterpe.media.planning.argv import arguments
from euterpe.media.planning.planner import plan
from euterpe.media.planning.streaming import can_stream
from euterpe.media.planning.tree import Plan
from euterpe.media.sandbox.sandbox import Sandbox
from euterpe.media.source.media_info import Beginning
from euterpe.storage.source_file import SourceFile
from euterpe.worker.attempt_control import AttemptControl

_log = structlog.get_logger(__name__)
_PIPE_BYTES = 1 << 20
_COPY_BYTES = 1 << 20
_TICK_S = 0.1
# The limits for probing the beginning of the source. If a probe fails, a part of the index can be missing:
# the index of an MP4 file of two hours has 5 MB. So the next probe waits until the fetched part is four times
# as long.
_FIRST_BYTES, _MOST_BYTES, _GROWTH = 512 << 10, 32 << 20, 4


@dataclass(frozen=True, kw_only=True)
class HeadStartTimings:
    """The conditions for an early encode, in seconds."""

    settle_s: float = 0.25  # the time for measuring the speed of the fetch
    least_gain_s: float = 0.5  # do not begin early if the fetch will end sooner than this


DEFAULT_TIMINGS = HeadStartTimings()


class RunFirst(Protocol):
    """A function that runs the command of `first`, a plan with only one command.

    The command reads its source from `stream`.
    """

    def __call__(
        self, first: Plan, stream: SourceStream, on_progress: Callable[[EncodeProgress], None]
    ) -> EncodeStats: ...


class _Stopped(Exception):
    """Raised in the thread when the early encode must stop."""


class SourcePipe:
    """A pipe that passes on the bytes of a source during its fetch, up to the first missing byte."""

    def __init__(self, file: SourceFile, path: Path) -> None:
        self._file, self._path = file, path
        self._size: int | None = None
        self._stopping = threading.Event()
        self.is_starved = False
        self.has_failed = False  # True if a read of the source failed, so that the pipe lacks a part

    def finish(self, size_bytes: int) -> None:
        """End the pipe after this many bytes. Call this method when the source is complete."""
        self._size = size_bytes

    def stop(self) -> None:
        """Stop writing before the source is complete. Kill the reading process before this call."""
        self._stopping.set()

    @contextmanager
    def reader(self) -> Iterator[int]:
        """Yield the reading end. A thread writes to the pipe until the block ends."""
        reading, writing = os.pipe()
        with suppress(OSError):  # the system can refuse a larger pipe
            fcntl(writing, F_SETPIPE_SZ, _PIPE_BYTES)
        # Run the thread in a copy of the context, so that its log lines have the fields of the attempt.
        feed = partial(copy_context().run, self._feed, writing)
        feeder = threading.Thread(target=feed, name="euterpe-feed", daemon=True)
        try:
            feeder.start()
        except RuntimeError:
            os.close(writing)
            os.close(reading)
            raise
        try:
            yield reading
        finally:
            self._stopping.set()
            os.close(reading)
            feeder.join()

    def _feed(self, writing: int) -> None:
        try:
            with self._path.open("rb", buffering=0) as source:
                self._copy(source.fileno(), writing)
        except BrokenPipeError:
            pass
        except Exception as error:  # noqa: BLE001  the attempt encodes again, and reports its own error
            _log.warning("source_pipe_failed", error=type(error).__name__)
            self.has_failed = True
        finally:
            self.is_starved = False
            os.close(writing)

    def _copy(self, source: int, writing: int) -> None:
        sent = 0
        while not self._stopping.is_set() and sent != self._size:
            front = self._file.await_front(sent, _TICK_S)
            self.is_starved = front == sent
            if front > sent:
                # This call waits while the pipe is full, and fails when the reading end is closed.
                sent += os.splice(source, writing, min(front - sent, _COPY_BYTES), offset_src=sent)


class HeadStart:
    """The early encode of one attempt. Use it as a context manager: no thread or process outlives the block.

    An error of the early encode is only logged. The attempt then encodes without a head start.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        control: AttemptControl,
        path: Path,
        outputs: Callable[[], Sequence[OutputSpec]],
        run: RunFirst,
        *,
        threads: int,
        timings: HeadStartTimings = DEFAULT_TIMINGS,
    ) -> None:
        self._sandbox, self._control, self._path = sandbox, control, path
        self._outputs, self._run_first, self._threads = outputs, run, threads
        self._timings = timings
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._plan: Plan | None = None
        self._pipe: SourcePipe | None = None
        self._stats: EncodeStats | None = None
        self._over = threading.Event()
        self.progress = EncodeProgress()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._thread is not None:
            self._thread.join()

    def begin(self, file: SourceFile) -> None:
        """Watch a fetch, and begin to encode if the fetch is slow. Do nothing without an announced size."""
        if file.expect.size is None or self._thread is not None:
            return
        run = partial(copy_context().run, self._run, file)
        thread = threading.Thread(target=run, name="euterpe-head-start", daemon=True)
        with suppress(RuntimeError):  # the system allows no more threads
            thread.start()
            self._thread = thread

    def fits(self, planned: Plan) -> bool:
        """Return whether the early encode runs the first command of this plan.

        If it runs another command, stop it and remove its files.
        """
        with self._lock:
            begun = self._plan
            if begun is not None and can_stream(planned) and self._argv(begun) == self._argv(planned):
                return True
        self.stop()
        return False

    def finish(self, size_bytes: int, on_wait: Callable[[EncodeProgress], None]) -> EncodeStats | None:
        """Let ffmpeg read the rest of the source, and wait until ffmpeg ends.

        Return None if ffmpeg failed, or if it did not get the whole source. `on_wait` receives the progress,
        and may raise to end the wait.
        """
        if self._thread is None or self._pipe is None:
            return None
        self._pipe.finish(size_bytes)
        while self._thread.is_alive():
            self._thread.join(_TICK_S)
            on_wait(self.progress)
        return None if self._pipe.has_failed else self._stats

    def stop(self) -> None:
        """Stop a running early encode, wait for its end, and do not let another one begin."""
        with self._lock:
            self._over.set()
            is_running = self._plan is not None
        if is_running and self._thread is not None:
            self._thread.join()

    def _argv(self, planned: Plan) -> Sequence[str]:
        return arguments(planned, planned.commands[0], self._sandbox.ffmpeg)

    def _run(self, file: SourceFile) -> None:
        try:
            if not self._await_worth(file) or (begun := self._plan_of_beginning(file)) is None:
                return
            with self._lock:
                self._check()
                self._plan, self._pipe = begun, SourcePipe(file, self._path)
            _log.info("encode_begun_early", received=file.received, size_bytes=file.expect.size)
            self._stats = self._run_first(begun, self._pipe, self._on_progress)
        except _Stopped:
            pass
        except Exception as error:  # noqa: BLE001  the attempt encodes again, and reports its own error
            code = error.code if isinstance(error, EuterpeError) else None
            _log.info("early_encode_ended", error=type(error).__name__, code=code)

    def _await_worth(self, file: SourceFile) -> bool:
        """Wait until the speed of the fetch is known. Return whether an early encode would save time."""
        size, began = file.expect.size or 0, monotonic()
        # Do not watch the file during this time, because each chunk would wake this thread. A clip of one
        # second was fetched in 12 ms, and the watch took 1.6 ms of CPU time.
        self._over.wait(self._timings.settle_s)
        while not file.is_whole:
            self._check()
            file.await_front(size, _TICK_S)
            elapsed, received = monotonic() - began, file.received
            is_known = elapsed >= self._timings.settle_s and file.front >= min(_FIRST_BYTES, size // 2)
            rest_s = (size - received) * elapsed / max(1, received)
            if is_known and rest_s >= self._timings.least_gain_s:
                return True
        return False

    def _plan_of_beginning(self, file: SourceFile) -> Plan | None:
        """Probe the beginning of the source, and return a plan with only the first command.

        Return None if no probe of the beginning succeeds, or if the first command cannot read its source from
        a pipe.
        """
        needed = 0
        while needed < _MOST_BYTES and not file.is_whole:
            self._check()
            if (front := file.await_front(needed, _TICK_S)) <= needed:
                continue
            needed = front * _GROWTH
            try:
                found = self._beginning(front, file.expect.size or 0)
                planned = plan(self._outputs(), found.info, threads=self._threads)
            except MediaError:  # continue, because the probe may need more bytes of the source
                continue
            if not found.is_in_order or not can_stream(planned):
                return None
            return Plan(
                planned.container,
                planned.decoder_threads,
                planned.commands[:1],
                planned.packages,
                outputs=planned.outputs,
            )
        return None

    def _beginning(self, front: int, size_bytes: int) -> Beginning:
        """Probe a copy of the first bytes of the source, because the file itself still grows."""
        copy = os.memfd_create("beginning", os.MFD_CLOEXEC)
        try:
            with self._path.open("rb") as source:
                left = min(front, _MOST_BYTES)
                while left and (moved := os.sendfile(copy, source.fileno(), None, left)):
                    left -= moved
            return self._sandbox.probe_beginning(copy, size_bytes, on_tick=self._check)
        finally:
            os.close(copy)

    def _on_progress(self, progress: EncodeProgress) -> None:
        self._check()
        self.progress = progress

    def _check(self) -> None:
        if self._over.is_set():
            raise _Stopped
        self._control.check()
