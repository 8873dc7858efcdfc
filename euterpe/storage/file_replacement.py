"""Replace a file by an atomic rename without a lock, so that a stopped worker blocks no other worker.

The worker first links the new file under a name that contains the claim (`.euterpe-JOB-CLAIM-….part`), then
checks the fence, and then renames the file. Before a later claim of the same job publishes, it removes the
part files of earlier claims. So a worker that was stopped after its fence check finds no file to rename,
however late it continues. A lock could not prevent a late rename, because the holder of a lock may be stopped
between any two steps, and breaking the lock does not stop the holder.
"""

import errno
import fcntl
import os
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from secrets import token_hex
from typing import NamedTuple

from euterpe.storage.errors import StorageUnreachable
from euterpe.storage.publication import ObjectState, Owner, conflict, is_same
from euterpe.storage.transfer import Stored

_PART = re.compile(r"\.euterpe-(?P<job>[0-9A-Za-z-]{1,64})-(?P<claim>[0-9]{1,18})-[0-9a-f]{16}\.part")
_PUBLISHER = "user.euterpe.published"  # the extended attribute with the job's id and the SHA-256
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PUBLISH_TRIES = 3
# Errors of os.link() on file systems without hard links.
_NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class Part(NamedTuple):
    """The new file, still open, with its part name and its folder."""

    name: str
    descriptor: int
    folder: int


def identity_of(status: os.stat_result) -> str:
    """Return a value that changes whenever a file is replaced or written."""
    return f"{status.st_ino}-{status.st_mtime_ns}-{status.st_size}"


def lock(descriptor: int) -> None:
    """Lock a new file until it is closed. The lock shows others that the file's writer is still running."""
    with suppress(OSError):  # the file system has no locks, so `_is_abandoned` is never true
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


class FileReplacement:
    """A publisher of the files of one attempt, which checks the fence of the claim before each rename.

    Thread-safe.
    """

    def __init__(self, owner: Owner | None) -> None:
        self._owner = owner
        self._cleared: set[tuple[int, int]] = set()  # device and inode of each cleared folder
        self._clearing = threading.Lock()  # while a thread clears a folder, publications wait for this lock

    def part_name(self) -> str:
        job, claim = (self._owner.job_id, self._owner.claim_version) if self._owner else ("none", 0)
        return f".euterpe-{job}-{claim}-{token_hex(8)}.part"

    def prepare(self, part: Part, sha256: str) -> None:
        """Link the new file under its part name, and remove the part files of the job's earlier claims."""
        if self._owner is not None:
            with suppress(OSError):
                os.setxattr(part.descriptor, _PUBLISHER, f"{self._owner.job_id} {sha256}".encode())
        with suppress(FileExistsError):  # without O_TMPFILE, the file already has this name
            source = f"/proc/self/fd/{part.descriptor}"
            os.link(source, part.name, dst_dir_fd=part.folder, follow_symlinks=True)
        self._clear(part)

    def publish(
        self, part: Part, name: str, where: str, sha256: str, before_publish: Callable[[], None]
    ) -> None:
        """Check the fence and rename the new file.

        Raise `output_conflict` if other writers change `name` during each try.
        """
        for _ in range(_PUBLISH_TRIES):
            found = self._read_state(part.folder, name, part)
            if self._owner is not None:
                self._owner.refuse_foreign(where, found, sha256)
            before_publish()
            try:
                if self._replace(part, name, found):
                    return
            except FileNotFoundError:
                before_publish()  # raises if a later claim has removed the file
                raise StorageUnreachable(
                    where, "the new file was removed before it was renamed", side="output"
                ) from None
        raise conflict(where)

    def check(self, folder: int, name: str, where: str, stored: Stored) -> None:
        """Raise when `name` is no longer the file that was published."""
        found = self._read_state(folder, name)
        if not is_same(found, stored):
            raise (self._owner or Owner("", 0)).differs(where, found)

    def _replace(self, part: Part, name: str, found: ObjectState | None) -> bool:
        """Rename the new file to `name`. Return False if the state of `name` is no longer `found`."""
        if found is None:
            try:
                # A link never replaces a file. So if two writers find no file, only one of them publishes.
                os.link(part.name, name, src_dir_fd=part.folder, dst_dir_fd=part.folder)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno not in _NO_HARD_LINKS:
                    raise
            else:
                return True
        now = self._read_state(part.folder, name)
        if (now and now.identity) != (found and found.identity):
            return False
        os.rename(part.name, name, src_dir_fd=part.folder, dst_dir_fd=part.folder)
        return True

    def _read_state(self, folder: int, name: str, part: Part | None = None) -> ObjectState | None:
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        # The age is the time from the last change of `name` to the creation of the new file. Both times come
        # from the clock of the file system.
        age = os.fstat(part.descriptor).st_ctime - status.st_ctime if part else None
        job_id, _, sha256 = _read_publisher(folder, name).partition(" ")
        return ObjectState(identity_of(status), status.st_size, job_id or None, age, sha256 or None)

    def _clear(self, part: Part) -> None:
        """Remove the part files of this job's earlier claims, and all part files whose writer has ended."""
        status = os.fstat(part.folder)
        with self._clearing:
            if (key := (status.st_dev, status.st_ino)) not in self._cleared:
                self._remove_parts(part)
                self._cleared.add(key)

    def _remove_parts(self, part: Part) -> None:
        for name in os.listdir(part.folder):  # noqa: PTH208  the folder is a descriptor
            match = _PART.fullmatch(name)
            if match is None or name == part.name or self._is_own(match):
                continue
            if self._is_earlier(match) or _is_abandoned(part.folder, name):
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=part.folder)

    def _is_own(self, match: re.Match[str]) -> bool:
        # Another thread of the attempt may have created the file, but not locked it yet.
        owner = self._owner
        return (
            owner is not None and match["job"] == owner.job_id and int(match["claim"]) == owner.claim_version
        )

    def _is_earlier(self, match: re.Match[str]) -> bool:
        owner = self._owner
        return (
            owner is not None and match["job"] == owner.job_id and int(match["claim"]) < owner.claim_version
        )


def _is_abandoned(folder: int, name: str) -> bool:
    try:
        descriptor = os.open(name, _READ, dir_fd=folder)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(descriptor)


def _read_publisher(folder: int, name: str) -> str:
    """Return the job id and SHA-256 from the file's extended attribute, or an empty string."""
    try:
        descriptor = os.open(name, _READ, dir_fd=folder)
    except OSError:
        return ""
    try:
        return os.getxattr(descriptor, _PUBLISHER).decode("ascii", "replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)
