"""The memory limit of an encode: one slot's share of the memory of the machine or of the control group."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

# An HLS ladder of up to 1080 lines takes 1 GiB, and a film of 2160 lines takes 2 GiB. Only a damaged or
# malicious source makes an encode need more than the maximum.
_LEAST, MOST_MEMORY_BYTES = 1 << 30, 12 << 30


def memory_of_a_slot(slots: int, whole_bytes: int) -> int:
    return max(_LEAST, min(whole_bytes // slots, MOST_MEMORY_BYTES))


def memory_of_the_machine(root: Path = Path("/")) -> int:
    """Return the total memory of the machine, or the lowest limit of our control groups if that is less."""
    (total,) = [
        int(line.split()[1]) * 1024
        for line in (root / "proc/meminfo").read_text().splitlines()
        if line.startswith("MemTotal:")
    ]
    return min((total, *_limits(root)))


def _limits(root: Path) -> Iterator[int]:
    """Yield the memory limits of our control group and all its parents, for cgroup v1 and v2.

    Inside a container, the path in `/proc/self/cgroup` can be the path on the host. In this case, the
    container has no folder with this path, and only the mount point has files with limits.
    """
    for line in (root / "proc/self/cgroup").read_text().splitlines():
        _, kinds, path = line.split(":", 2)
        if kinds not in ("", "memory"):
            continue
        mount = root / "sys/fs/cgroup" / kinds
        group = mount / path.lstrip("/")
        for folder in (group, *group.parents):
            for name in ("memory.max", "memory.limit_in_bytes"):
                with suppress(OSError, ValueError):  # the file does not exist, or contains "max"
                    yield int((folder / name).read_text())
            if folder == mount:
                break
