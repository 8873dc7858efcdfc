"""Disk usage of an encode: all files that it has written, including files that were not planned."""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.encoding.expected import expected_files
from euterpe.media.errors import MediaError
from euterpe.media.planning.tree import Command, Discard, File, Plan, Rendition, Still
from euterpe.runtime.disk_space import least_file_bytes

_BLOCK, _PAGE = 512, 4096
# The muxers make temporary files, so the folder can contain more files than the plan.
_SPARE_NAMES = 1_000
# The largest number of segments for a source of unknown duration: two days in segments of two seconds.
_MOST_SEGMENTS = 86_400


@dataclass(frozen=True)
class FolderUsage:
    sizes: dict[str, int]  # the total file length of each output
    disk_bytes: int  # the disk space of all files, including unplanned and unlinked files

    @property
    def out_bytes(self) -> int:
        return sum(self.sizes.values())


class OutputFolder:
    """The folder that an encode writes to. The disk usage can be measured during and after the encode."""

    def __init__(self, plan: Plan, folder: Path, pid: int) -> None:
        self._folder, self._pid = folder, pid
        self._least_file_bytes = least_file_bytes(folder)
        self._outputs = {file.path: file.output for file in expected_files(plan)}
        self._folders = {f"{package.output}/": package.output for package in plan.packages}
        planned = len(self._outputs) + sum(_most_segments(plan))
        # The folder can contain files of a command that ran during the fetch and is not in this plan.
        self._most_names = sum(1 for _ in _files_in(folder)) + planned + _SPARE_NAMES
        self._empty = dict.fromkeys((*self._outputs.values(), *self._folders.values()), 0)

    def look(self) -> FolderUsage:
        """Return the current usage. Raise `output_too_large` if there are more files than the plan needs."""
        sizes, disk_bytes = dict(self._empty), self._nameless_bytes()
        for count, (name, status) in enumerate(_files_in(self._folder)):
            if count >= self._most_names:
                raise MediaError(
                    ErrorCode.OUTPUT_TOO_LARGE, f"ffmpeg made more than {self._most_names} files"
                )
            # Count allocated blocks and not the length, because a file can have holes, or reserved space
            # after its end. A small file takes at least its share of the inodes.
            disk_bytes += max(status.st_blocks * _BLOCK, self._least_file_bytes)
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


def remove_products(command: Command, folder: Path) -> None:
    """Remove the files of a command whose output failed, to free their disk space."""
    for product in command.products:
        match product:
            case Rendition():
                path = folder / product.folder
            case File() | Still():
                path = folder / Path(product.path).parts[0]
            case Discard():
                continue
        with suppress(OSError):  # the path can be missing, or can be a link
            if path.is_dir():
                rmtree(path)
            else:
                path.unlink()


class DiskUse:
    """Count the disk usage of the folder while the worker itself writes to it, after ffmpeg has ended.

    `on_disk` receives the usage before each file is written, and may raise.
    """

    def __init__(self, folder: Path, on_disk: Callable[[int], None]) -> None:
        self._folder, self._on_disk = folder, on_disk
        self._least_file_bytes = least_file_bytes(folder)
        self._bytes = 0
        self.measure()

    def measure(self) -> None:
        """Count the files of the folder again, for example after some of them were removed."""
        sizes = (status.st_blocks * _BLOCK for _, status in _files_in(self._folder))
        self._bytes = sum(max(size, self._least_file_bytes) for size in sizes)

    def add(self, size: int) -> None:
        """Count a file of this size. Call this before the file is written."""
        self._bytes += self._occupied(size)
        self._on_disk(self._bytes)

    def remove(self, size: int) -> None:
        self._bytes -= self._occupied(size)

    def _occupied(self, size: int) -> int:
        """Return the disk space of a file in whole pages: a subtitle segment of 100 bytes takes one page."""
        return max(-(-size // _PAGE) * _PAGE, self._least_file_bytes)


def write_file(folder: Path, name: str, data: str | bytes) -> None:
    """Write a new file. Call this after ffmpeg has ended. Raise `MediaError` if the name exists.

    Without Landlock, a compromised ffmpeg could make a link of this name, and the write would overwrite the
    file that the link points to.
    """
    try:
        _write(folder, name, data.encode() if isinstance(data, str) else data)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR, errno.EEXIST):
            raise  # for example, the disk is full
        raise MediaError(ErrorCode.OUTPUT_UNDECODABLE, f"{folder.name}/{name} exists already") from None


def _write(folder: Path, name: str, data: bytes) -> None:
    parent = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, 0o644, dir_fd=parent), "wb") as file:
            file.write(data)
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
            with suppress(FileNotFoundError):  # ffmpeg can remove the file during the scan
                yield below + entry.name, entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    yield from _files_in(Path(entry.path), f"{below}{entry.name}/")
