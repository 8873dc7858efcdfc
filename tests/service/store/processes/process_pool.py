"""The test's side of its processes: start them, give them orders, hear from them, kill and freeze them."""

import contextlib
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import connection, get_context
from multiprocessing.context import ForkServerContext, SpawnContext
from typing import Any

from tests.service.store.processes import child_tasks
from tests.service.store.processes.child_process import Act, Broke, Done, Unavailable, serve
from tests.service.store.processes.skewed_clock import serve_with_skew

# Long past anything that is merely slow: only a process that hangs is silent for so long.
_SILENCE_S = 60.0


class Child:
    def __init__(
        self, context: ForkServerContext | SpawnContext, name: str, target: Act, *arguments: Any
    ) -> None:
        self.name = name
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=target, args=(name, *arguments[:1], theirs, *arguments[1:]))
        self.process.daemon = True
        self.process.start()
        theirs.close()

    def start(self, act: Act, *arguments: Any) -> None:
        self.pipe.send((act, arguments))

    def hear(self) -> Any:
        """The next thing that it says."""
        assert self.pipe.poll(_SILENCE_S), f"{self.name} is silent"
        message = self.pipe.recv()
        assert not isinstance(message, Broke), f"{self.name}: {message.trace}"
        if isinstance(message, Unavailable):
            raise message.error
        return message

    def hear_out(self) -> Iterator[Any]:
        """All that it says until its act is done."""
        while not isinstance(message := self.hear(), Done):
            yield message

    def result(self) -> Any:
        """What the act that was started returns."""
        while not isinstance(message := self.hear(), Done):
            pass
        return message.value

    def call(self, act: Act, *arguments: Any) -> Any:
        self.start(act, *arguments)
        return self.result()

    def do(self, what: str, *arguments: Any, **options: Any) -> Any:
        """Calls a method of its store, by name: `inbox.claim`."""
        return self.call(child_tasks.do, what, arguments, options)

    def say(self, word: object) -> None:
        self.pipe.send(word)

    def tell_to_stop(self) -> None:
        self.pipe.send(None)

    def kill(self) -> list[Any]:
        """Returns what it could still say."""
        self._signal(signal.SIGKILL)
        self.join()
        assert self.was_killed
        last_words = []
        with contextlib.suppress(EOFError, OSError):  # its last word may be cut short
            while True:
                last_words.append(self.pipe.recv())
        return last_words

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def join(self) -> None:
        self.process.join(_SILENCE_S)
        assert self.process.exitcode is not None, f"{self.name} does not end"

    @property
    def was_killed(self) -> bool:
        return self.process.exitcode == -signal.SIGKILL

    def close(self) -> None:
        """Hangs up, so that it ends by itself."""
        self.pipe.close()
        self.join()

    def _signal(self, number: int) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)


class ProcessPool:
    """The processes of one test. Forked from a server that has imported everything once: fifty of
    them in a row cost little."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._children: list[Child] = []
        self._forking = get_context("forkserver")
        self._forking.set_forkserver_preload(["pytest", "tests.service.store.processes.child_tasks"])

    def launch(self, name: str, *, url: str | None = None, **options: Any) -> Child:
        return self._add(Child(self._forking, name, serve, url or self._url, options))

    def launch_skewed(self, name: str, skew_s: int, **options: Any) -> Child:
        """With a wall clock that is off, from before its first import."""
        return self._add(Child(get_context("spawn"), name, serve_with_skew, self._url, options, skew_s))

    def _add(self, child: Child) -> Child:
        self._children.append(child)
        return child

    def abandon(self) -> None:
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
        process_pool.abandon()


def hear_from(children: Sequence[Child]) -> list[tuple[Child, Any]]:
    """Waits until some of them have said something; one message of each of those."""
    ready = connection.wait([child.pipe for child in children], timeout=_SILENCE_S)
    assert ready, "all of them are silent"
    return [(child, child.hear()) for child in children if child.pipe in ready]
