"""How much memory an encode may take: its share of what the machine has, or the container that it is in."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

# A ladder from 1080 lines down takes 1 GiB, a film of 2160 lines 2; only an encode that was led astray takes
# more than the most.
_LEAST, MOST_MEMORY_BYTES = 1 << 30, 12 << 30


def memory_of_a_slot(slots: int, whole_bytes: int) -> int:
    return max(_LEAST, min(whole_bytes // slots, MOST_MEMORY_BYTES))


def memory_of_the_machine(root: Path = Path("/")) -> int:
    """As the kernel sees it, or the tightest of the control groups that we are in."""
    (total,) = [
        int(line.split()[1]) * 1024
        for line in (root / "proc/meminfo").read_text().splitlines()
        if line.startswith("MemTotal:")
    ]
    return min((total, *_limits(root)))


def _limits(root: Path) -> Iterator[int]:
    """Of our group and of all above it, in both kinds of groups. Within a container the path may be the one
    outside, and then leads nowhere but to its beginning."""
    for line in (root / "proc/self/cgroup").read_text().splitlines():
        _, kinds, path = line.split(":", 2)
        if kinds not in ("", "memory"):
            continue
        mount = root / "sys/fs/cgroup" / kinds
        group = mount / path.lstrip("/")
        for folder in (group, *group.parents):
            for name in ("memory.max", "memory.limit_in_bytes"):
                with suppress(OSError, ValueError):  # there is none, or it is "max"
                    yield int((folder / name).read_text())
            if folder == mount:
                break
