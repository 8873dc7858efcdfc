"""A key ring that reloads its file when the file changes, so that a rotation reaches running programs."""

import logging
import os
import threading
from pathlib import Path

from euterpe.crypto import keyfile
from euterpe.crypto.errors import KeyRingError
from euterpe.crypto.keyring import LocalKeyRing

# Not structlog: a command that has not configured structlog would print these events in its output.
_log = logging.getLogger(__name__)
_Stamp = tuple[int, int, int]


class FileKeyRing:
    """The key ring of EUTERPE_KEK_FILE, checked for changes before each seal and when a KEK is unknown.
    Thread-safe. While the file cannot be read, the previous ring stays in use.

    A check costs 3 µs. With fewer checks, a secret could be sealed under a key that was retired meanwhile.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._stamp = path, _stamp(path)
        self._ring = LocalKeyRing(keyfile.read(path))
        self._last_error = ""  # so that each problem of the file is logged once
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
            # The stamp is taken before the file is read, so the next check sees a write in between.
            stamp = _stamp(self._path)
            if stamp != self._stamp:
                self._read(stamp)
            return self._ring

    def _read(self, stamp: _Stamp | None) -> None:
        """Reload the file. If that fails, keep the old stamp, so that the next check tries again: some causes
        (the file's mode, our own lack of file descriptors) end without a change of the stamp."""
        try:
            self._ring = LocalKeyRing(keyfile.read(self._path))
        except KeyRingError as error:
            if str(error) != self._last_error:
                self._last_error = str(error)
                _log.warning("key_ring_not_read", extra={"error": self._last_error})
            return
        self._stamp, self._last_error = stamp, ""
        read = {"active": self._ring.active_id, "keks": list(self._ring.kek_ids)}
        _log.info("key_ring_read", extra=read)


def _stamp(path: Path) -> _Stamp | None:
    """Return values that change when the file changes, or None if the file cannot be found."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
