"""Key rings in this process: a fixed one, and one that reloads its file when the file changes."""

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from euterpe.crypto import keyfile
from euterpe.crypto.errors import CannotDecrypt, KeyRingError, UnknownKek
from euterpe.crypto.keyfile import KeySet

# structlog is not used, because a command that has not configured structlog would print these events in its
# output.
_log = logging.getLogger(__name__)
_NONCE, _WRAPPED = 12, 12 + 32 + 16
_Stamp = tuple[int, int, int]


class LocalKeyRing:
    """KEKs in the memory of this process. An inactive KEK can still unwrap the DEKs that it has wrapped.

    Random nonces are safe for up to 2^32 wraps by one KEK (NIST SP 800-38D, 8.3).
    """

    def __init__(self, keys: KeySet, *, random: Callable[[int], bytes] = os.urandom) -> None:
        self._active_id = keys.active
        self._ciphers = {kek_id: AESGCM(key) for kek_id, key in keys.keys.items()}
        self._random = random

    def __repr__(self) -> str:
        return f"LocalKeyRing(active_id={self.active_id!r}, ids={self.ids!r})"

    @property
    def active_id(self) -> str:
        return self._active_id

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(self._ciphers)

    def wrap(self, kek_id: str, dek: bytes, aad: bytes) -> bytes:
        nonce = self._random(_NONCE)
        return nonce + self._cipher(kek_id).encrypt(nonce, dek, aad)

    def unwrap(self, kek_id: str, wrapped: bytes, aad: bytes) -> bytes:
        cipher = self._cipher(kek_id)
        if len(wrapped) != _WRAPPED:
            raise CannotDecrypt
        try:
            return cipher.decrypt(wrapped[:_NONCE], wrapped[_NONCE:], aad)
        except InvalidTag:
            raise CannotDecrypt from None

    def _cipher(self, kek_id: str) -> AESGCM:
        if kek_id not in self._ciphers:
            raise UnknownKek(kek_id)
        return self._ciphers[kek_id]


def load_value(value: str) -> LocalKeyRing:
    """Return the ring of EUTERPE_KEKS, an environment variable with the JSON of a key ring file."""
    return LocalKeyRing(KeySet.parse(value, where="EUTERPE_KEKS"))


class FileKeyRing:
    """The key ring of EUTERPE_KEK_FILE. Thread-safe.

    Before each seal, and when a KEK is unknown, the ring checks whether the file has changed, and reloads a
    changed file. If the file cannot be read, the previous ring stays in use.

    A check takes 3 µs. With fewer checks, a secret could be sealed under a key that is no longer active.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._stamp = path, _stamp(path)
        self._ring = LocalKeyRing(keyfile.read(path))
        self._last_error = ""  # the last logged error, so that each problem of the file is logged only once
        self._reading = threading.Lock()

    @property
    def active_id(self) -> str:
        return self._current().active_id

    @property
    def ids(self) -> tuple[str, ...]:
        return self._current().ids

    def wrap(self, kek_id: str, dek: bytes, aad: bytes) -> bytes:
        return self._with(kek_id).wrap(kek_id, dek, aad)

    def unwrap(self, kek_id: str, wrapped: bytes, aad: bytes) -> bytes:
        return self._with(kek_id).unwrap(kek_id, wrapped, aad)

    def _with(self, kek_id: str) -> LocalKeyRing:
        ring = self._ring
        return ring if kek_id in ring.ids else self._current()

    def _current(self) -> LocalKeyRing:
        with self._reading:
            # Take the stamp before reading the file. If the file changes between these two steps, the next
            # check detects the change.
            stamp = _stamp(self._path)
            if stamp != self._stamp:
                self._read(stamp)
            return self._ring

    def _read(self, stamp: _Stamp | None) -> None:
        """Reload the file.

        If the file cannot be read, keep the old stamp, so that the next check tries again. Some causes of a
        failed read can end without a change of the stamp: a wrong mode of the file, or a lack of file
        descriptors in this process.
        """
        try:
            self._ring = LocalKeyRing(keyfile.read(self._path))
        except KeyRingError as error:
            if str(error) != self._last_error:
                self._last_error = str(error)
                _log.warning("key_ring_not_read", extra={"error": self._last_error})
            return
        self._stamp, self._last_error = stamp, ""
        read = {"active": self._ring.active_id, "keks": list(self._ring.ids)}
        _log.info("key_ring_read", extra=read)


def _stamp(path: Path) -> _Stamp | None:
    """Return values that change when the file changes, or None if the file cannot be found."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
