"""How a file takes the place of another without a lock, so that a stopped worker blocks nobody.

The new file gets a name of its claim first (`.euterpe-JOB-CLAIM-….part`), then the fence is checked, then it
is renamed. A later claim of the same job removes such names of earlier claims before it publishes: the rename
of a worker that was stopped after its fence check then finds nothing to rename, however late it comes. A lock
could not do that: its holder may be stopped between any two steps, and who breaks the lock does not stop it.
"""

import errno
import fcntl
import os
import re
from collections.abc import Callable
from contextlib import suppress
from secrets import token_hex
from typing import NamedTuple

from euterpe.storage.errors import StorageUnreachable
from euterpe.storage.publication import ObjectState, Owner, conflict, is_same
from euterpe.storage.transfer import Stored

_PART = re.compile(r"\.euterpe-(?P<job>[0-9A-Za-z-]{1,64})-(?P<claim>[0-9]{1,18})-[0-9a-f]{16}\.part")
_JOB = "user.euterpe.published"  # the job's id and the SHA-256
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PUBLISH_TRIES = 3
# File systems that know no second name for a file, or no extended attributes.
_LACKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class Part(NamedTuple):
    """The new file, open, and the folder that it will be in."""

    name: str
    descriptor: int
    folder: int


def identity_of(status: os.stat_result) -> str:
    return f"{status.st_ino}-{status.st_mtime_ns}-{status.st_size}"


def lock(descriptor: int) -> None:
    """Hold a new file's lock until it is closed: whoever finds it unlocked knows that its writer is gone."""
    with suppress(OSError):  # a file system without locks: then nobody finds it unlocked
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


class FileReplacement:
    """Publish the files of one attempt."""

    def __init__(self, owner: Owner | None) -> None:
        self._owner = owner
        self._cleared: set[tuple[int, int]] = set()  # folders, by device and inode

    def part_name(self) -> str:
        job, claim = (self._owner.job_id, self._owner.claim_version) if self._owner else ("none", 0)
        return f".euterpe-{job}-{claim}-{token_hex(8)}.part"

    def prepare(self, part: Part, sha256: str) -> None:
        """Name the new file, and disarm earlier claims of this job."""
        if self._owner is not None:
            with suppress(OSError):
                os.setxattr(part.descriptor, _JOB, f"{self._owner.job_id} {sha256}".encode())
        with suppress(FileExistsError):  # where it had its name from the start
            source = f"/proc/self/fd/{part.descriptor}"
            os.link(source, part.name, dst_dir_fd=part.folder, follow_symlinks=True)
        self._clear(part)

    def publish(
        self, part: Part, name: str, where: str, sha256: str, before_publish: Callable[[], None]
    ) -> None:
        """Check the fence and rename the new file; look before and after, as others may publish as well."""
        for _ in range(_PUBLISH_TRIES):
            found = self._look(part.folder, name, part)
            if self._owner is not None:
                self._owner.refuse_foreign(where, found, sha256)
            before_publish()
            try:
                if self._take(part, name, found):
                    return
            except FileNotFoundError:
                before_publish()  # raises: a later claim has removed our file
                raise StorageUnreachable(
                    where, "the new file was removed before it was renamed", side="output"
                ) from None
        raise conflict(where)

    def check(self, folder: int, name: str, where: str, stored: Stored) -> None:
        """Raise when `name` is not any more what was published."""
        found = self._look(folder, name)
        if not is_same(found, stored):
            raise (self._owner or Owner("", 0)).differs(where, found)

    def _take(self, part: Part, name: str, found: ObjectState | None) -> bool:
        """Return False when what is there is not, or not any more, what we found."""
        if found is None:
            try:
                # A link replaces nothing: of two that find no file only one publishes.
                os.link(part.name, name, src_dir_fd=part.folder, dst_dir_fd=part.folder)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno not in _LACKS:
                    raise
            else:
                return True
        now = self._look(part.folder, name)
        if (now and now.identity) != (found and found.identity):
            return False
        os.rename(part.name, name, src_dir_fd=part.folder, dst_dir_fd=part.folder)
        return True

    def _look(self, folder: int, name: str, part: Part | None = None) -> ObjectState | None:
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        # By the clock of the file system, which has just written our own file.
        age = os.fstat(part.descriptor).st_ctime - status.st_ctime if part else None
        job_id, _, sha256 = _note_of(folder, name).partition(" ")
        return ObjectState(identity_of(status), status.st_size, job_id or None, age, sha256 or None)

    def _clear(self, part: Part) -> None:
        """Remove what earlier claims of this job left under names of theirs, and what dead writers left."""
        status = os.fstat(part.folder)
        if (key := (status.st_dev, status.st_ino)) in self._cleared:
            return
        self._cleared.add(key)
        for name in os.listdir(part.folder):  # noqa: PTH208  by its descriptor
            match = _PART.fullmatch(name)
            if match is None or name == part.name:
                continue
            if self._is_earlier(match) or _is_abandoned(part.folder, name):
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=part.folder)

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


def _note_of(folder: int, name: str) -> str:
    try:
        descriptor = os.open(name, _READ, dir_fd=folder)
    except OSError:
        return ""
    try:
        return os.getxattr(descriptor, _JOB).decode("ascii", "replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)
