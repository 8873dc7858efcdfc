"""Looks at processes from outside, and waits for their end without polling."""

import os
import select
from pathlib import Path

from tests.media.media_steps import PATIENCE_S


def working_in(folder: Path) -> list[int]:
    """The processes whose current directory it is."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cwd").readlink() == folder.resolve():
                found.append(int(entry.name))
        except OSError:  # it ended meanwhile
            continue
    return found


def children_of(parent: int) -> list[int]:
    """Those that are not reaped yet too."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and _parent_of(entry) == parent:
                found.append(int(entry.name))
        except OSError:  # it ended meanwhile
            continue
    return found


def _parent_of(process: Path) -> int:
    return int((process / "stat").read_text().rpartition(")")[2].split()[1])


def is_over(pid: int) -> bool:
    """Return whether it has ended by now, reaped or not."""
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def has_ended(pid: int) -> bool:
    """Waits for it."""
    try:
        end = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(end, select.POLLIN)
        return bool(poll.poll(PATIENCE_S * 1000))
    finally:
        os.close(end)
