"""Key providers: the places that hold the KEKs and wrap data keys (DEKs) with them.

The rings of `local_key_ring.py` hold the KEKs in this process; `vault_key_provider.py` leaves them in Vault.
"""

import os
from collections.abc import Callable
from typing import Protocol

from euterpe.crypto.errors import CannotDecrypt, UnboundKeys, UnknownKek

_DEK_BYTES = 32


class KeyProvider(Protocol):
    """A place that holds KEKs. Thread-safe; `tests/crypto/test_key_provider.py` has the rules as tests.

    Each member may block on the network, so none may be used on an event loop or inside a database
    transaction. Each may raise `KeyProviderUnavailable`; then the same call may succeed later.
    """

    @property
    def active_id(self) -> str:
        """Return the id of the KEK that wraps new DEKs."""
        ...

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the ids of all KEKs that unwrap, the active one included."""
        ...

    def wrap(self, kek_id: str, dek: bytes, aad: bytes) -> bytes:
        """Return the DEK encrypted under this KEK, bound to `aad`. Raise `UnknownKek`.

        The caller names the KEK, because the AAD names it already: if the active KEK changes in between, the
        provider must still wrap under the KEK that the AAD names.
        """
        ...

    def unwrap(self, kek_id: str, wrapped: bytes, aad: bytes) -> bytes:
        """Return the DEK. Raise `UnknownKek`, or `CannotDecrypt` for bytes not wrapped like this."""
        ...


class JoinedKeyProviders:
    """Several providers as one: the first wraps, and all unwrap. For a move from one provider to another."""

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


def prove(provider: KeyProvider) -> None:
    """Wrap and unwrap a random DEK under the active KEK. Raise if it fails, or if no AAD is checked."""
    dek, aad, kek_id = os.urandom(_DEK_BYTES), b"euterpe-proof", provider.active_id
    wrapped = provider.wrap(kek_id, dek, aad)
    if provider.unwrap(kek_id, wrapped, aad) != dek:
        raise CannotDecrypt
    try:
        provider.unwrap(kek_id, wrapped, b"another row")
    except CannotDecrypt:
        return
    raise UnboundKeys(kek_id)
