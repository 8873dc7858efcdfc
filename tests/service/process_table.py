"""Find processes in /proc by ancestor or by working directory, and wait until they have ended."""

import os
import select
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from time import monotonic

# This is far more time than the kernel needs to end a process, even on a busy machine.
_TIMEOUT_S = 30.0


def descendants(pid: int) -> list[int]:
    """Return the children of a process, their children, and so on."""
    parents = _parents()
    pids = [pid]
    for ancestor in pids:
        pids += [child for child, parent in parents.items() if parent == ancestor]
    return pids[1:]


def at_home_in(folder: Path) -> list[int]:
    """Return the processes whose working directory is `folder` or a folder below it."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process has just ended
            if (entry / "cwd").readlink().is_relative_to(folder):
                found.append(int(entry.name))
    return found


class ProcessWatch:
    """A watch on processes that are not children of this process.

    It uses pidfds, because the kernel reuses process ids.
    """

    def __init__(self) -> None:
        self._handles = ExitStack()
        self._watched: list[int] = []

    def watch(self, pids: Iterable[int]) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                self._watched.append(handle := os.pidfd_open(pid))
                self._handles.callback(os.close, handle)

    def await_the_end(self, within_s: float = _TIMEOUT_S) -> int:
        """Wait until all watched processes have ended, for at most `within_s`. Return their number."""
        deadline = monotonic() + within_s
        for handle in self._watched:
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            left_ms = max(0.0, deadline - monotonic()) * 1000
            assert poll.poll(left_ms), "nothing-left: a child process has outlived its worker or its job"
        return len(self._watched)

    def close(self) -> None:
        self._handles.close()


def _parents() -> dict[int, int]:
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            # The name of the program can contain any character, and ends at the last parenthesis of the line.
            fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            parents[int(entry.name)] = int(fields[1])
    return parents
