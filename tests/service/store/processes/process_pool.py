"""Child processes that a test can start, freeze and kill, and with which it exchanges messages."""

import contextlib
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import connection, get_context
from multiprocessing.context import ForkServerContext, SpawnContext
from typing import Any

from tests.service.store.processes import child_tasks
from tests.service.store.processes.child_process import Done, Task, TaskFailed, Unavailable, serve
from tests.service.store.processes.skewed_clock import serve_with_skew

# Every step is much shorter than this time, so a process that sends no message for this time hangs.
_TIMEOUT_S = 60.0


class Child:
    def __init__(
        self, context: ForkServerContext | SpawnContext, name: str, target: Task, *arguments: Any
    ) -> None:
        self.name = name
        self.pipe, child_end = context.Pipe()
        self.process = context.Process(target=target, args=(name, *arguments[:1], child_end, *arguments[1:]))
        self.process.daemon = True
        self.process.start()
        child_end.close()

    def start(self, task: Task, *arguments: Any) -> None:
        self.pipe.send((task, arguments))

    def receive(self) -> Any:
        """Return the next message of the child. If the message is an error, raise it."""
        assert self.pipe.poll(_TIMEOUT_S), f"{self.name} is silent"
        message = self.pipe.recv()
        assert not isinstance(message, TaskFailed), f"{self.name}: {message.trace}"
        if isinstance(message, Unavailable):
            raise message.error
        return message

    def receive_until_done(self) -> Iterator[Any]:
        """Yield the messages of the child until its task is done."""
        while not isinstance(message := self.receive(), Done):
            yield message

    def result(self) -> Any:
        """Drop the messages of the running task and return its result."""
        while not isinstance(message := self.receive(), Done):
            pass
        return message.value

    def call(self, task: Task, *arguments: Any) -> Any:
        self.start(task, *arguments)
        return self.result()

    def call_store(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of the child's store by name, such as `inbox.claim`."""
        return self.call(child_tasks.call_store, method, arguments, options)

    def send(self, message: object) -> None:
        self.pipe.send(message)

    def request_stop(self) -> None:
        self.pipe.send(None)

    def kill(self) -> list[Any]:
        """Kill the child and return its unread messages."""
        self._signal(signal.SIGKILL)
        self.join()
        assert self.was_killed
        unread = []
        with contextlib.suppress(EOFError, OSError):  # the last message may be cut short
            while True:
                unread.append(self.pipe.recv())
        return unread

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def join(self) -> None:
        self.process.join(_TIMEOUT_S)
        assert self.process.exitcode is not None, f"{self.name} does not end"

    @property
    def was_killed(self) -> bool:
        return self.process.exitcode == -signal.SIGKILL

    def close(self) -> None:
        """Close the pipe, so that the child ends by itself, and wait for its end."""
        self.pipe.close()
        self.join()

    def _signal(self, number: int) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)


class ProcessPool:
    """The child processes of a test.

    A fork server imports all modules once, so that fifty processes start quickly.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._children: list[Child] = []
        self._forking = get_context("forkserver")
        self._forking.set_forkserver_preload(["pytest", "tests.service.store.processes.child_tasks"])

    def launch(self, name: str, *, url: str | None = None, **options: Any) -> Child:
        return self._add(Child(self._forking, name, serve, url or self._url, options))

    def launch_skewed(self, name: str, skew_s: int, **options: Any) -> Child:
        """Launch a child whose wall clock is skewed by `skew_s` before it imports Euterpe."""
        return self._add(Child(get_context("spawn"), name, serve_with_skew, self._url, options, skew_s))

    def _add(self, child: Child) -> Child:
        self._children.append(child)
        return child

    def kill_all(self) -> None:
        for child in self._children:
            if child.process.exitcode is None:
                child.process.kill()
            child.process.join()
            child.pipe.close()


@contextmanager
def process_pool_on(url: str) -> Iterator[ProcessPool]:
    process_pool = ProcessPool(url)
    try:
        yield process_pool
    finally:
        process_pool.kill_all()


def receive_any(children: Sequence[Child]) -> list[tuple[Child, Any]]:
    """Wait for messages. Return one message of each child that has sent any."""
    ready = connection.wait([child.pipe for child in children], timeout=_TIMEOUT_S)
    assert ready, "all children are silent"
    return [(child, child.receive()) for child in children if child.pipe in ready]
