"""Tests with hostile files: a job ends with verified files or a known error, and opens no other file."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.planning.tracks import STATISTICS
from euterpe.media.sandbox.sandbox import Sandbox
from tests.media.children import helper_of
from tests.media.hostile.attempt import Ended, attempt
from tests.media.hostile.corpus import ENDLESS, FILES, IN_SOAK_ONLY, IN_SUITE, REFERENCES
from tests.media.hostile.originals import Originals
from tests.media.hostile.trap import CANARY, Trap, trap
from tests.media.processes import children_of
from tests.media.sources.cache import Sources

# No error in this list leads to another attempt, because the same file would fail in the same way. Timeouts
# and a lack of memory are not in the list.
KNOWN = frozenset(
    {
        ErrorCode.SOURCE_TRUNCATED,
        ErrorCode.SOURCE_NOT_MEDIA,
        ErrorCode.SOURCE_DAMAGED,
        ErrorCode.SOURCE_UNSUPPORTED,
        ErrorCode.NO_VIDEO_STREAM,
        ErrorCode.NO_AUDIO_STREAM,
        ErrorCode.OUTPUT_UNSUPPORTED,
        ErrorCode.ENCODE_FAILED,
        # ffmpeg succeeded, but the verification found that a part is missing.
        ErrorCode.OUTPUT_TRUNCATED,
        ErrorCode.OUTPUT_UNDECODABLE,
    }
)


@dataclass(frozen=True)
class Hostile:
    originals: Originals
    trap: Trap


@pytest.fixture(scope="module")
def hostile(sources: Sources, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hostile]:
    with trap(tmp_path_factory.mktemp("outside")) as set_up:
        yield Hostile(Originals(sources, bytes(set_up.path), set_up.url.encode()), set_up)


def check(hostile: Hostile, sandbox: Sandbox, name: str, folder: Path) -> Ended:
    """Process the file like a job, and check that no file or host outside its folder was touched."""
    source, out = folder / "source", folder / "out"
    source.write_bytes(data := FILES[name](hostile.originals))
    out.mkdir()
    ended = attempt(sandbox, name, source, out)
    assert children_of(helper_of(sandbox)) == []
    assert {path.name for path in folder.iterdir()} == {"source", "out"}
    assert source.read_bytes() == data
    assert hostile.trap.sprung_by() == []
    made = [path for path in out.rglob("*") if path.is_file()]
    assert not any(path.is_symlink() for path in out.rglob("*"))
    assert all(path.relative_to(out).parts[0].startswith((*ended.outputs, STATISTICS)) for path in made)
    assert not any(CANARY in path.read_bytes() for path in made)
    return ended


def assert_ended_well(ended: Ended, name: str, folder: Path) -> None:
    if ended.error is None:
        assert ended.files
        assert all(file.path.is_relative_to(folder) and file.path.stat().st_size for file in ended.files)
    else:
        known = KNOWN | {ErrorCode.ENCODE_TIMEOUT} if name in ENDLESS else KNOWN
        assert ended.error.code in known, f"{ended.error.code}: {ended.error}"
        assert CANARY.decode() not in str(ended.error)
        assert str(folder) not in str(ended.error)


@pytest.mark.parametrize(
    "name", [*IN_SUITE, *(pytest.param(name, marks=pytest.mark.soak) for name in IN_SOAK_ONLY)]
)
def test_a_hostile_file_gives_verified_files_or_a_known_error(
    hostile: Hostile, sandbox: Sandbox, tmp_path: Path, name: str
) -> None:
    assert_ended_well(check(hostile, sandbox, name, tmp_path), name, tmp_path)


def test_the_writer_of_matroska_makes_valid_films(hostile: Hostile, sandbox: Sandbox, tmp_path: Path) -> None:
    assert check(hostile, sandbox, "matroska/valid", tmp_path).error is None


def test_without_namespaces_and_landlock_no_other_file_or_host_is_reached_either(
    sources: Sources, tmp_path: Path
) -> None:
    """A machine can lack these layers of the sandbox.

    On such a machine, only ffmpeg's lists of allowed protocols and formats protect other files and hosts.
    """
    with trap(tmp_path) as set_up:
        module = ("tests.media.without_isolation", "namespaces,landlock", "tests.media.hostile.references")
        work = tmp_path / "work"
        work.mkdir()
        command = [
            sys.executable,
            "-m",
            *module,
            str(work),
            str(sources.folder),
            str(set_up.path),
            set_up.url,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == [*REFERENCES]
        assert set_up.sprung_by() == []


def test_the_trap_tells_what_was_opened_and_reached(tmp_path: Path) -> None:
    with trap(tmp_path) as set_up:
        assert set_up.sprung_by() == []
        set_up.path.read_bytes()
        assert set_up.sprung_by() == ["the file outside was opened"]
