"""Read and write `file://` URLs below the folders that the operator has opened to every requester.

A path is opened from its root one name at a time with openat(2): each name is opened relative to the folder
before it, and links below the root are refused. So no rename and no link can lead out of the root.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic

from euterpe.domain.credentials import Side
from euterpe.domain.error_codes import ErrorCode, RetryClass
from euterpe.net.limits import OnWait
from euterpe.net.pace import TransferPace
from euterpe.storage.errors import (
    MissingStorage,
    SideCode,
    StorageError,
    StorageUnreachable,
    disk_full,
    too_slow,
)
from euterpe.storage.file_replacement import FileReplacement, Part, identity_of, lock
from euterpe.storage.policy import ROOT_ADVICE, StoragePolicy, path_of
from euterpe.storage.publication import Owner
from euterpe.storage.transfer import CHUNK, Body, ObjectInfo, OnChunk, Outgoing, SentFile, Stored

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# Use O_NONBLOCK: a FIFO must be refused, and without this flag open(2) would wait for a writer of the FIFO.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE_UNNAMED = os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class FileReader:
    def __init__(self, policy: StoragePolicy, url: str, pace: TransferPace) -> None:
        self.where, self._pace = url, pace
        self._root, self._names = _below_a_root(policy, url, "source")

    def stat(self) -> ObjectInfo:
        with self._opened() as descriptor:
            return _info(descriptor)

    @contextmanager
    def open(self, offset: int, on_wait: OnWait) -> Iterator[Body]:
        del on_wait  # nothing can call `on_wait` during a blocking file system call
        with self._opened() as descriptor, open(descriptor, "rb", closefd=False) as file:
            begun = _info(descriptor)
            file.seek(offset)
            yield Body(begun, offset, self._chunks(file.read))
            # Without this check, a read of a file that was being overwritten returned halves of two different
            # films.
            if _info(descriptor) != begun:
                raise StorageError(
                    ErrorCode.SOURCE_CHANGED,
                    f"{self.where}: changed while it was fetched: retry the job to fetch the new version",
                    side="source",
                )

    def _chunks(self, read: Callable[[int], bytes]) -> Iterator[bytes]:
        while True:
            with _translated(self.where, "source"), _paced(self.where, "source", self._pace, CHUNK):
                chunk = read(CHUNK)
            if not chunk:
                return
            yield chunk

    @contextmanager
    def _opened(self) -> Iterator[int]:
        *folders, name = self._names
        with _folder(self.where, "source", self._root, folders) as folder, _translated(self.where, "source"):
            descriptor = os.open(name, _READ, dir_fd=folder)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise StorageError(
                    ErrorCode.SOURCE_NOT_FOUND, f"{self.where}: is not a regular file", side="source"
                )
            yield descriptor
        finally:
            os.close(descriptor)


class FileDestination:
    def __init__(
        self, policy: StoragePolicy, prefix: str, pace: TransferPace, owner: Owner | None = None
    ) -> None:
        self._policy, self._prefix, self.pace = policy, prefix, pace
        self._replacement = FileReplacement(owner)

    def send(self, name: str, file: Path, *, content_type: str, on_chunk: OnChunk) -> None:
        """Return None: an early copy is often a second copy on the same disk, and saves little time."""

    def put(
        self,
        name: str,
        file: Path,
        *,
        content_type: str,
        before_publish: Callable[[], None],
        on_chunk: OnChunk,
        sent: SentFile | None = None,
    ) -> Stored:
        del content_type, sent  # a file system stores no content type, and no file is sent early
        url = self._prefix + name
        root, (*folders, last) = _below_a_root(self._policy, url, "output")
        outgoing = Outgoing(file, on_chunk)
        with _folder(url, "output", root, folders, create=True) as folder, self._part(url, folder) as part:
            for chunk in outgoing.chunks():
                with _translated(url, "output"), _paced(url, "output", self.pace, len(chunk)):
                    _write(part.descriptor, chunk)
            with _translated(url, "output"):
                os.fsync(part.descriptor)
                self._replacement.prepare(part, outgoing.sha256)
                self._replacement.publish(part, last, url, outgoing.sha256, before_publish)
                os.fsync(folder)
            return outgoing.stored(url, identity_of(os.fstat(part.descriptor)))

    def check(self, name: str, stored: Stored) -> None:
        url = self._prefix + name
        root, (*folders, last) = _below_a_root(self._policy, url, "output")
        with _folder(url, "output", root, folders) as folder, _translated(url, "output"):
            self._replacement.check(folder, last, url, stored)

    @contextmanager
    def _part(self, where: str, folder: int) -> Iterator[Part]:
        """Yield a new file, and remove its part name at the end.

        A published file has been renamed, so the removal of the part name does not delete the published file.
        """
        name = self._replacement.part_name()
        with _translated(where, "output"):
            descriptor = _create(name, folder)
        lock(descriptor)
        try:
            yield Part(name, descriptor, folder)
        finally:
            os.close(descriptor)
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)


def _below_a_root(policy: StoragePolicy, url: str, side: Side) -> tuple[Path, tuple[str, ...]]:
    path = path_of(url)
    root = policy.root_of(path)
    if root is None:
        advice = f"{ROOT_ADVICE} on the worker"  # name the worker: the API can have other settings
        raise MissingStorage(ErrorCode.STORAGE_ROOT_MISSING, f"{url}: {advice}", side=side)
    if root == path or ".." in path.parts:
        raise StorageError(ErrorCode.FILE_OUTSIDE_ROOTS, f"{url}: {ROOT_ADVICE}", side=side)
    return root, path.relative_to(root).parts


@contextmanager
def _folder(
    where: str, side: Side, root: Path, names: Sequence[str], *, create: bool = False
) -> Iterator[int]:
    descriptor = _open_root(where, side, root)
    try:
        for name in names:
            with _translated(where, side):
                inner = _enter(descriptor, name, create=create)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def _open_root(where: str, side: Side, root: Path) -> int:
    try:
        with _translated(where, side):
            return os.open(root, _FOLDER)  # the root itself may be a link, because the operator chose it
    except StorageError as error:
        here = (SideCode.NOT_FOUND.for_side(side), SideCode.FORBIDDEN.for_side(side))
        if error.code not in (*here, ErrorCode.FILE_OUTSIDE_ROOTS):
            raise
    # The root is missing or not readable, for example because the share is not mounted on this machine.
    raise MissingStorage(
        ErrorCode.STORAGE_ROOT_MISSING, f"{where}: the worker cannot open the operator's folder", side=side
    )


def require_root(policy: StoragePolicy, url: str, side: Side) -> None:
    """Raise `MissingStorage` if the settings forbid the folder of the URL, or if its root does not exist."""
    root, _ = _below_a_root(policy, url, side)
    os.close(_open_root(url, side, root))


def _enter(folder: int, name: str, *, create: bool) -> int:
    if create:
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=folder)
    return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)


def _create(name: str, folder: int) -> int:
    """Create a file without a name (O_TMPFILE), or else with its part name.

    When a process is killed while it writes, a file without a name leaves nothing in the folder. NFS does not
    support O_TMPFILE, so on NFS the file has its part name from the beginning.
    """
    try:
        return os.open(".", _CREATE_UNNAMED, 0o666, dir_fd=folder)
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
    return os.open(name, _CREATE, 0o666, dir_fd=folder)


def _write(descriptor: int, chunk: bytes) -> None:
    rest = memoryview(chunk)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _info(descriptor: int) -> ObjectInfo:
    status = os.fstat(descriptor)
    return ObjectInfo(status.st_size, identity_of(status))


@contextmanager
def _paced(where: str, side: Side, pace: TransferPace, moved: int) -> Iterator[None]:
    """Add the time of a call to the file system to the pace, and raise if the transfer is too slow.

    The file system may be a slow server. Nothing can interrupt the call, so the pace is checked after the
    call.
    """
    began = monotonic()
    yield
    pace.add(monotonic() - began, moved)
    if pace.is_too_slow:
        raise too_slow(where, side, f"moved {pace}")


@contextmanager
def _translated(where: str, side: Side) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise os_error_as_storage_error(where, side, error) from None


def os_error_as_storage_error(where: str, side: Side, error: OSError) -> StorageError:
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT | errno.EFBIG:
            return disk_full(where, side)
        case errno.ENOENT:
            return StorageError(
                SideCode.NOT_FOUND.for_side(side), f"{where}: there is no such file", side=side
            )
        case errno.ELOOP | errno.ENOTDIR:
            problem = "its path leads through a link, or through something that is not a folder"
            return StorageError(ErrorCode.FILE_OUTSIDE_ROOTS, f"{where}: {problem}", side=side)
        case errno.EACCES | errno.EPERM | errno.EROFS:
            # Other credentials do not help, because a person must change the permissions of the file.
            code, problem = SideCode.FORBIDDEN.for_side(side), f"{where}: {error.strerror}"
            return StorageError(code, problem, side=side, retry_override=RetryClass.PERMANENT)
        case _:  # for example a failing disk, an unavailable server, or a lack of file descriptors or memory
            return StorageUnreachable(where, str(error.strerror), side=side)
