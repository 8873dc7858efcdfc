"""Helpers that inspect other processes by /proc, and wait for their exit by pidfd."""

import os
import select
from pathlib import Path

from tests.media.media_steps import TIMEOUT_S


def processes_in(folder: Path) -> list[int]:
    """Return the ids of the processes whose current directory is `folder`."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cwd").readlink() == folder.resolve():
                found.append(int(entry.name))
        except OSError:  # the process ended meanwhile
            continue
    return found


def children_of(parent: int) -> list[int]:
    """Return the ids of the children of `parent`, including zombies."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and _parent_of(entry) == parent:
                found.append(int(entry.name))
        except OSError:  # the process ended meanwhile
            continue
    return found


def _parent_of(process: Path) -> int:
    # The name of a process can contain any byte.
    return int((process / "stat").read_bytes().rpartition(b")")[2].split()[1])


def has_exited(pid: int) -> bool:
    """Return whether the process has exited, even if it has not been reaped."""
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def wait_for_exit(pid: int) -> bool:
    """Wait for the exit of a process. Return False on a timeout."""
    try:
        end = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(end, select.POLLIN)
        return bool(poll.poll(TIMEOUT_S * 1000))
    finally:
        os.close(end)
