"""The sandbox: run ffmpeg and probes on untrusted media in confined child processes.

A `Sandbox` has one helper process (`fork_server`), which forks the children. If the helper is killed, its
children are lost, and the next call starts another helper.
"""

import json
import math
import os
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from time import monotonic
from typing import Any, Self

from euterpe.domain.error_codes import ErrorCode, Fault, RetryClass
from euterpe.media.encoding.failure_reason import error_from_exit
from euterpe.media.errors import MediaError
from euterpe.media.sandbox.child import HELPER_TIMEOUT_S, Child, Exit, receive_first_message
from euterpe.media.sandbox.confine import ResourceLimits
from euterpe.media.sandbox.isolation import Isolation
from euterpe.media.source.cues import MOST_TRACK_BYTES, TrackCues, parse_tracks
from euterpe.media.source.media_info import Beginning, Keyframes, MediaInfo
from euterpe.media.source.watermark_info import WatermarkInfo

_MAX_ANSWER_BYTES = 4 << 20
# Matroska has no index of subtitles, so a child reads the whole source to find them. The timeout assumes that
# the child reads at this speed or faster.
_READ_BYTES_PER_SECOND = 25_000_000
# The interval at which `on_tick` is called while a child examines a file.
_TICK_S = 0.5
_TASK_LIMITS = ResourceLimits(memory_bytes=4 << 30, cpu_seconds=60)

# The files that a program needs to start and to count its cores. None of these files is private.
_SYSTEM_PATHS = (
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/etc/ld.so.cache",
    "/proc/cpuinfo",
    "/sys/devices/system/cpu",
    "/dev/null",
    "/dev/urandom",
)


