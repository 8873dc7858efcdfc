"""The helper process that forks the children: `python -m euterpe.media.fork_server FD`, started by `Sandbox`.

Single-threaded, so that the death signal of its children means its own death, and with PyAV imported once,
so that a probe costs a fork. An order is a few file descriptors that come over the control socket: the
child's own channel, what it is to do, its folder, and the files that it is promised. Whoever hangs up that
channel, or the control socket, kills.
"""

import fcntl
import gc
import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from time import monotonic
from typing import Any

from euterpe.media import child_tasks, confine, seccomp

_MAX_WORD_BYTES = 16
_MAX_FDS = 16
_ENVIRONMENT = {"LANG": "C.UTF-8"}
_NICE = 5
_ASIDE = 64  # above every number that a child is promised
_ALL_FDS = 1 << 20
# As often the memory of the children is looked at.
_LOOK_S = 0.5
# Main stack and relocations, which RLIMIT_DATA does not count either.
_UNCOUNTED_BYTES = 64 << 20


@dataclass(eq=False)
class _Child:
    pid: int
    pidfd: int
    channel: socket.socket
    listening: bool = True


class _Nursery:
    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._selector = DefaultSelector()
        self._selector.register(control, EVENT_READ, self._take_order)
        self._children: set[_Child] = set()
        self._deserted = False
        self._looked_at = monotonic()
        confine.call_first_when_memory_runs_out()
        self._alone = confine.leave_the_network()
        confine.give_up_privileges()
        confine.forbid_inspection()
        self._filters = seccomp.can_filter()

    def run(self) -> None:
        _say(
            self._control.fileno(),
            {
                "no_network": self._alone,
                "no_files": confine.can_hide_files(),
                "few_system_calls": self._filters,
            },
        )
        while not self._deserted:
            for key, _ in self._selector.select(_LOOK_S if self._children else None):
                key.data()
            self._end_what_is_too_large()
        for child in self._children:
            _kill(child.pid)
        for child in self._children:
            os.waitpid(child.pid, 0)

    def _take_order(self) -> None:
        data, fds = b"", list[int]()
        with suppress(ConnectionError):  # the worker died before it read what we said
            data, fds, _flags, _address = socket.recv_fds(
                self._control, _MAX_WORD_BYTES, _MAX_FDS, socket.MSG_CMSG_CLOEXEC
            )
        if not data:
            self._deserted = True
        if not fds:  # no more files, so no channel to say so; the other end of it hears that it was closed
            return
        channel = socket.socket(fileno=fds[0])
        try:
            self._bear(channel, fds[1:])
        except OSError as error:  # no more processes, or no more files
            _say(channel.fileno(), {"failed": str(error)})
            channel.close()
        finally:
            for fd in fds[1:]:
                os.close(fd)

    def _bear(self, channel: socket.socket, fds: Sequence[int]) -> None:
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            _live(channel, fds, parent, count_processes=self._alone, filters=self._filters)
        with ExitStack() as undo:
            undo.callback(os.waitpid, pid, 0)
            undo.callback(_kill, pid)
            child = _Child(pid, os.pidfd_open(pid), channel)
            undo.callback(os.close, child.pidfd)
            self._selector.register(child.pidfd, EVENT_READ, lambda: self._bury(child))
            undo.callback(self._selector.unregister, child.pidfd)
            self._selector.register(channel, EVENT_READ, lambda: self._hear(child))
            undo.callback(self._selector.unregister, channel)
            # With the pidfd, for the worker to kill by when this process is gone.
            with suppress(ConnectionError):  # nobody listens any more
                socket.send_fds(channel, [json.dumps({"pid": pid}).encode()], [child.pidfd])
            undo.pop_all()
        self._children.add(child)

    def _end_what_is_too_large(self) -> None:
        """Kill children that hold more memory than they are allowed. RLIMIT_DATA counts what they may write
        to: 1,000 MiB that one filled and made read-only were held under a limit of 256 MiB."""
        if monotonic() - self._looked_at < _LOOK_S:
            return
        for child in self._children:
            with suppress(OSError):  # /proc may hide it
                most, _ = resource.prlimit(child.pid, resource.RLIMIT_DATA)
                if most != resource.RLIM_INFINITY and _anonymous_bytes(child.pid) > most + _UNCOUNTED_BYTES:
                    _kill(child.pid)
        self._looked_at = monotonic()

    def _hear(self, child: _Child) -> None:
        """The end of the line is the end of the child."""
        if child.listening:
            with suppress(ConnectionError):
                child.channel.recv(_MAX_WORD_BYTES)
            _kill(child.pid)
            self._selector.unregister(child.channel)
            child.listening = False

    def _bury(self, child: _Child) -> None:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)  # before its number is free again: whatever it left behind
        _pid, status, usage = os.wait4(child.pid, 0)
        _say(
            child.channel.fileno(),
            {
                "code": os.waitstatus_to_exitcode(status),
                "cpu_seconds": usage.ru_utime + usage.ru_stime,
                "peak_memory_bytes": usage.ru_maxrss * 1024,
            },
        )
        self._selector.unregister(child.pidfd)
        if child.listening:
            self._selector.unregister(child.channel)
            child.listening = False
        os.close(child.pidfd)
        child.channel.close()
        self._children.discard(child)


