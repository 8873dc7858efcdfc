"""Provide a small disk for a work directory: a tmpfs if this user may mount it, else a simulated disk."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.service.worker_harness import FakeDisk


class SimulatedDisk(FakeDisk):
    """The free space of a simulated disk of `size` bytes, on which only the work directory uses space."""

    def __init__(self, size: int, root: Path) -> None:
        super().__init__()
        self._size, self._root = size, root

    def __call__(self, _: Path) -> int:
        used = 0
        for path in self._root.rglob("*"):
            try:
                used += path.stat().st_size
            except FileNotFoundError:  # the attempt ended and deleted the file
                continue
        return self._size - used


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[FakeDisk]:
    """Make `folder` on a disk of `size` bytes. Yield a function that measures the free space of this disk."""
    folder.mkdir()
    mount = ["/bin/mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        yield SimulatedDisk(size, folder)
        return
    try:
        yield FakeDisk()
    finally:
        subprocess.run(["/bin/umount", str(folder)], check=True)
