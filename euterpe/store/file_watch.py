"""Told when files are written to: Linux' inotify, which Python has no module for."""

import contextlib
import ctypes
import os
from collections.abc import Iterable
from pathlib import Path

_IN_MODIFY = 0x00000002


class FileWatch:
    """`descriptor` can be read when one of them was written to, by any process of this machine. It is None
    where there is no inotify, or no more of it: a user may have 128."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self.descriptor = _inotify(paths)

    def was_written(self) -> bool:
        """Since the last call."""
        with contextlib.suppress(BlockingIOError):
            return self.descriptor is not None and len(os.read(self.descriptor, 65_536)) > 0
        return False

    def close(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)


def _inotify(paths: Iterable[Path]) -> int | None:
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "inotify_init1"):
        return None
    descriptor: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if descriptor < 0:
        return None
    watched = [libc.inotify_add_watch(descriptor, os.fsencode(path), _IN_MODIFY) >= 0 for path in paths]
    if any(watched):
        return descriptor
    os.close(descriptor)
    return None
