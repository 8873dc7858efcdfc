"""Told when files are written to: Linux' inotify, which Python has no module for."""

import ctypes
import os
from collections.abc import Iterable
from io import FileIO
from pathlib import Path

_IN_MODIFY = 0x00000002


class FileWatch:
    """`sources` can be read when one of them was written to, by any process of this machine. There is none
    where one cannot be watched: without inotify, or without more of it, for a user may have 128."""

    def __init__(self, paths: Iterable[Path]) -> None:
        descriptor = _inotify(paths)
        self._file = None if descriptor is None else FileIO(descriptor)
        self.sources: tuple[int, ...] = () if descriptor is None else (descriptor,)

    def was_written(self) -> bool:
        """Since the last call."""
        return self._file is not None and bool(self._file.read(65_536))

    def close(self) -> None:
        self.sources = ()
        if self._file is not None:
            self._file.close()


def _inotify(paths: Iterable[Path]) -> int | None:
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "inotify_init1"):
        return None
    descriptor: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if descriptor < 0:
        return None
    watched = [libc.inotify_add_watch(descriptor, os.fsencode(path), _IN_MODIFY) >= 0 for path in paths]
    if all(watched):
        return descriptor
    os.close(descriptor)
    return None