def _anonymous_bytes(pid: int) -> int:
    """Return the memory that a process holds and that is of no file."""
    # Numbers only: `status` also has the name, which a process chooses itself.
    _size, resident, of_files, *_ = map(int, Path(f"/proc/{pid}/statm").read_bytes().split())
    return (resident - of_files) * resource.getpagesize()


def _kill(pid: int) -> None:
    """It is not reaped yet, so its number is still its own."""
    os.kill(pid, signal.SIGKILL)  # it may not have made its group yet
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _live(
    channel: socket.socket, fds: Sequence[int], parent: int, *, count_processes: bool, filters: bool
) -> None:
    """What a child does from its first instruction to its last, to read its order included: a bad one is
    its own problem. Never returns."""
    line = channel.fileno()
    try:
        os.setsid()
        if count_processes:
            confine.count_threads_apart()
            confine.give_up_privileges()
        confine.die_with(parent)
        _reset_signals()
        letter, folder, *given = fds
        order: dict[str, Any] = json.loads(os.pread(letter, os.fstat(letter).st_size, 0))
        os.fchdir(folder)
        line = _keep_only(channel, dict(zip(order["targets"], given, strict=True)))
        os.nice(_NICE)
        confine.see_only(
            readable=[Path(path) for path in order["readable"]],
            writable=[Path()] if order["writable"] else [],
        )
        confine.limit(confine.ResourceLimits(**order["limits"]), count_processes=count_processes)
        argv = order.get("argv")
        if filters:
            seccomp.refuse_other_calls(executes=bool(argv))  # last: what came before is refused from here on
        if argv:
            os.execve(argv[0], argv, _ENVIRONMENT)  # noqa: S606  no shell is meant
        # From here on this process parses media. A parser that was taken over, or an exception that media
        # provokes, must not speak on the line on which the helper says what the machine did.
        os.close(line)
        line = -1
        child_tasks.perform(order["task"], order["arguments"])
        os._exit(0)
    except BaseException as error:  # noqa: BLE001  a child must not go on as if it were its parent
        _say(line, {"failed": f"{type(error).__name__}: {error}"[:1000]})
    finally:
        os._exit(126)


def _reset_signals() -> None:
    # Python ignores these two, and whoever is executed would ignore them as well.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    # A supervisor that signals the whole control group must not break what the worker is to finish: ffmpeg
    # sets handlers of its own, but leaves the mask alone.
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT, signal.SIGHUP))


def _keep_only(channel: socket.socket, wanted: dict[int, int]) -> int:
    """The promised numbers, nothing on stdin, and the channel until something is executed: its new number."""
    aside = {target: fcntl.fcntl(fd, fcntl.F_DUPFD, _ASIDE) for target, fd in wanted.items()}
    line = fcntl.fcntl(channel.detach(), fcntl.F_DUPFD_CLOEXEC, _ASIDE)
    # Read only: what is written there would count as progress (`wchar`).
    aside[0] = os.open(os.devnull, os.O_RDONLY)
    for target, fd in aside.items():
        os.dup2(fd, target)
    for below, above in pairwise((*sorted(aside), line, _ALL_FDS)):
        os.closerange(below + 1, above)
    return line


def _say(line: int, message: dict[str, Any]) -> None:
    with suppress(OSError):  # nobody listens any more
        os.write(line, json.dumps(message).encode())


if __name__ == "__main__":
    gc.freeze()  # a collection in a child would copy every page that it looks at
    with socket.socket(fileno=int(sys.argv[1])) as control:
        _Nursery(control).run()
