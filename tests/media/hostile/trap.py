"""A file and a host outside the folder of a job, which report each access."""

import ctypes
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

CANARY = b"CANARY-51c0"
_IN_ACCESS, _IN_MODIFY, _IN_OPEN = 0x1, 0x2, 0x20


@dataclass(frozen=True)
class Trap:
    path: Path
    url: str
    _watch: int
    _listener: socket.socket

    def sprung_by(self) -> list[str]:
        """Return a sentence for each target (file, host) that was accessed since the last call."""
        found = []
        with suppress(BlockingIOError):
            os.read(self._watch, 4096)
            found.append("the file outside was opened")
        with suppress(BlockingIOError):
            self._listener.accept()[0].close()
            found.append("the host outside was reached")
        return found


@contextmanager
def trap(folder: Path) -> Iterator[Trap]:
    """Yield a trap whose file is in `folder`. inotify reports each process that opens the file."""
    path = folder / "outside.ts"  # a playlist can refer only to files with the extension of a media format
    path.write_bytes(CANARY)
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if watch < 0 or libc.inotify_add_watch(watch, bytes(path), _IN_OPEN | _IN_ACCESS | _IN_MODIFY) < 0:
        raise OSError(ctypes.get_errno(), "inotify")
    try:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            yield Trap(path, f"http://127.0.0.1:{listener.getsockname()[1]}/a.mp4", watch, listener)
    finally:
        os.close(watch)
