"""The lake: commits are atomic even when a writer is killed, and damaged or foreign folders are refused."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from euterpe.analytics.errors import LakeError
from euterpe.analytics.lake import Lake
from euterpe.analytics.lake.upkeep import forget
from euterpe.analytics.tables import HISTORY
from tests.analytics.lake.filling import add, fill, leftovers, numbers

# A writer that kills itself just before its n-th change of the disk.
KILLED_AT_STEP = """
import os, signal, sys
from pathlib import Path
steps = iter(range(1, 1000))
def counted(name, real):
    def step(*arguments, **options):
        if next(steps) == int(sys.argv[3]):
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **options)
    return step
for name in ("rename", "mkdir", "unlink"):
    setattr(Path, name, counted(name, getattr(Path, name)))
os.fsync = counted("fsync", os.fsync)
from tests.analytics.lake.filling import add
add(Path(sys.argv[1]), int(sys.argv[2]))
"""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def test_a_commit_has_the_added_rows_and_positions(lake: Lake) -> None:
    assert lake.commit().version == 0
    add(lake.root, 0)
    add(lake.root, 10)
    commit = lake.commit()
    assert (commit.version, commit.cause, commit.positions) == (2, "test", {"upto": 10})
    assert numbers(lake) == [0, 1, 2, 3, 10, 11, 12, 13]
    assert commit.rows("events") == 8
    assert {file.day for file in commit.files["events"]} == {"2026-11-01", "2026-11-02"}


def test_an_exception_leaves_everything_as_it_was(lake: Lake) -> None:
    add(lake.root, 0)
    before = lake.commit()

    def fails() -> None:
        with lake.append("test") as append:
            fill(append, 10)
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert lake.commit() == before
    assert leftovers(lake) == set()


def test_nothing_added_is_no_commit(lake: Lake) -> None:
    add(lake.root, 0)
    with lake.append("test") as append:
        append.positions = {"upto": 99}
    assert lake.commit().version == 1


def test_a_kill_at_any_step_leaves_the_lake_before_or_after(lake: Lake) -> None:
    """A writer that is killed at any step leaves a valid commit. The next writer continues and cleans up."""
    add(lake.root, 0)
    outcomes = set()
    for step in range(1, 100):
        before = numbers(lake)
        first = step * 10
        command = [sys.executable, "-c", KILLED_AT_STEP, str(lake.root), str(first), str(step)]
        returncode = subprocess.run(command, check=False).returncode
        after = numbers(lake)
        added = [n for n in after if n not in before]
        assert added in ([], [first, first + 1, first + 2, first + 3])
        assert lake.commit().positions == {"upto": max(after) - 3}
        if returncode == 0:
            break
        assert returncode == -signal.SIGKILL
        outcomes.add(bool(added))
    else:
        pytest.fail("the program was killed at every step and never ended")
    assert outcomes == {True, False}  # some kills were before the commit, some after the commit
    assert leftovers(lake) == set()
    assert numbers(lake)[:4] == [0, 1, 2, 3]


def test_one_program_at_a_time_writes(lake: Lake) -> None:
    with (
        lake.append("test"),
        pytest.raises(LakeError, match="another program is writing"),
        Lake(lake.root).append("test"),
    ):
        pass


def test_files_stay_as_long_as_a_reader_may_need_them(lake: Lake) -> None:
    add(lake.root, 0)
    old = [lake.root / file.path for file in lake.commit().files["events"]]
    assert forget(lake, keep_days=1) == 2
    assert numbers(lake) == []
    assert all(path.exists() for path in old)
    for first in range(10, 70, 10):
        add(lake.root, first)
    assert not any(path.exists() for path in old)
    assert len(list((lake.root / "_commits").iterdir())) <= 6


def test_a_full_disk_is_reported_and_changes_nothing(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    add(lake.root, 0)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LakeError, match=r"the disk of .* is full"):
        add(lake.root, 10)
    monkeypatch.undo()
    assert numbers(lake) == [0, 1, 2, 3]
    assert leftovers(lake) == set()


def test_a_damaged_commit_is_named(lake: Lake) -> None:
    add(lake.root, 0)
    path = lake.root / "_commits/00000001.json"
    whole = path.read_text()
    partial = json.loads(whole)
    del partial["files"]["deliveries"]
    for text in (
        whole[:100],
        "null",
        "[]",
        "{}",
        "[" * 100_000,
        json.dumps(partial),
        whole.replace('"version": 1', '"version": "x"'),
    ):
        path.write_text(text)
        with pytest.raises(LakeError, match=r"00000001\.json is damaged"):
            lake.commit()


def test_a_copy_of_a_commit_file_is_ignored(lake: Lake) -> None:
    add(lake.root, 0)
    (lake.root / "_commits/00000002 (1).json").write_text("{}")
    assert lake.commit().version == 1


def test_a_lake_whose_commits_are_lost_is_refused_and_keeps_its_files(lake: Lake) -> None:
    """The files may be the only copy of history that was pruned from the database."""
    add(lake.root, 0)
    kept = {*lake.root.glob("*/day=*/*.parquet")}
    shutil.rmtree(lake.root / "_commits")
    with pytest.raises(LakeError, match="no commits: put its _commits back"), lake.append("test"):
        pass
    assert {*lake.root.glob("*/day=*/*.parquet")} == kept != set()


@pytest.mark.parametrize("name", [*HISTORY, ".staging"])
def test_a_folder_with_data_but_no_commits_is_refused(lake: Lake, name: str) -> None:
    kept = lake.root / name / "day=2026-11-01" / "00000001-00000.parquet"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"the only copy")
    with pytest.raises(LakeError, match=f"has {name} and no commits"), lake.append("test"):
        pass
    assert kept.exists()
    assert not (lake.root / "_commits").exists()


def test_a_lake_has_a_commit_before_it_has_data(lake: Lake) -> None:
    """Without this first commit, a lake whose first append was killed would look like a foreign folder."""
    with lake.append("test") as append:
        fill(append, 0)
        assert (lake.root / "_commits/00000000.json").exists()


def test_foreign_files_in_the_folder_are_kept(lake: Lake) -> None:
    foreign_files = [
        lake.root / "sales/day=2026-01-01/part-0.parquet",
        lake.root / "sales/day=2026-01-01/00000009-00000.parquet",
        lake.root / "events/day=2026-01-01/mine.parquet",
    ]
    add(lake.root, 0)
    for path in foreign_files:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"the only copy")
    add(lake.root, 10)
    assert all(path.exists() for path in foreign_files)


def test_a_file_is_no_lake(lake: Lake) -> None:
    lake.root.touch()
    with pytest.raises(LakeError, match="is a file: a lake is a folder"):
        Lake(lake.root)


def test_columns_may_be_added_but_not_changed(lake: Lake) -> None:
    add(lake.root, 0)
    path = lake.root / "_commits/00000001.json"
    document = json.loads(path.read_text())
    del document["schema"]["events"]["type"]  # older programs did not write this field
    path.write_text(json.dumps(document))
    assert lake.commit().version == 1
    document["schema"]["events"]["sequence"] = "string"
    path.write_text(json.dumps(document))
    with pytest.raises(LakeError, match=r"column events\.sequence \(string\) is long in this program"):
        lake.commit()
    document["schema"]["events"] = {"mood": "string"}
    path.write_text(json.dumps(document))
    with pytest.raises(LakeError, match="use the newer Euterpe"):
        lake.commit()
