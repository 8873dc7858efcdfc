"""What runs in another process: a store of its own, and the acts that the test tells it to do."""

import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from euterpe.crypto.keyfile import KeySet
from euterpe.crypto.keyring import LocalKeyRing
from euterpe.store.errors import StoreUnavailable
from euterpe.store.store import Store

Act = Callable[..., Any]


@dataclass(frozen=True)
class Done:
    value: Any


@dataclass(frozen=True)
class Broke:
    """An act raised what it was not expected to raise."""

    trace: str


@dataclass(frozen=True)
class Unavailable:
    """The database could not be reached in an act: the test raises it."""

    error: StoreUnavailable


@dataclass
class ParentChannel:
    """Where an act does its work, and the pipe to the test."""

    name: str
    store: Store
    pipe: Connection
    lease_keeper: threading.Thread | None = None
    beating: threading.Lock = field(default_factory=threading.Lock)

    def report(self, message: object) -> None:
        self.pipe.send(message)

    def wait_for_word(self) -> Any:
        return self.pipe.recv()

    def was_told_to_stop(self) -> bool:
        return self.pipe.poll()


def open_store(url: str, **options: Any) -> Store:
    ring = LocalKeyRing(KeySet(where="the tests", active="k1", keys={"k1": b"1" * 32}))
    return Store(url, ring, **options)


def serve(name: str, url: str, pipe: Connection, options: dict[str, Any]) -> None:
    """Does one act after the other, until the test hangs up."""
    with open_store(url, **options) as store:
        parent = ParentChannel(name, store, pipe)
        while True:
            try:
                order = pipe.recv()
            except EOFError:
                return
            if order is not None:  # the word to stop is left for us to take off the pipe
                pipe.send(_done(parent, *order))


def _done(parent: ParentChannel, act: Act, arguments: tuple[Any, ...]) -> Done | Broke | Unavailable:
    try:
        return Done(act(parent, *arguments))
    except StoreUnavailable as error:
        return Unavailable(error)
    except Exception:  # noqa: BLE001  the test is told, and fails with it
        return Broke(traceback.format_exc())
