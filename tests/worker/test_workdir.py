"""Tests of the work directory: a folder for each attempt, and the removal of killed workers' folders."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from euterpe.worker.workdir import WorkDir

WORKER_SCRIPT = """
import sys
from pathlib import Path
from euterpe.worker.workdir import WorkDir
workdir = WorkDir(Path(sys.argv[1]))
workdir.open()
(workdir.path / "job").mkdir()
(workdir.path / "job" / "source").write_text("of a job")
print("holding", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def workdir(tmp_path: Path) -> WorkDir:
    return WorkDir(tmp_path)


def test_a_folder_goes_with_its_attempt_whatever_happens(workdir: WorkDir) -> None:
    """Check the invariant `nothing-left`."""
    workdir.open()
    with pytest.raises(KeyError), workdir.folder("job-1") as folder:  # noqa: PT012
        (folder / "out").mkdir()
        (folder / "out" / "a.mp4").write_bytes(b"x")
        assert folder.stat().st_mode & 0o777 == 0o700
        raise KeyError
    assert [path.name for path in workdir.path.iterdir()] == ["in-use"]
    workdir.close()
    assert not workdir.path.exists()


def test_what_a_killed_worker_left_is_removed_and_what_a_living_one_has_stays(tmp_path: Path) -> None:
    workers = []
    # Start one worker after the other, because a starting worker can remove the folder of another worker that
    # is starting.
    for _ in range(2):
        worker = subprocess.Popen(
            [sys.executable, "-c", WORKER_SCRIPT, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"holding\n"
        workers.append(worker)
    killed, living = workers
    killed.kill()
    killed.communicate()
    assert len(list(tmp_path.glob("*/job/source"))) == 2
    workdir = WorkDir(tmp_path)
    workdir.open()
    assert len(list(tmp_path.glob("*/job/source"))) == 1
    workdir.close()
    living.communicate(b"")


def test_the_folder_of_a_worker_that_starts_is_not_removed(
    workdir: WorkDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, mkdir = WorkDir(tmp_path), Path.mkdir

    def mkdir_while_another_starts(path: Path, **options: Any) -> None:
        monkeypatch.undo()
        mkdir(path, **options)
        other.open()

    monkeypatch.setattr(Path, "mkdir", mkdir_while_another_starts)
    workdir.open()
    with workdir.folder("job-1"), other.folder("job-2"):
        assert len(list(tmp_path.iterdir())) == 2
    for opened in (workdir, other):
        opened.close()


def test_other_folders_are_not_touched(workdir: WorkDir, tmp_path: Path) -> None:
    (tmp_path / "somebody-elses").mkdir()
    (tmp_path / "euterpe-worker-not-a-folder").write_text("")
    workdir.open()
    workdir.close()
    assert {path.name for path in tmp_path.iterdir()} == {"somebody-elses", "euterpe-worker-not-a-folder"}


def test_a_folder_that_cannot_be_written_is_found_by_a_write(tmp_path: Path) -> None:
    workdir = WorkDir(tmp_path)
    workdir.open()
    workdir.try_to_write()
    assert [path.name for path in workdir.path.iterdir()] == ["in-use"], "the test file is removed"
    workdir.close()
    with pytest.raises(OSError, match="No such file"):
        workdir.try_to_write()
