"""Helpers that start shells as children of a sandbox, and inspect its helper process."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from euterpe.media.sandbox.child import Child
from euterpe.media.sandbox.confine import ResourceLimits
from euterpe.media.sandbox.sandbox import Sandbox
from tests.media.media_steps import TIMEOUT_S
from tests.media.processes import children_of, wait_for_exit

LIMITS = ResourceLimits(memory_bytes=1 << 30, cpu_seconds=60, file_bytes=1 << 20)


class StubSandbox(Sandbox):
    """A sandbox whose calls return a given value, which a compromised child could send."""

    def __init__(self, found: Any) -> None:
        super().__init__(Path("/bin/true"))
        self._found = found

    def call(self, *_: Any, **__: Any) -> Any:
        return self._found


def shell(
    sandbox: Sandbox, script: str, folder: Path, limits: ResourceLimits = LIMITS, given: int | None = None
) -> Child:
    """Start a shell in the sandbox, with the file descriptor `given` as fd 7.

    The script can use only builtins, because a child cannot execute any program.
    """
    fds = {} if given is None else {7: given}
    return sandbox.run(["/bin/sh", "-c", script], fds=fds, cwd=folder, limits=limits)


def output(child: Child) -> str:
    return b"".join(event[1] for event in child.events(TIMEOUT_S) if event is not None).decode()


@contextmanager
def sleeper(sandbox: Sandbox, folder: Path) -> Iterator[Child]:
    """Yield a child that waits for input without end."""
    never, _held = os.pipe()
    try:
        with shell(sandbox, "echo ready; read word <&7", folder, given=never) as child:
            assert first_output(child) == b"ready\n"
            yield child
    finally:
        os.close(never)
        os.close(_held)


# A new thread has no death signal (`PR_SET_PDEATHSIG`). A program that this thread executes has no death
# signal either.
_EXECUTES_ITSELF = """
import _thread, posix, sys, time
again = "import time; print('again', flush=True); time.sleep(600)"
_thread.start_new_thread(posix.execv, (sys.executable, [sys.executable, "-ISc", again]))
time.sleep(600)
"""


@contextmanager
def without_a_death_signal(sandbox: Sandbox, folder: Path) -> Iterator[Child]:
    """Yield a child that the kernel does not kill when its helper ends."""
    argv = [os.path.realpath(sys.executable), "-ISc", _EXECUTES_ITSELF]
    with sandbox.run(argv, fds={}, cwd=folder, limits=LIMITS) as child:
        assert first_output(child) == b"again\n"
        yield child


def first_output(child: Child) -> bytes:
    event = next(child.events(TIMEOUT_S))
    assert event is not None, "the child printed nothing"
    return event[1]


def helper_of(sandbox: Sandbox) -> int:
    helper = sandbox._helper
    assert helper is not None
    return helper.pid


def wait_until_reaped(sandbox: Sandbox, folder: Path) -> None:
    """Wait until the helper has reaped all earlier children, including those that failed to start.

    Once a child that was started later has ended, the helper has reaped all earlier children.
    """
    assert all(wait_for_exit(pid) for pid in children_of(helper_of(sandbox)))
    with shell(sandbox, "echo still here", folder) as child:
        assert output(child) == "still here\n"
