"""Disk usage of an encode: all files that it has written, including files that were not planned."""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.errors import MediaError
from euterpe.media.planning.plan import Plan

_BLOCK = 512
# The muxers make temporary files, so the folder may contain more files than the plan.
_SPARE_NAMES = 1_000


@dataclass(frozen=True)
class FolderUsage:
    sizes: dict[str, int]  # the total file length of each output
    disk_bytes: int  # the disk space of all files, including unplanned and unlinked ones

    @property
    def out_bytes(self) -> int:
        return sum(self.sizes.values())


class OutputFolder:
    """The folder that an encode writes to. Its usage can be measured while the encode runs and afterwards."""

    def __init__(self, plan: Plan, folder: Path, pid: int) -> None:
        self._folder, self._pid = folder, pid
        self._outputs = {file.path: file.output for file in plan.files}
        self._parts = {file.parts.removesuffix("*"): file.output for file in plan.files if file.parts}
        self._most_names = _SPARE_NAMES + sum(1 + file.most_parts for file in plan.files)
        self._empty = dict.fromkeys(self._outputs.values(), 0)

    def look(self) -> FolderUsage:
        """Return the current usage. Raise `output_too_large` if there are more files than the plan needs."""
        sizes, disk_bytes = dict(self._empty), self._nameless_bytes()
        for count, (name, status) in enumerate(_files_in(self._folder)):
            if count >= self._most_names:
                raise MediaError(
                    ErrorCode.OUTPUT_TOO_LARGE, f"ffmpeg made more than {self._most_names} files"
                )
            # Count allocated blocks and not the length, because a file may have holes, or reserved space
            # after its end.
            disk_bytes += status.st_blocks * _BLOCK
            if (output := self._output_of(name)) is not None:
                sizes[output] += status.st_size
        return FolderUsage(sizes, disk_bytes)

    def lengths(self) -> Iterator[tuple[str, int]]:
        """Yield the output and the length of each planned file."""
        for name, status in _files_in(self._folder):
            if (output := self._output_of(name)) is not None:
                yield output, status.st_size

    def _output_of(self, name: str) -> str | None:
        if name in self._outputs:
            return self._outputs[name]
        return next((output for prefix, output in self._parts.items() if name.startswith(prefix)), None)

    def _nameless_bytes(self) -> int:
        """Return the size of files that are unlinked but still open, and so still occupy disk space."""
        held = 0
        with suppress(OSError):  # the process has ended, or the kernel denies access
            for descriptor in os.scandir(f"/proc/{self._pid}/fd"):
                with suppress(OSError):
                    status = os.stat(descriptor.path)  # noqa: PTH116  follows the link to the open file
                    if stat.S_ISREG(status.st_mode) and status.st_nlink == 0:
                        held += status.st_blocks * _BLOCK
        return held


def _files_in(folder: Path, below: str = "") -> Iterator[tuple[str, os.stat_result]]:
    """Yield the relative name and the status of everything in the folder. Links are not followed."""
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # ffmpeg may remove the file meanwhile
                yield below + entry.name, entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    yield from _files_in(Path(entry.path), f"{below}{entry.name}/")
