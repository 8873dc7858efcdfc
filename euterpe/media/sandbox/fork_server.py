"""The helper process that forks sandboxed children: `python -m euterpe.media.sandbox.fork_server FD`.

`Sandbox` starts this process. The process is single-threaded, because the kernel sends the parent-death
signal (`PR_SET_PDEATHSIG`) to a child when the thread that forked it ends, even if the process continues. The
process imports PyAV once, so that a probe costs only a fork. The worker sends one message on the control
socket for each child. The message carries these file descriptors: the child's own channel, the order as JSON,
the child's folder, and the inherited files. When the worker closes a child's channel, the fork server kills
that child. When the worker closes the control socket, the fork server kills all children.
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

from euterpe.media.sandbox import child_tasks, confine, seccomp

_MAX_MESSAGE_BYTES = 16
_MAX_FDS = 16
_ENVIRONMENT = {"LANG": "C.UTF-8"}
_NICE = 5
_FIRST_SPARE_FD = 64  # above every file descriptor that a child inherits
_ALL_FDS = 1 << 20
# The interval at which the memory of the children is measured.
_MEMORY_CHECK_S = 0.5
# A child may have this much anonymous memory above RLIMIT_DATA, which does not count the main stack and the
# relocations.
_UNCOUNTED_BYTES = 64 << 20


@dataclass(eq=False)
class _Child:
    pid: int
    pidfd: int
    channel: socket.socket
    listening: bool = True


class _ForkServer:
    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._selector = DefaultSelector()
        self._selector.register(control, EVENT_READ, self._take_order)
        self._children: set[_Child] = set()
        self._control_closed = False
        self._measured_at = monotonic()
        confine.raise_oom_score()
        self._has_own_namespaces = confine.enter_empty_network_namespace()
        confine.drop_capabilities()
        confine.forbid_inspection()
        self._filters = seccomp.child_filters()

    def run(self) -> None:
        _send(
            self._control.fileno(),
            {
                "no_network": self._has_own_namespaces,
                "no_files": confine.can_hide_files(),
                "few_system_calls": self._filters is not None,
            },
        )
        while not self._control_closed:
            for key, _ in self._selector.select(_MEMORY_CHECK_S if self._children else None):
                key.data()
            self._kill_oversized_children()
        for child in self._children:
            _kill(child.pid)
        for child in self._children:
            os.waitpid(child.pid, 0)

    def _take_order(self) -> None:
        data, fds = b"", list[int]()
        with suppress(ConnectionError):  # the worker died before it read our message
            data, fds, _flags, _address = socket.recv_fds(
                self._control, _MAX_MESSAGE_BYTES, _MAX_FDS, socket.MSG_CMSG_CLOEXEC
            )
        if not data:
            self._control_closed = True
        # If this process had no free file descriptor, the kernel has closed the child's channel. The worker
        # then reads the end of this channel, so no answer is needed.
        if not fds:
            return
        channel = socket.socket(fileno=fds[0])
        try:
            self._fork_child(channel, fds[1:])
        except OSError as error:  # no process or file descriptor was free
            _send(channel.fileno(), {"failed": str(error)})
            channel.close()
        finally:
            for fd in fds[1:]:
                os.close(fd)

    def _fork_child(self, channel: socket.socket, fds: Sequence[int]) -> None:
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            _run_child(channel, fds, parent, count_processes=self._has_own_namespaces, filters=self._filters)
        with ExitStack() as undo:
            undo.callback(os.waitpid, pid, 0)
            undo.callback(_kill, pid)
            child = _Child(pid, os.pidfd_open(pid), channel)
            undo.callback(os.close, child.pidfd)
            self._selector.register(child.pidfd, EVENT_READ, lambda: self._reap(child))
            undo.callback(self._selector.unregister, child.pidfd)
            self._selector.register(channel, EVENT_READ, lambda: self._on_hangup(child))
            undo.callback(self._selector.unregister, channel)
            # With this pidfd the worker can kill the child even after the helper has ended.
            with suppress(ConnectionError):  # the worker has closed the channel
                socket.send_fds(channel, [json.dumps({"pid": pid}).encode()], [child.pidfd])
            undo.pop_all()
        self._children.add(child)

    def _kill_oversized_children(self) -> None:
        """Kill children that use more memory than their limit.

        RLIMIT_DATA is not enough, because it counts writable memory only: under a limit of 256 MiB, a child
        filled pages of 1,000 MiB, made these pages read-only, and kept them.
        """
        if monotonic() - self._measured_at < _MEMORY_CHECK_S:
            return
        for child in self._children:
            with suppress(OSError):  # reading fails if the kernel hides the child's /proc entry
                most, _ = resource.prlimit(child.pid, resource.RLIMIT_DATA)
                if most != resource.RLIM_INFINITY and _anonymous_bytes(child.pid) > most + _UNCOUNTED_BYTES:
                    _kill(child.pid)
        self._measured_at = monotonic()

    def _on_hangup(self, child: _Child) -> None:
        """Kill the child whose channel the worker has closed."""
        if child.listening:
            with suppress(ConnectionError):
                child.channel.recv(_MAX_MESSAGE_BYTES)
            _kill(child.pid)
            self._selector.unregister(child.channel)
            child.listening = False

    def _reap(self, child: _Child) -> None:
        """Kill the rest of the child's process group, reap the child, and send its exit status."""
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)  # before wait4, because wait4 frees the pid for reuse
        _pid, status, usage = os.wait4(child.pid, 0)
        _send(
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
    """Return the anonymous resident memory of a process: the pages that are not backed by a file."""
    # Read `statm`, because it has numbers only. `status` is not safe to parse: it contains the process name,
    # which the process chooses.
    _size, resident, of_files, *_ = map(int, Path(f"/proc/{pid}/statm").read_bytes().split())
    return (resident - of_files) * resource.getpagesize()


def _kill(pid: int) -> None:
    """Kill a child and its process group.

    Call this function before the child is reaped, because afterwards another process can get the same pid.
    """
    os.kill(pid, signal.SIGKILL)  # the child may not have created its process group yet
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _run_child(
    channel: socket.socket,
    fds: Sequence[int],
    parent: int,
    *,
    count_processes: bool,
    filters: seccomp.ChildFilters | None,
) -> None:
    """Confine this process, then execute the program or run the task of the order. Never return.

    The child reads the order itself, so a bad order ends only that child.
    """
    line = channel.fileno()
    try:
        os.setsid()
        if count_processes:
            confine.enter_user_namespace()
            confine.drop_capabilities()
        confine.set_death_signal(parent)
        _reset_signals()
        order_fd, folder, *given = fds
        order: dict[str, Any] = json.loads(os.pread(order_fd, os.fstat(order_fd).st_size, 0))
        os.fchdir(folder)
        line = _keep_only(channel, dict(zip(order["targets"], given, strict=True)))
        os.nice(_NICE)
        confine.restrict_files(
            readable=order["readable"],
            writable=["."] if order["writable"] else [],
        )
        confine.set_resource_limits(
            confine.ResourceLimits(**order["limits"]), count_processes=count_processes
        )
        argv = order.get("argv")
        if filters is not None:
            # Install the filter last, because it refuses the system calls of the steps above.
            filters.install(executes=bool(argv))
        if argv:
            os.execve(argv[0], argv, _ENVIRONMENT)  # noqa: S606  no shell is wanted
        # From here on this process parses media. A compromised parser, or an exception that media provokes,
        # must not write to the channel on which the helper reports the exit status.
        os.close(line)
        line = -1
        child_tasks.perform(order["task"], order["arguments"])
        os._exit(0)
    except BaseException as error:  # noqa: BLE001  a child must not continue with its parent's code
        _send(line, {"failed": f"{type(error).__name__}: {error}"[:1000]})
    finally:
        os._exit(126)


def _reset_signals() -> None:
    # Python ignores these two signals, and an executed program would inherit that setting.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    # A supervisor can send these signals to the whole control group, but they must not end jobs that the
    # worker is finishing. So block them. ffmpeg sets handlers for these signals, but does not change the
    # signal mask.
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT, signal.SIGHUP))


def _keep_only(channel: socket.socket, wanted: dict[int, int]) -> int:
    """Move the wanted descriptors to their numbers and close all others. Return the channel's new number.

    Stdin becomes /dev/null. The kernel closes the channel when the child executes a program.
    """
    moved = {target: fcntl.fcntl(fd, fcntl.F_DUPFD, _FIRST_SPARE_FD) for target, fd in wanted.items()}
    line = fcntl.fcntl(channel.detach(), fcntl.F_DUPFD_CLOEXEC, _FIRST_SPARE_FD)
    # Open /dev/null read-only, because bytes written to it would count as progress (`wchar`).
    moved[0] = os.open(os.devnull, os.O_RDONLY)
    for target, fd in moved.items():
        os.dup2(fd, target)
    for below, above in pairwise((*sorted(moved), line, _ALL_FDS)):
        os.closerange(below + 1, above)
    return line


def _send(line: int, message: dict[str, Any]) -> None:
    with suppress(OSError):  # the worker has closed its end of the channel
        os.write(line, json.dumps(message).encode())


if __name__ == "__main__":
    gc.freeze()  # a garbage collection in a child would copy every page that it touches
    with socket.socket(fileno=int(sys.argv[1])) as control:
        _ForkServer(control).run()
