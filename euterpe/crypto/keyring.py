"""Key providers: a ring of KEKs that wrap data keys. One KEK is active."""

import os
from collections.abc import Callable
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from euterpe.crypto.errors import CannotDecrypt, UnknownKek
from euterpe.crypto.keyfile import KeySet

_NONCE, _WRAPPED = 12, 12 + 32 + 16


class KeyRing(Protocol):
    """The key provider that the envelope needs; a KMS can implement it.

    `wrap` takes the KEK's id because the AAD already names that KEK: if the active key changes in between,
    the ring must still wrap with the named KEK.
    """

    @property
    def active_id(self) -> str: ...

    def wrap(self, kek_id: str, dek: bytes, aad: bytes) -> bytes: ...

    def unwrap(self, kek_id: str, wrapped: bytes, aad: bytes) -> bytes:
        """Raise `UnknownKek`, or `CannotDecrypt` for bytes that this KEK did not wrap with this AAD."""
        ...


class LocalKeyRing:
    """KEKs in the memory of this process. Inactive KEKs still unwrap the DEKs that they wrapped.

    Nonces are random, which is safe for 2^32 wraps by one KEK (NIST SP 800-38D, 8.3).
    """

    def __init__(self, keys: KeySet, *, random: Callable[[int], bytes] = os.urandom) -> None:
        self._active_id = keys.active
        self._ciphers = {kek_id: AESGCM(key) for kek_id, key in keys.keys.items()}
        self._random = random

    def __repr__(self) -> str:
        return f"LocalKeyRing(active_id={self.active_id!r}, kek_ids={self.kek_ids!r})"

    @property
    def active_id(self) -> str:
        return self._active_id

    @property
    def kek_ids(self) -> tuple[str, ...]:
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
