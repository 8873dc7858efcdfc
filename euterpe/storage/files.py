"""`file://`: folders that the operator opened to every requester, and nothing beside them.

A path is walked from its root one name at a time, each opened relative to the one before and none of them
a link: whatever is renamed or linked in between, the walk does not leave the root.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

from euterpe.domain.credentials import Side
from euterpe.storage.errors import StorageError, Unreachable, disk_full
from euterpe.storage.policy import ROOT_ADVICE, StoragePolicy, path_of
from euterpe.storage.transfer import CHUNK, Body, ObjectInfo, OnChunk, Outgoing, Stored

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# NONBLOCK: a FIFO must be refused, not waited for.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE_UNNAMED = os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class _Part(NamedTuple):
    name: str
    descriptor: int


class FileReader:
    def __init__(self, policy: StoragePolicy, url: str) -> None:
        self.where = url
        self._root, self._names = _below_a_root(policy, url, "source")

    def stat(self) -> ObjectInfo:
        with self._opened() as descriptor:
            return _info(descriptor)

    @contextmanager
    def open(self, offset: int) -> Iterator[Body]:
        with self._opened() as descriptor, open(descriptor, "rb", closefd=False) as file:
            file.seek(offset)
            yield Body(_info(descriptor), offset, self._chunks(file.read))

    def _chunks(self, read: Callable[[int], bytes]) -> Iterator[bytes]:
        while True:
            with _told(self.where, "source"):
                chunk = read(CHUNK)
            if not chunk:
                return
            yield chunk

    @contextmanager
    def _opened(self) -> Iterator[int]:
        *folders, name = self._names
        with _folder(self.where, "source", self._root, folders) as folder, _told(self.where, "source"):
            descriptor = os.open(name, _READ, dir_fd=folder)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise StorageError("source_not_found", f"{self.where}: is not a regular file", side="source")
            yield descriptor
        finally:
            os.close(descriptor)


class FileDestination:
    def __init__(self, policy: StoragePolicy, prefix: str) -> None:
        self._policy, self._prefix = policy, prefix

    def put(
        self,
        name: str,
        file: Path,
        *,
        content_type: str,
        before_publish: Callable[[], None],
        on_chunk: OnChunk,
    ) -> Stored:
        del content_type  # a folder keeps none
        url = self._prefix + name
        root, (*folders, last) = _below_a_root(self._policy, url, "output")
        outgoing = Outgoing(file, on_chunk)
        with _folder(url, "output", root, folders, create=True) as folder, _temporary(url, folder) as part:
            for chunk in outgoing.chunks():
                with _told(url, "output"):
                    _write(part.descriptor, chunk)
            with _told(url, "output"):
                os.fsync(part.descriptor)
            before_publish()
            with _told(url, "output"):
                _name(part, folder)
                os.rename(part.name, last, src_dir_fd=folder, dst_dir_fd=folder)
                os.fsync(folder)
        return outgoing.stored(url)


def _below_a_root(policy: StoragePolicy, url: str, side: Side) -> tuple[Path, tuple[str, ...]]:
    path = path_of(url)
    root = policy.root_of(path)
    if root is None or root == path or ".." in path.parts:
        raise StorageError("file_outside_roots", f"{url}: {ROOT_ADVICE}", side=side)
    return root, path.relative_to(root).parts


@contextmanager
def _folder(
    where: str, side: Side, root: Path, names: Sequence[str], *, create: bool = False
) -> Iterator[int]:
    with _told(where, side):
        descriptor = os.open(root, _FOLDER)  # the operator may well have named a link
    try:
        for name in names:
            with _told(where, side):
                inner = _enter(descriptor, name, create=create)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def _enter(folder: int, name: str, *, create: bool) -> int:
    if create:
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=folder)
    return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)


@contextmanager
def _temporary(where: str, folder: int) -> Iterator[_Part]:
    """A file that is gone at the end, unless it was given another name."""
    name = f".{token_hex(8)}.part"
    with _told(where, "output"):
        descriptor = _create(name, folder)
    try:
        yield _Part(name, descriptor)
    finally:
        os.close(descriptor)
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)


def _create(name: str, folder: int) -> int:
    """Without its name at first, so that a process that is killed leaves nothing in the folder. On NFS, where
    each file has a name, a killed one's stays: locks need not tell there whether it is being written."""
    try:
        return os.open(".", _CREATE_UNNAMED, 0o666, dir_fd=folder)
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
    return os.open(name, _CREATE, 0o666, dir_fd=folder)


def _name(part: _Part, folder: int) -> None:
    """For the moment until it is renamed: a link replaces nothing."""
    with suppress(FileExistsError):  # where it had its name from the start
        os.link(f"/proc/self/fd/{part.descriptor}", part.name, dst_dir_fd=folder, follow_symlinks=True)


def _write(descriptor: int, chunk: bytes) -> None:
    rest = memoryview(chunk)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _info(descriptor: int) -> ObjectInfo:
    status = os.fstat(descriptor)
    return ObjectInfo(status.st_size, f"{status.st_ino}-{status.st_mtime_ns}-{status.st_size}")


@contextmanager
def _told(where: str, side: Side) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise explained(where, side, error) from None


def explained(where: str, side: Side, error: OSError) -> StorageError:
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT | errno.EFBIG:
            return disk_full(where, side)
        case errno.ENOENT:
            return StorageError(f"{side}_not_found", f"{where}: there is no such file", side=side)
        case errno.ELOOP | errno.ENOTDIR:
            problem = "its path leads through a link, or through what is no folder"
            return StorageError("file_outside_roots", f"{where}: {problem}", side=side)
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return StorageError(f"{side}_forbidden", f"{where}: {error.strerror}", side=side)
        case _:  # a failing disk, a server that is away, a machine that is out of files or memory
            return Unreachable(where, str(error.strerror), side=side)
