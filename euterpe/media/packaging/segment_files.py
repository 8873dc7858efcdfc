"""Open and replace the files of a rendition without following links.

This module runs in sandboxed children only. The encoder could write to the folder and may have been
compromised, so any name can be a link or a special file.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

from euterpe.media.packaging.boxes import damaged

_PIECE_BYTES = 1 << 20


@contextmanager
def opened(name: str) -> Iterator[tuple[int, int]]:
    """Yield a descriptor of a regular file, and its size. Raise `MediaError` for a link or a special file."""
    try:
        # Without O_NONBLOCK, opening a FIFO would wait for its writer.
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise damaged(f"it cannot be opened ({error.strerror})") from None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise damaged("it is not a regular file")
        yield fd, status.st_size
    finally:
        os.close(fd)


@contextmanager
def replaced(name: str) -> Iterator[int]:
    """Yield a descriptor of a new file, which replaces the file `name` when the block ends.

    Do not write to the old file, because it could be a hard link to another job's file.
    """
    new = f".{token_hex(16)}"
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        yield fd
    finally:
        os.close(fd)
    Path(new).rename(name)


def read_range(fd: int, start: int, end: int, most: int) -> bytes:
    """Return the bytes between two positions. Raise `MediaError` if there are more than `most`."""
    if end - start > most:
        raise damaged(f"a box has more than {most} bytes")
    data = os.pread(fd, end - start, start)
    if len(data) < end - start:
        raise damaged("it became shorter while it was read")
    return data


def write_all(fd: int, data: bytes) -> None:
    unwritten = memoryview(data)
    while unwritten:
        unwritten = unwritten[os.write(fd, unwritten) :]


def copy_range(source: int, target: int, start: int, end: int) -> None:
    for at in range(start, end, _PIECE_BYTES):
        write_all(target, read_range(source, at, min(at + _PIECE_BYTES, end), _PIECE_BYTES))
