"""One child process, as the worker sees it: what it writes, how it ended, and the end of it."""

import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from typing import Any, Self

from euterpe.media.errors import MediaError

# Longer than a machine under load takes for what costs milliseconds, shorter than anybody's patience.
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Exit:
    code: int  # negative: the signal that ended it
    cpu_seconds: float
    peak_memory_bytes: int


class Child:
    """One process and its output. Its end is the end of the `with` block at the latest."""

    def __init__(self, channel: socket.socket, outputs: Mapping[int, int]) -> None:
        self._channel = channel
        self._outputs = dict(outputs)  # target number -> our read end
        self._exit: Exit | None = None
        self.pid: int = first_word(channel)["pid"]

    def events(self, tick_s: float) -> Iterator[tuple[int, bytes] | None]:
        """What it writes, as (1 or 2, bytes), until it has ended; None whenever a tick passes in silence."""
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
                        self._take_exit(PATIENCE_S)
                    elif data := os.read(key.fd, 65536):
                        yield key.data, data
                        continue
                    selector.unregister(key.fileobj)

    def wait(self, timeout_s: float | None = None) -> Exit | None:
        """None when it still runs after that time."""
        if self._exit is None:
            with suppress(TimeoutError):
                self._take_exit(timeout_s)
        return self._exit

    @property
    def end(self) -> Exit:
        """How it ended, once its events have, or its `wait`."""
        if self._exit is None:
            raise RuntimeError(f"process {self.pid} still runs")
        return self._exit

    @property
    def cpu_seconds(self) -> float:
        """Return the processor time used so far, with that of children already waited for."""
        return self._exit.cpu_seconds if self._exit else _running_cpu_seconds(self.pid)

    def kill(self) -> None:
        """With everything that it started. From any thread; twice is once."""
        with suppress(OSError):
            self._channel.send(b"kill")

    def close(self) -> None:
        try:
            if self._exit is None:
                self.kill()
                with suppress(MediaError):  # of a helper that is gone, and took this child with it
                    self.wait(PATIENCE_S)
        finally:
            self._channel.close()
            for fd in self._outputs.values():
                os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take_exit(self, timeout_s: float | None) -> None:
        self._channel.settimeout(timeout_s)
        self._exit = Exit(**_hear(self._channel))


def _running_cpu_seconds(pid: int) -> float:
    """Return 0.0 when the process has just been reaped: its end tells the whole time."""
    try:
        # A process may call itself anything, in any bytes; after its name there are numbers only.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return 0.0
    # Fields 14 to 17 of proc(5): utime, stime, cutime, cstime. The first two fields are cut off here.
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def first_word(line: socket.socket) -> dict[str, Any]:
    """Of a helper, or about a child: both are to answer at once."""
    line.settimeout(PATIENCE_S)
    try:
        return _hear(line)
    except TimeoutError:
        raise MediaError("sandbox_failed", "the sandbox's helper process does not answer") from None


def _hear(line: socket.socket) -> dict[str, Any]:
    try:
        said = line.recv(65536)
    except ConnectionResetError:  # it hung up before it read our last word; its own last word is still here
        said = line.recv(65536)
    if not said:
        raise MediaError("sandbox_failed", "the sandbox's helper process is gone, and its children with it")
    message: dict[str, Any] = json.loads(said)
    if "failed" in message:
        raise MediaError("sandbox_failed", f"a child process could not start: {message['failed']}")
    return message
