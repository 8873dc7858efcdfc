"""Processes, as the system shows them: who descends from whom, who is at home where, and the end of them."""

import os
import select
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path

# Long past the time in which the kernel ends a process, on the busiest of machines.
_PATIENCE_S = 30.0


def descendants(pid: int) -> list[int]:
    parents = _parents()
    family = [pid]
    for elder in family:
        family += [child for child, parent in parents.items() if parent == elder]
    return family[1:]


def at_home_in(folder: Path) -> list[int]:
    """Those whose working directory is there, or below it."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            if (entry / "cwd").readlink().is_relative_to(folder):
                found.append(int(entry.name))
    return found


class ProcessWatch:
    """Over processes that others started: by handles, for numbers are used again."""

    def __init__(self) -> None:
        self._handles = ExitStack()
        self._watched: list[int] = []

    def watch(self, pids: Iterable[int]) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                self._watched.append(handle := os.pidfd_open(pid))
                self._handles.callback(os.close, handle)

    def await_the_end(self) -> int:
        """Of all of them; returns how many they were."""
        for handle in self._watched:
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            assert poll.poll(_PATIENCE_S * 1000), "nothing-left: a child process has outlived its worker"
        return len(self._watched)

    def close(self) -> None:
        self._handles.close()


def _parents() -> dict[int, int]:
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            # The name before it may hold anything, the last parenthesis ends it.
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            parents[int(entry.name)] = int(fields[1])
    return parents
