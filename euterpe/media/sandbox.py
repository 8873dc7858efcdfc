"""Where hostile media is touched: child processes that can do little, and that outlive nothing.

A `Sandbox` is one helper process (`nursery`) that forks the children. It may be used by many threads. A
helper that was killed is replaced when it is next needed; what it had under way is lost with it.
"""

import json
import os
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import Any, Self

from euterpe.domain.retry import RetryClass
from euterpe.media.child import PATIENCE_S, Child, Exit, first_word
from euterpe.media.confine import ResourceLimits
from euterpe.media.errors import MediaError
from euterpe.media.failure_reason import proved_by_facts
from euterpe.media.isolation import Isolation
from euterpe.media.media_info import MediaInfo

_MAX_ANSWER_BYTES = 4 << 20
# As often `on_tick` is called while a child looks into a file.
_TICK_S = 0.5
_TASK_LIMITS = ResourceLimits(memory_bytes=4 << 30, cpu_seconds=60)

# What an executed program needs to start and to count its cores: not a file of anybody's.
_SYSTEM = (
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
    """Starts with `start` or as a context manager, and takes all its children with it when it stops."""

    def __init__(self, ffmpeg: Path) -> None:
        self.ffmpeg = ffmpeg
        self.isolation = Isolation(no_network=False, no_files=False, few_system_calls=False)
        self._lock = threading.Lock()
        self._helper: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._children = weakref.WeakSet[Child]()  # of this helper, and not closed yet

    def start(self) -> None:
        """Start the helper process, which measures the `isolation`. Do nothing if it was started before."""
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
        """Executes `argv` in `cwd`, all that it can see. `fds` says which of our open files it finds under
        which number, beside its stdout and stderr."""
        return self._bear(_order_to_execute(argv, writable=True), fds, cwd, limits)

    def check(self) -> None:
        """Run a child that needs nothing of any job. Raise MediaError or OSError when that fails."""
        order = _order_to_execute([str(self.ffmpeg), "-version"], writable=False)
        with self._bear(order, {}, Path("/"), _TASK_LIMITS) as child:
            deadline = monotonic() + PATIENCE_S
            for _ in child.events(_TICK_S):
                if monotonic() > deadline:
                    raise MediaError("sandbox_failed", "a trivial child process does not end")
            if child.end.code != 0:
                raise MediaError("sandbox_failed", f"a trivial child ended with code {child.end.code}")

    def call(
        self,
        task: str,
        arguments: Mapping[str, Any],
        *,
        blame: str,
        fds: Mapping[int, int] | None = None,
        cwd: Path | None = None,
        on_tick: Callable[[], None] = lambda: None,
    ) -> Any:
        """What a task of `examine` says, from a child that can open nothing but what is in `cwd`. A media
        file that breaks its child is at fault: the error has the code `blame`. `on_tick` may raise: the child
        is gone before that leaves here."""
        order = {"task": task, "arguments": arguments, "readable": ["."] if cwd else [], "writable": False}
        with self._bear(order, fds or {}, cwd or Path("/"), _TASK_LIMITS) as child:
            return answer_of(child, blame, on_tick, _TASK_LIMITS)

    def probe(self, fd: int, *, on_tick: Callable[[], None] = lambda: None) -> MediaInfo:
        """Looks into a source from its beginning, wherever `fd` is: its offset is left alone."""
        with reopened(fd) as own:
            found = self.call("probe", {"fd": 3}, blame="source_unsupported", fds={3: own}, on_tick=on_tick)
        return MediaInfo.parse(found, os.fstat(fd).st_size)

    def _bear(
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
            # In a file, for a message may not be as long as the order for a day's sprite sheets is.
            letter = theirs.enter_context(os.fdopen(os.memfd_create("order"), "wb"))
            letter.write(json.dumps({**order, "targets": [*given], "limits": asdict(limits)}).encode())
            letter.flush()
            self._send([far_end.fileno(), letter.fileno(), folder, *given.values()])
            theirs.close()  # now, or the end of the helper would not be the end of the line
            child = Child(channel, outputs)
            ours.pop_all()
            with self._lock:
                self._children.add(child)
            return child

    def _send(self, fds: Sequence[int]) -> None:
        with self._lock:
            if self._control is None:
                raise MediaError("sandbox_failed", "the sandbox is not started")
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
                [sys.executable, "-P", "-m", "euterpe.media.fork_server", str(theirs.fileno())],
                env={
                    "LANG": "C.UTF-8",
                    "PYTHONPATH": os.pathsep.join(filter(os.path.isabs, sys.path)),
                    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",  # a decoder's pictures in fewer page faults
                },
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # what is typed at a terminal is for the worker
            )
        try:
            self.isolation = Isolation(**first_word(self._control)[0])
        except BaseException:
            self._stop()
            raise

    def _stop(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._helper is not None:
            try:
                self._helper.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self._helper.kill()
                self._helper.wait()
            self._helper = None
        for child in self._children:  # a helper that was killed may leave some
            child.kill()
        self._children.clear()


@contextmanager
def reopened(fd: int) -> Iterator[int]:
    """The same file, read only, with an offset of its own."""
    own = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
    try:
        yield own
    finally:
        os.close(own)


def _order_to_execute(argv: Sequence[str], *, writable: bool) -> dict[str, Any]:
    program = Path(argv[0])
    seen = [str(program), str(program.parent.parent / "lib"), *_SYSTEM]
    return {"argv": [*argv], "readable": seen, "writable": writable}


def answer_of(child: Child, blame: str, on_tick: Callable[[], None], limits: ResourceLimits) -> Any:
    """Return what a child found in a file. Raise with the code `blame` when the file broke it."""
    said, deadline = bytearray(), monotonic() + PATIENCE_S
    for event in child.events(_TICK_S):
        on_tick()
        if event is not None and event[0] == 1:
            said += event[1]
        if monotonic() > deadline or len(said) > _MAX_ANSWER_BYTES:
            raise MediaError(blame, "takes too long, or has too much in it, to be looked into")
    if child.end.code != 0:
        raise _failure_of(child.end, blame, limits)
    try:
        answer = json.loads(said)
        if "error" not in answer:
            return answer["found"]
        error = MediaError(*answer["error"])
    except (KeyError, TypeError, ValueError, RecursionError):  # the last of "[[[[…"
        raise MediaError(blame, "makes the process that looks into it lie") from None
    # A child that was taken over may claim anything, but no more than that its file is at fault.
    raise error if error.retry_class is RetryClass.PERMANENT else MediaError(blame, str(error))


def _failure_of(end: Exit, blame: str, limits: ResourceLimits) -> MediaError:
    """Return why a child failed that looked into a file: the file's fault unless facts prove another's."""
    proved = proved_by_facts(end, limits)
    if proved is not None and proved.code == "encode_killed":
        return MediaError("sandbox_failed", "the process that looked into a file was killed from outside")
    if proved is not None and proved.code == "out_of_memory":
        return proved
    return MediaError(blame, f"breaks the process that looks into it (exit code {end.code})")
