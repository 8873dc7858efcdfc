"""Key providers: they hold the key-encryption keys (KEKs), and wrap data keys (DEKs) with them.

With `local_key_ring.py` the KEKs are in this process. With `vault_key_provider.py` they stay in Vault.
"""

import os
from collections.abc import Callable
from typing import Protocol

from euterpe.crypto.errors import CannotDecrypt, UnboundKeys, UnknownKek

_DEK_BYTES = 32


class KeyProvider(Protocol):
    """A provider of KEKs. Thread-safe. `tests/crypto/test_key_provider.py` tests its rules.

    Every method and property may wait for the network, so do not use a provider on an event loop or inside a
    database transaction. Every method and property may raise `KeyProviderUnavailable`. After this error, the
    same call may succeed later.
    """

    @property
    def active_id(self) -> str:
        """Return the id of the KEK that wraps new DEKs."""
        ...

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the ids of all KEKs that can unwrap a DEK, including the active KEK."""
        ...

    def wrap(self, kek_id: str, dek: bytes, aad: bytes) -> bytes:
        """Return the DEK encrypted under this KEK, bound to `aad`. Raise `UnknownKek`.

        The caller names the KEK, because `aad` contains the id of this KEK. The provider must use this KEK
        even if another KEK has become active before the call.
        """
        ...

    def unwrap(self, kek_id: str, wrapped: bytes, aad: bytes) -> bytes:
        """Return the DEK. Raise `UnknownKek`, or `CannotDecrypt` if `wrap` did not make these bytes."""
        ...


class JoinedKeyProviders:
    """Combine several providers into one, for a move from one provider to another.

    The first provider wraps new DEKs. Each DEK is unwrapped by the provider that knows its KEK.
    """

    def __init__(self, active: KeyProvider, *others: KeyProvider) -> None:
        self._all = (active, *others)

    @property
    def active_id(self) -> str:
        return self._all[0].active_id

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(kek_id for provider in self._all for kek_id in provider.ids))

    def wrap(self, kek_id: str, dek: bytes, aad: bytes) -> bytes:
        return self._first_that_knows(kek_id, lambda provider: provider.wrap(kek_id, dek, aad))

    def unwrap(self, kek_id: str, wrapped: bytes, aad: bytes) -> bytes:
        return self._first_that_knows(kek_id, lambda provider: provider.unwrap(kek_id, wrapped, aad))

    def _first_that_knows(self, kek_id: str, call: Callable[[KeyProvider], bytes]) -> bytes:
        for provider in self._all:
            try:
                return call(provider)
            except UnknownKek:
                continue
        raise UnknownKek(kek_id)


def self_test(provider: KeyProvider) -> None:
    """Wrap and unwrap a random DEK under the active KEK.

    Raise if a call fails, or if the provider does not check the AAD.
    """
    dek, aad, kek_id = os.urandom(_DEK_BYTES), b"euterpe-self-test", provider.active_id
    wrapped = provider.wrap(kek_id, dek, aad)
    if provider.unwrap(kek_id, wrapped, aad) != dek:
        raise CannotDecrypt
    try:
        provider.unwrap(kek_id, wrapped, b"another row")
    except CannotDecrypt:
        return
    raise UnboundKeys(kek_id)
