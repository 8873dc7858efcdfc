"""Disk usage of an encode: all files that it has written, including files that were not planned."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.encoding.expected import expected_files
from euterpe.media.errors import MediaError
from euterpe.media.planning.tree import Plan, Rendition

_BLOCK = 512
# The muxers make temporary files, so the folder may contain more files than the plan.
_SPARE_NAMES = 1_000
# The most segments of a source of unknown duration: two days in segments of two seconds.
_MOST_SEGMENTS = 86_400


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
        self._outputs = {file.path: file.output for file in expected_files(plan)}
        self._folders = {f"{package.output}/": package.output for package in plan.packages}
        self._most_names = _SPARE_NAMES + len(self._outputs) + sum(_most_segments(plan))
        self._empty = dict.fromkeys((*self._outputs.values(), *self._folders.values()), 0)

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
        return next((output for folder, output in self._folders.items() if name.startswith(folder)), None)

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


def write_file(folder: Path, name: str, text: str) -> None:
    """Write a new file after ffmpeg has ended. Raise `MediaError` if ffmpeg has made anything of this name.

    Without Landlock, a compromised ffmpeg could make links to other files, which would be overwritten.
    """
    try:
        _write(folder, name, text)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR, errno.EEXIST):
            raise  # the disk is full, for example
        raise MediaError(ErrorCode.OUTPUT_UNDECODABLE, f"{folder.name}/{name} is not ours to write") from None


def _write(folder: Path, name: str, text: str) -> None:
    parent = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, 0o644, dir_fd=parent), "w", encoding="utf-8", newline="") as file:
            file.write(text)
    finally:
        os.close(parent)


def most_segments(seconds: float | None, segment_seconds: int) -> int:
    """Return an upper bound on the number of segments of a rendition of a valid source."""
    return 100 + (_MOST_SEGMENTS if seconds is None else int(2 * seconds / segment_seconds))


def _most_segments(plan: Plan) -> Iterator[int]:
    for command in plan.commands:
        for product in command.products:
            if isinstance(product, Rendition):
                yield most_segments(command.seconds, product.segment_seconds)


def _files_in(folder: Path, below: str = "") -> Iterator[tuple[str, os.stat_result]]:
    """Yield the relative name and the status of everything in the folder. Links are not followed."""
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # ffmpeg may remove the file meanwhile
                yield below + entry.name, entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    yield from _files_in(Path(entry.path), f"{below}{entry.name}/")
