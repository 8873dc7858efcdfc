"""Children of a sandbox that are shells, and the helper process that bears them."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from euterpe.media.child import Child
from euterpe.media.confine import ResourceLimits
from euterpe.media.sandbox import Sandbox
from tests.media.media_steps import PATIENCE_S
from tests.media.processes import children_of, has_ended

LIMITS = ResourceLimits(memory_bytes=1 << 30, cpu_seconds=60, file_bytes=1 << 20)


class LyingSandbox(Sandbox):
    """Its children were taken over: they find what they are told to find."""

    def __init__(self, found: Any) -> None:
        super().__init__(Path("/bin/true"))
        self._found = found

    def call(self, *_: Any, **__: Any) -> Any:
        return self._found


def shell(
    sandbox: Sandbox, script: str, folder: Path, limits: ResourceLimits = LIMITS, given: int | None = None
) -> Child:
    """Only what the shell can do by itself: a child may execute nothing else. It finds `given` as 7."""
    fds = {} if given is None else {7: given}
    return sandbox.run(["/bin/sh", "-c", script], fds=fds, cwd=folder, limits=limits)


def output(child: Child) -> str:
    return b"".join(event[1] for event in child.events(PATIENCE_S) if event is not None).decode()


@contextmanager
def sleeper(sandbox: Sandbox, folder: Path) -> Iterator[Child]:
    """Yield a child that waits for a word that never comes."""
    never, _held = os.pipe()
    try:
        with shell(sandbox, "echo ready; read word <&7", folder, given=never) as child:
            assert first_words(child) == b"ready\n"
            yield child
    finally:
        os.close(never)
        os.close(_held)


# A thread has no death signal (`PR_SET_PDEATHSIG`), and what it executes gets none.
_EXECUTES_ITSELF = """
import _thread, posix, sys, time
again = "import time; print('again', flush=True); time.sleep(600)"
_thread.start_new_thread(posix.execv, (sys.executable, [sys.executable, "-ISc", again]))
time.sleep(600)
"""


@contextmanager
def without_a_death_signal(sandbox: Sandbox, folder: Path) -> Iterator[Child]:
    """Yield a child that does not die with its helper by itself."""
    argv = [os.path.realpath(sys.executable), "-ISc", _EXECUTES_ITSELF]
    with sandbox.run(argv, fds={}, cwd=folder, limits=LIMITS) as child:
        assert first_words(child) == b"again\n"
        yield child


def first_words(child: Child) -> bytes:
    event = next(child.events(PATIENCE_S))
    assert event is not None, "it is silent"
    return event[1]


def helper_of(sandbox: Sandbox) -> int:
    helper = sandbox._helper
    assert helper is not None
    return helper.pid


def await_reaped(sandbox: Sandbox, folder: Path) -> None:
    """Who fails before we hear of it ends behind our back. By the end of a child that began after theirs the
    helper has seen them."""
    assert all(has_ended(pid) for pid in children_of(helper_of(sandbox)))
    with shell(sandbox, "echo still here", folder) as child:
        assert output(child) == "still here\n"
