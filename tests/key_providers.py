"""Key providers that refuse calls on an event loop or in a transaction, and can be slow or unavailable."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakSet

import sqlalchemy as sa

from euterpe.crypto.errors import KeyProviderUnavailable
from euterpe.crypto.key_provider import KeyProvider
from euterpe.crypto.keyfile import KeySet
from euterpe.crypto.local_key_ring import LocalKeyRing

TIMEOUT_S = 30.0


class _ThreadConnections(threading.local):
    """Weak references to the connections of this thread."""

    def __init__(self) -> None:
        self.all: WeakSet[sa.Connection] = WeakSet()


_connections = _ThreadConnections()


@sa.event.listens_for(sa.Engine, "begin")  # called for each transaction of each engine of this process
def _note_connection(connection: sa.Connection) -> None:
    _connections.all.add(connection)


def check_caller() -> None:
    """Fail if this thread runs an event loop or has an open transaction.

    A call of a key provider can take 50 ms, and would block the loop or the transaction for this time.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise AssertionError("the key provider was called on an event loop")
    is_inside = any(not one.closed and one.in_transaction() for one in _connections.all)
    assert not is_inside, "the key provider was called inside a database transaction"


class WatchedKeyProvider:
    """A key provider that checks its callers, records its calls, and can be slow or unavailable."""

    def __init__(self, provider: KeyProvider) -> None:
        self.provider = provider
        self.calls: list[str] = []
        self.is_away = False
        self._changed = threading.Condition()
        self._is_held, self._waiting = False, 0

    @property
    def active_id(self) -> str:
        check_caller()
        return self.provider.active_id

    @property
    def ids(self) -> tuple[str, ...]:
        check_caller()
        return self.provider.ids

    def wrap(self, kek_id: str, dek: bytes, aad: bytes) -> bytes:
        self._answer("wrap")
        return self.provider.wrap(kek_id, dek, aad)

    def unwrap(self, kek_id: str, wrapped: bytes, aad: bytes) -> bytes:
        self._answer("unwrap")
        return self.provider.unwrap(kek_id, wrapped, aad)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Delay all calls that begin during the block until the end of the block."""
        self._hold(True)
        try:
            yield
        finally:
            self._hold(False)

    def wait_for_waiting(self, count: int = 1) -> None:
        """Wait until `count` calls are delayed."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._waiting >= count, TIMEOUT_S), self.calls

    def wait_for_calls(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.calls) >= count, TIMEOUT_S), self.calls

    def _hold(self, is_held: bool) -> None:
        with self._changed:
            self._is_held = is_held
            self._changed.notify_all()

    def _answer(self, call: str) -> None:
        check_caller()
        with self._changed:
            self.calls.append(call)
            self._waiting += 1
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: not self._is_held, TIMEOUT_S), "held for too long"
            self._waiting -= 1
        if self.is_away:
            raise KeyProviderUnavailable("the tests took it away")


class CheckedKeyRing(LocalKeyRing):
    """A local key ring that calls `check_caller` in every test with the fixture `ring`."""

    @property
    def active_id(self) -> str:
        check_caller()
        return super().active_id

    def wrap(self, kek_id: str, dek: bytes, aad: bytes) -> bytes:
        check_caller()
        return super().wrap(kek_id, dek, aad)

    def unwrap(self, kek_id: str, wrapped: bytes, aad: bytes) -> bytes:
        check_caller()
        return super().unwrap(kek_id, wrapped, aad)


def checked_ring(active: str = "k1", **keys: bytes) -> CheckedKeyRing:
    return CheckedKeyRing(KeySet(where="the tests", active=active, keys=keys or {"k1": b"1" * 32}))