class Sandbox:
    """A fork server and its children. Thread-safe.

    Call `start` and `stop`, or use it as a context manager. `stop` kills all children.
    """

    def __init__(self, ffmpeg: Path) -> None:
        self.ffmpeg = ffmpeg
        self.isolation = Isolation(no_network=False, no_files=False, few_system_calls=False)
        self._lock = threading.Lock()
        self._helper: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._children = weakref.WeakSet[Child]()  # this helper's children that are not closed yet

    def start(self) -> None:
        """Start the helper process and set `isolation`. Do nothing if it was started before."""
        with self._lock:
            if self._helper is None:
                self._start()

    def stop(self) -> None:
        with self._lock:
            self._stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def run(self, argv: Sequence[str], *, fds: Mapping[int, int], cwd: Path, limits: ResourceLimits) -> Child:
        """Execute `argv` in `cwd`. The program can access only this folder, its own files and system files.

        `fds` maps file descriptors of the child to our open descriptors. Stdout and stderr are piped.
        """
        return self._start_child(_order_to_execute(argv, writable=True), fds, cwd, limits)

    def check(self) -> None:
        """Run `ffmpeg -version` in a child as a self-test. Raise MediaError or OSError if the test fails."""
        order = _order_to_execute([str(self.ffmpeg), "-version"], writable=False)
        with self._start_child(order, {}, Path("/"), _TASK_LIMITS) as child:
            deadline = monotonic() + HELPER_TIMEOUT_S
            for _ in child.events(_TICK_S):
                if monotonic() > deadline:
                    raise MediaError(ErrorCode.SANDBOX_FAILED, "a trivial child process does not end")
            if child.end.code != 0:
                raise MediaError(
                    ErrorCode.SANDBOX_FAILED, f"a trivial child ended with code {child.end.code}"
                )

    def call(
        self,
        task: str,
        arguments: Mapping[str, Any],
        *,
        blame: ErrorCode,
        fds: Mapping[int, int] | None = None,
        cwd: Path | None = None,
        on_tick: Callable[[], None] = lambda: None,
        writable_bytes: int = 0,
        timeout_s: float = HELPER_TIMEOUT_S,
        most_bytes: int = _MAX_ANSWER_BYTES,
    ) -> Any:
        """Run a task of `child_tasks` in a child that can open only files in `cwd`, and return its result.

        With `writable_bytes`, the child may also write and remove files there, each of at most this size.
        `timeout_s` limits both the duration and the processor time of the task, and `most_bytes` limits its
        answer. Raise `MediaError` with the code `blame` when the media file makes the child fail. `on_tick`
        may raise to stop the task. When this method returns or raises, the child has ended.
        """
        order = {
            "task": task,
            "arguments": arguments,
            "readable": ["."] if cwd else [],
            "writable": bool(cwd and writable_bytes),
        }
        limits = replace(_TASK_LIMITS, file_bytes=writable_bytes, cpu_seconds=math.ceil(timeout_s))
        with self._start_child(order, fds or {}, cwd or Path("/"), limits) as child:
            return answer_of(child, blame, on_tick, limits, timeout_s=timeout_s, most_bytes=most_bytes)

    def probe(
        self, fd: int, *, allow_truncated: bool = False, on_tick: Callable[[], None] = lambda: None
    ) -> MediaInfo:
        """Return the facts of a source. The offset of `fd` is not used and does not change."""
        found = self._examine("probe", fd, {"allow_truncated": allow_truncated}, on_tick)
        return MediaInfo.parse(found, os.fstat(fd).st_size)

    def probe_beginning(
        self, fd: int, size_bytes: int, *, on_tick: Callable[[], None] = lambda: None
    ) -> Beginning:
        """Return the facts of a source of `size_bytes`. `fd` has only the beginning of the source."""
        return Beginning.parse(self._examine("probe_beginning", fd, {}, on_tick), size_bytes)

    def watermark(self, fd: int, *, on_tick: Callable[[], None] = lambda: None) -> WatermarkInfo:
        """Return the facts of the first picture of a file. The offset of `fd` does not change.

        Raise `watermark_unusable` for a file that is not a picture, or is damaged.
        """
        blame = ErrorCode.WATERMARK_UNUSABLE
        try:
            return WatermarkInfo.parse(self._examine("watermark", fd, {}, on_tick, blame=blame))
        except MediaError as error:
            # A compromised child can return an error that blames the source. Replace this error, because the
            # child has read only the watermark.
            raise MediaError(blame, str(error)) if error.code.fault is Fault.SOURCE else error from None

    def keyframes(
        self, fd: int, stream_index: int, *, on_tick: Callable[[], None] = lambda: None
    ) -> Keyframes:
        """Return the times of the keyframes of a video stream. The offset of `fd` does not change."""
        return Keyframes.parse(self._examine("keyframes", fd, {"stream_index": stream_index}, on_tick))

    def subtitles(
        self, fd: int, streams: Sequence[int], *, on_tick: Callable[[], None] = lambda: None
    ) -> tuple[TrackCues, ...]:
        """Return the cues of these text subtitle streams. The offset of `fd` does not change."""
        timeout_s = HELPER_TIMEOUT_S + os.fstat(fd).st_size / _READ_BYTES_PER_SECOND
        most_bytes = (1 + len(streams)) * MOST_TRACK_BYTES
        arguments = {"streams": [*streams]}
        found = self._examine("subtitles", fd, arguments, on_tick, timeout_s=timeout_s, most_bytes=most_bytes)
        return parse_tracks(found, streams)

    def _examine(
        self,
        task: str,
        fd: int,
        arguments: Mapping[str, Any],
        on_tick: Callable[[], None],
        *,
        blame: ErrorCode = ErrorCode.SOURCE_UNSUPPORTED,
        timeout_s: float = HELPER_TIMEOUT_S,
        most_bytes: int = _MAX_ANSWER_BYTES,
    ) -> Any:
        with reopened(fd) as own:
            return self.call(
                task,
                {"fd": 3, **arguments},
                blame=blame,
                fds={3: own},
                on_tick=on_tick,
                timeout_s=timeout_s,
                most_bytes=most_bytes,
            )

    def _start_child(
        self, order: dict[str, Any], fds: Mapping[int, int], cwd: Path, limits: ResourceLimits
    ) -> Child:
        with ExitStack() as ours, ExitStack() as theirs:
            channel, far_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            ours.callback(channel.close)
            theirs.callback(far_end.close)
            outputs, given = {}, dict(fds)
            for target in (1, 2):
                outputs[target], given[target] = os.pipe()
                ours.callback(os.close, outputs[target])
                theirs.callback(os.close, given[target])
            folder = os.open(cwd, os.O_PATH | os.O_DIRECTORY)
            theirs.callback(os.close, folder)
            # Pass the order as a file, because the order for the sprite sheets of a 24-hour source is too
            # large for a message.
            order_file = theirs.enter_context(os.fdopen(os.memfd_create("order"), "wb"))
            order_file.write(json.dumps({**order, "targets": [*given], "limits": asdict(limits)}).encode())
            order_file.flush()
            self._send([far_end.fileno(), order_file.fileno(), folder, *given.values()])
            # Close `far_end` before reading: while our copy of it is open, the death of the helper would not
            # end the read.
            theirs.close()
            child = Child(channel, outputs)
            ours.pop_all()
            with self._lock:
                self._children.add(child)
            return child

    def _send(self, fds: Sequence[int]) -> None:
        with self._lock:
            if self._control is None:
                raise MediaError(ErrorCode.SANDBOX_FAILED, "the sandbox is not started")
            try:
                socket.send_fds(self._control, [b"order"], fds)
            except (ConnectionError, TimeoutError):
                self._stop()
                self._start()
                socket.send_fds(self._control, [b"order"], fds)

    def _start(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._helper = subprocess.Popen(  # noqa: S603  our own module
                [sys.executable, "-P", "-m", "euterpe.media.sandbox.fork_server", str(theirs.fileno())],
                env={
                    "LANG": "C.UTF-8",
                    "PYTHONPATH": os.pathsep.join(filter(os.path.isabs, sys.path)),
                    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",  # fewer page faults for decoded pictures
                },
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # signals from a terminal (Ctrl-C) must reach the worker only
            )
        try:
            self.isolation = Isolation(**receive_first_message(self._control)[0])
        except BaseException:
            self._stop()
            raise

    def _stop(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._helper is not None:
            try:
                self._helper.wait(HELPER_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._helper.kill()
                self._helper.wait()
            self._helper = None
        for child in self._children:  # children can outlive a helper that was killed
            child.kill()
        self._children.clear()


@contextmanager
def reopened(fd: int) -> Iterator[int]:
    """Yield a read-only descriptor of the same file, with a separate offset."""
    own = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
    try:
        yield own
    finally:
        os.close(own)


def _order_to_execute(argv: Sequence[str], *, writable: bool) -> dict[str, Any]:
    program = Path(argv[0])
    readable = [str(program), str(program.parent.parent / "lib"), *_SYSTEM_PATHS]
    return {"argv": [*argv], "readable": readable, "writable": writable}


def answer_of(
    child: Child,
    blame: ErrorCode,
    on_tick: Callable[[], None],
    limits: ResourceLimits,
    *,
    timeout_s: float = HELPER_TIMEOUT_S,
    most_bytes: int = _MAX_ANSWER_BYTES,
) -> Any:
    """Return the result of a child's task. Raise `MediaError` if the task failed.

    The error has the code `blame` when the file made the child fail.
    """
    output, deadline = bytearray(), monotonic() + timeout_s
    for event in child.events(_TICK_S):
        on_tick()
        if event is not None and event[0] == 1:
            output += event[1]
        if monotonic() > deadline or len(output) > most_bytes:
            raise MediaError(blame, "the file takes too long to read, or contains too much")
    if child.end.code != 0:
        raise _failure_of(child.end, blame, limits)
    try:
        answer = json.loads(output)
        if "error" not in answer:
            return answer["found"]
        code, message = answer["error"]
        error = MediaError(ErrorCode[str(code).upper()], message)
    except (KeyError, TypeError, ValueError, RecursionError):  # "[[[[…" raises RecursionError
        raise MediaError(
            blame, "the sandboxed process that read the file returned an invalid result"
        ) from None
    # A compromised child can report any error, so accept only permanent errors that blame the file.
    blames_the_file = error.code.fault is Fault.SOURCE and error.retry_class is RetryClass.PERMANENT
    raise error if blames_the_file else MediaError(blame, str(error))


def _failure_of(end: Exit, blame: ErrorCode, limits: ResourceLimits) -> MediaError:
    """Return the error for a child that failed. Blame the file unless `end` proves another cause."""
    proved = error_from_exit(end, limits)
    if proved is not None and proved.code is ErrorCode.ENCODE_KILLED:
        return MediaError(
            ErrorCode.SANDBOX_FAILED, "the sandboxed process that read the file was killed from outside"
        )
    if proved is not None and proved.code is ErrorCode.OUT_OF_MEMORY:
        return proved
    return MediaError(blame, f"the sandboxed process that read the file failed (exit code {end.code})")
