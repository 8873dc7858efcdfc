"""The child process, which opens its own store and runs the tasks that the test sends."""

import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from euterpe.crypto.keyfile import KeySet
from euterpe.crypto.local_key_ring import LocalKeyRing
from euterpe.store.errors import StoreUnavailable
from euterpe.store.store import Store

Task = Callable[..., Any]


@dataclass(frozen=True)
class Done:
    value: Any


@dataclass(frozen=True)
class TaskFailed:
    """The message that a task raised an unexpected error."""

    trace: str


@dataclass(frozen=True)
class Unavailable:
    """The message that a task could not reach the database. The test process raises this error again."""

    error: StoreUnavailable


@dataclass
class ParentChannel:
    """The name and store of a child process, and its pipe to the test."""

    name: str
    store: Store
    pipe: Connection
    lease_keeper: threading.Thread | None = None
    heartbeat_lock: threading.Lock = field(default_factory=threading.Lock)

    def report(self, message: object) -> None:
        self.pipe.send(message)

    def wait_for_message(self) -> Any:
        return self.pipe.recv()

    def stop_requested(self) -> bool:
        return self.pipe.poll()


def open_store(url: str, **options: Any) -> Store:
    ring = LocalKeyRing(KeySet(where="the tests", active="k1", keys={"k1": b"1" * 32}))
    return Store(url, ring, **options)


def serve(name: str, url: str, pipe: Connection, options: dict[str, Any]) -> None:
    """Run the tasks of the test one after the other, until the test closes the pipe."""
    with open_store(url, **options) as store:
        parent = ParentChannel(name, store, pipe)
        while True:
            try:
                message = pipe.recv()
            except EOFError:
                return
            if message is not None:  # None is a stop request that `stop_requested` has not read
                pipe.send(_run(parent, *message))


def _run(parent: ParentChannel, task: Task, arguments: tuple[Any, ...]) -> Done | TaskFailed | Unavailable:
    try:
        return Done(task(parent, *arguments))
    except StoreUnavailable as error:
        return Unavailable(error)
    except Exception:  # noqa: BLE001  the test gets the traceback and fails with it
        return TaskFailed(traceback.format_exc())
