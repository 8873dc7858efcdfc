"""The key ring of a file, as the file is now: a rotation reaches programs that run."""

import logging
import os
import threading
from pathlib import Path

from euterpe.crypto import keyfile
from euterpe.crypto.errors import KeyRingError
from euterpe.crypto.keyring import LocalKeyRing

# Not structlog: a command that has not set it up would print this among its own output.
_log = logging.getLogger(__name__)
_Stamp = tuple[int, int, int]


class FileKeyRing:
    """The ring of EUTERPE_KEK_FILE. Before a secret is sealed, and when a KEK is not known, it looks whether
    the file has changed. A file that cannot be read replaces nothing: the ring of before stays in use.

    To look costs 3 µs. To look less often would be to seal under a key that has been retired meanwhile.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._stamp = path, _stamp(path)
        self._ring = LocalKeyRing(keyfile.read(path))
        self._told = ""  # the last complaint about the file
        self._reading = threading.Lock()

    @property
    def active_id(self) -> str:
        return self._current().active_id

    @property
    def kek_ids(self) -> tuple[str, ...]:
        return self._current().kek_ids

    def wrap(self, kek_id: str, dek: bytes, aad: bytes) -> bytes:
        return self._with(kek_id).wrap(kek_id, dek, aad)

    def unwrap(self, kek_id: str, wrapped: bytes, aad: bytes) -> bytes:
        return self._with(kek_id).unwrap(kek_id, wrapped, aad)

    def _with(self, kek_id: str) -> LocalKeyRing:
        ring = self._ring
        return ring if kek_id in ring.kek_ids else self._current()

    def _current(self) -> LocalKeyRing:
        with self._reading:
            # Before the file is read: what is written in between is seen at the next look.
            stamp = _stamp(self._path)
            if stamp != self._stamp:
                self._read(stamp)
            return self._ring

    def _read(self, stamp: _Stamp | None) -> None:
        """The stamp of a file that could not be read is not kept: what was wrong may be mended without a
        change of it, like its mode, or our own lack of file descriptors."""
        try:
            self._ring = LocalKeyRing(keyfile.read(self._path))
        except KeyRingError as error:
            if str(error) != self._told:
                self._told = str(error)
                _log.warning("key_ring_not_read", extra={"error": self._told})
            return
        self._stamp, self._told = stamp, ""
        read = {"active": self._ring.active_id, "keks": list(self._ring.kek_ids)}
        _log.info("key_ring_read", extra=read)


def _stamp(path: Path) -> _Stamp | None:
    """What differs when the file does. None when there is none to be seen."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
