"""A small disk for a work directory: a real one where this user may mount, else a simulated quota."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.service.worker_harness import FakeDisk


class Quota(FakeDisk):
    """As much as is free of a disk of this size, with all that lies in the work directory on it."""

    def __init__(self, size: int, root: Path) -> None:
        super().__init__()
        self._size, self._root = size, root

    def __call__(self, _: Path) -> int:
        held = 0
        for path in self._root.rglob("*"):
            try:
                held += path.stat().st_size
            except FileNotFoundError:  # its attempt has just ended
                continue
        return self._size - held


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[FakeDisk]:
    """Yield what measures the free space of `folder`, which is on a disk of `size` bytes."""
    folder.mkdir()
    mount = ["/bin/mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        yield Quota(size, folder)
        return
    try:
        yield FakeDisk()
    finally:
        subprocess.run(["/bin/umount", str(folder)], check=True)
