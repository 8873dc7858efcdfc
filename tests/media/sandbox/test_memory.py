"""Tests of the memory limit of a slot: cgroup limits and the memory of the machine."""

from pathlib import Path

import pytest

from euterpe.media.sandbox.memory import memory_of_a_slot, memory_of_the_machine

_GIB = 1 << 30


@pytest.mark.parametrize(
    ("slots", "total", "share"),
    [
        (1, 8 * _GIB, 8 * _GIB),
        (3, 24 * _GIB, 8 * _GIB),
        (1, 64 * _GIB, 12 * _GIB),
        (16, 8 * _GIB, _GIB),
        (1000, _GIB // 2, _GIB),
    ],
)
def test_a_slot_has_its_share_of_the_memory_within_reason(slots: int, total: int, share: int) -> None:
    assert memory_of_a_slot(slots, total) == share


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Return a root folder with the /proc of a machine that has 16 GiB of memory and no control groups."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemTotal:       16777216 kB\nMemFree:  1 kB\n")
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    return tmp_path


def limit(machine: Path, folder: str, name: str, text: str) -> None:
    (machine / "sys/fs/cgroup" / folder).mkdir(parents=True, exist_ok=True)
    (machine / "sys/fs/cgroup" / folder / name).write_text(text)


def test_without_a_limit_it_is_the_machines(machine: Path) -> None:
    assert memory_of_the_machine(machine) == 16 * _GIB
    limit(machine, "", "memory.max", "max\n")
    assert memory_of_the_machine(machine) == 16 * _GIB


def test_a_container_has_as_much_as_it_is_given(machine: Path) -> None:
    limit(machine, "", "memory.max", f"{2 * _GIB}\n")
    assert memory_of_the_machine(machine) == 2 * _GIB


def test_the_tightest_group_on_the_way_up_counts(machine: Path) -> None:
    (machine / "proc/self/cgroup").write_text("0::/service/euterpe/worker\n")
    limit(machine, "service/euterpe/worker", "memory.max", "max\n")
    limit(machine, "service/euterpe", "memory.max", f"{3 * _GIB}\n")
    limit(machine, "service", "memory.max", f"{5 * _GIB}\n")
    assert memory_of_the_machine(machine) == 3 * _GIB


@pytest.mark.parametrize("folder", ["memory", "memory/job"])
def test_the_older_control_groups_count_too(machine: Path, folder: str) -> None:
    """Inside a container, the path that the kernel reports can be missing.

    Then the limit of the mount point applies.
    """
    (machine / "proc/self/cgroup").write_text("5:cpu,cpuacct:/x\n4:memory:/job\n0::/\n")
    limit(machine, folder, "memory.limit_in_bytes", f"{4 * _GIB}\n")
    assert memory_of_the_machine(machine) == 4 * _GIB


def test_the_memory_of_this_machine_is_read() -> None:
    assert memory_of_the_machine() > _GIB // 4
