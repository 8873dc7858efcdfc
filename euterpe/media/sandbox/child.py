"""The worker's handle on one sandboxed child process: its output, exit status, resource usage, and kill."""

import errno
import json
import os
import select
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from typing import Any, Self

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.errors import MediaError

# The timeout of steps that normally take milliseconds. The timeout is long enough for a machine under heavy
# load.
HELPER_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Exit:
    code: int  # the exit code, or the negative number of the signal that killed the process
    cpu_seconds: float
    peak_memory_bytes: int


class Child:
    """A running process and its output. `close`, or leaving the `with` block, kills the process and waits."""

    def __init__(self, channel: socket.socket, outputs: Mapping[int, int]) -> None:
        self._channel = channel
        self._outputs = dict(outputs)  # the child's descriptor (1 or 2) -> our end of its pipe
        self._exit: Exit | None = None
        self._lock = threading.Lock()
        self.pid, self._pidfd = _receive_pid(channel)

    def events(self, tick_s: float) -> Iterator[tuple[int, bytes] | None]:
        """Yield (descriptor, bytes) for each piece of output until the child has ended.

        The descriptor is 1 or 2. After a tick without output, yield None.
        """
        with DefaultSelector() as selector:
            selector.register(self._channel, EVENT_READ)
            for target, fd in self._outputs.items():
                selector.register(fd, EVENT_READ, target)
            while selector.get_map():
                ready = selector.select(tick_s)
                if not ready:
                    yield None
                for key, _ in ready:
                    if key.fileobj is self._channel:
                        self._take_exit(HELPER_TIMEOUT_S)
                    elif data := os.read(key.fd, 65536):
                        yield key.data, data
                        continue
                    selector.unregister(key.fileobj)

    def wait(self, timeout_s: float | None = None) -> Exit | None:
        """Wait for the end of the process. Return None when it still runs after `timeout_s`."""
        if self._exit is None:
            with suppress(TimeoutError):
                self._take_exit(timeout_s)
        return self._exit

    @property
    def end(self) -> Exit:
        """Return the exit status. Raise RuntimeError until `events` or `wait` has received this status."""
        if self._exit is None:
            raise RuntimeError(f"process {self.pid} still runs")
        return self._exit

    @property
    def cpu_seconds(self) -> float:
        """Return the processor time that the process and its reaped children have used so far."""
        return self._exit.cpu_seconds if self._exit else _running_cpu_seconds(self.pid)

    def kill(self) -> None:
        """Kill the process. Any thread may call this method, repeatedly, and also after `close`.

        The pidfd works after the helper has ended, and never refers to another process. The death signal
        alone is not enough, because only the main thread of the child has a death signal. If another thread
        of the child executes the program again, the child loses its death signal and outlives the helper.
        """
        with self._lock, suppress(ProcessLookupError):
            if self._pidfd >= 0:
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def close(self) -> None:
        """Kill the process if it still runs, wait for its end, and close its pipes."""
        try:
            if self._exit is None:
                self.kill()
                try:
                    self.wait(HELPER_TIMEOUT_S)
                except MediaError:  # the helper has ended, so no exit status will be sent
                    self._await_end(HELPER_TIMEOUT_S)
        finally:
            self._channel.close()
            for fd in self._outputs.values():
                os.close(fd)
            with self._lock:
                os.close(self._pidfd)
                self._pidfd = -1

    def _await_end(self, timeout_s: float) -> None:
        end = select.poll()
        end.register(self._pidfd, select.POLLIN)
        end.poll(timeout_s * 1000)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take_exit(self, timeout_s: float | None) -> None:
        self._channel.settimeout(timeout_s)
        self._exit = Exit(**_receive_message(self._channel)[0])


def _running_cpu_seconds(pid: int) -> float:
    """Return the processor seconds of a running process, or 0.0 if it has just been reaped.

    After the process is reaped, `Exit.cpu_seconds` has the total.
    """
    try:
        # A process can choose any bytes as its name, so read only the fields after the name, which are
        # numbers.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return 0.0
    # Fields 14 to 17 of proc(5): utime, stime, cutime, cstime. `fields` begins with the third field.
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _receive_pid(line: socket.socket) -> tuple[int, int]:
    """Return the pid of a child and its pidfd, which the helper opened before it could reap the child."""
    message, fds = receive_first_message(line)
    # The kernel drops the pidfd if this process has no free file descriptor. The caller closes the channel,
    # which kills the child.
    if not fds:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    return message["pid"], fds[0]


def receive_first_message(line: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Return the first message of the helper or of a new child. Raise MediaError after the timeout."""
    line.settimeout(HELPER_TIMEOUT_S)
    try:
        return _receive_message(line)
    except TimeoutError:
        raise MediaError(ErrorCode.SANDBOX_FAILED, "the sandbox's helper process does not answer") from None


def _receive_message(line: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Return one message, and the file descriptors that came with it."""
    try:
        data, fds = _receive(line)
    # The peer closed without reading our message, but we can still read its message.
    except ConnectionResetError:
        data, fds = _receive(line)
    if not data:
        raise MediaError(ErrorCode.SANDBOX_FAILED, "the sandbox's helper process is gone")
    message: dict[str, Any] = json.loads(data)
    if "failed" in message:
        raise MediaError(ErrorCode.SANDBOX_FAILED, f"a child process could not start: {message['failed']}")
    return message, fds


def _receive(line: socket.socket) -> tuple[bytes, list[int]]:
    data, fds, _flags, _address = socket.recv_fds(line, 65536, 1, socket.MSG_CMSG_CLOEXEC)
    return data, fds
