"""Tests of `file://` storage: reads, atomic writes, and the refusal of paths outside the roots."""

import errno
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from euterpe.domain.error_codes import RetryClass
from euterpe.storage.errors import StorageError
from euterpe.storage.files import os_error_as_storage_error
from euterpe.storage.storage import Storage
from tests.storage.storage_calls import Download, Fenced, Upload, destination, source


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.mov").write_bytes(b"media")
    return root


@pytest.fixture
def storage(open_storage: Callable[..., Storage], root: Path) -> Storage:
    return open_storage(roots=(root,))


@pytest.fixture
def made(tmp_path: Path) -> Path:
    made = tmp_path / "made.mp4"
    made.write_bytes(b"x" * 3_000_000)
    return made


def refusal(storage: Storage, url: str) -> StorageError:
    with pytest.raises(StorageError) as refused:
        source(storage, url).stat()
    return refused.value


def test_a_file_is_fetched(storage: Storage, root: Path) -> None:
    assert Download().fetch(source(storage, f"file://{root}/a.mov")) == b"media"


def test_percent_escapes_are_decoded(storage: Storage, root: Path) -> None:
    (root / "ä b.mov").write_bytes(b"media")
    assert Download().fetch(source(storage, f"file://{root}/%C3%A4%20b.mov")) == b"media"


def test_a_fetch_goes_on_where_it_stopped(storage: Storage, root: Path) -> None:
    (root / "long.mov").write_bytes(content := os.urandom(2_500_000))
    origin = source(storage, f"file://{root}/long.mov")
    assert Download(content[:1_000_000]).fetch(origin) == content


def test_a_file_that_changes_is_noticed(storage: Storage, root: Path) -> None:
    origin = source(storage, f"file://{root}/a.mov")
    before = origin.stat()
    (root / "a.mov").write_bytes(b"other")
    os.utime(root / "a.mov", ns=(1, 1))
    with pytest.raises(StorageError) as refused:
        Download().fetch(origin, expect=before)
    assert refused.value.code == "source_changed"


def test_a_file_that_is_overwritten_while_it_is_read_is_noticed(storage: Storage, root: Path) -> None:
    path = root / "a.mov"
    path.write_bytes(b"old" * 1_000_000)
    changed: list[int] = []

    def overwrite(size: int) -> None:
        if size and not changed:
            changed.append(size)
            with path.open("r+b") as file:
                file.seek(2_000_000)
                file.write(b"new" * 300_000)

    with pytest.raises(StorageError) as refusal:
        Download().fetch(source(storage, path.as_uri()), on_chunk=overwrite)
    assert refusal.value.code == "source_changed"
    assert changed


def test_no_path_leads_out_of_the_roots(storage: Storage, root: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "a.mov").write_bytes(b"secret")
    (root / "link.mov").symlink_to(secret / "a.mov")
    (root / "folder").symlink_to(secret)
    (root / "inside.mov").symlink_to(root / "a.mov")
    (root / "deep").mkdir()
    (root / "deep" / "up").symlink_to("../..")
    for path in ("link.mov", "folder/a.mov", "inside.mov", "deep/up/secret/a.mov", "a.mov/a.mov"):
        assert refusal(storage, f"file://{root}/{path}").code == "file_outside_roots", path
    for url in (f"file://{secret}/a.mov", f"file://{root}", f"file://{root}-other/a.mov"):
        assert refusal(storage, url).code == "file_outside_roots", url
    elsewhere = refusal(storage, "file:///elsewhere/a.mov")
    assert str(elsewhere).endswith("by EUTERPE_STORAGE_ROOTS on the worker"), "the API may have other roots"


def test_a_root_may_be_a_link_itself(
    open_storage: Callable[..., Storage], root: Path, tmp_path: Path
) -> None:
    (tmp_path / "linked").symlink_to(root)
    storage = open_storage(roots=(tmp_path / "linked",))
    assert Download().fetch(source(storage, f"file://{tmp_path}/linked/a.mov")) == b"media"


def test_a_path_whose_folder_is_swapped_for_a_link_is_refused_at_the_next_open(
    storage: Storage, root: Path, tmp_path: Path
) -> None:
    (root / "in").mkdir()
    (root / "in" / "a.mov").write_bytes(b"media")
    origin = source(storage, f"file://{root}/in/a.mov")
    info = origin.stat()
    (root / "in").rename(tmp_path / "moved")
    (root / "in").symlink_to(tmp_path / "moved")
    with pytest.raises(StorageError) as refused:
        Download().fetch(origin, expect=info)
    assert refused.value.code == "file_outside_roots"


def test_only_regular_files_are_read(storage: Storage, root: Path) -> None:
    os.mkfifo(root / "fifo")
    (root / "folder").mkdir()
    for name in ("fifo", "folder"):
        assert "is not a regular file" in str(refusal(storage, f"file://{root}/{name}"))
    assert refusal(storage, f"file://{root}/missing").code == "source_not_found"
    assert refusal(storage, f"file://{root}/missing/a.mov").code == "source_not_found"


def test_an_output_is_written_whole_into_new_folders(storage: Storage, root: Path, made: Path) -> None:
    upload = Upload()
    stored = upload.put(destination(storage, f"file://{root}/out/a/"), "hls/seg_1.ts", made)
    assert (root / "out" / "a" / "hls" / "seg_1.ts").read_bytes() == made.read_bytes()
    assert stored.url == f"file://{root}/out/a/hls/seg_1.ts"
    assert (stored.size_bytes, stored.sha256) == (3_000_000, sha256(made.read_bytes()).hexdigest())
    assert (upload.fence_checks, sum(upload.chunks)) == (1, 3_000_000)


def test_an_output_replaces_what_was_there_and_follows_no_link(
    storage: Storage, root: Path, made: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"untouched")
    (root / "mp4.mp4").symlink_to(outside)
    Upload().put(destination(storage, f"file://{root}/"), "mp4.mp4", made)
    assert outside.read_bytes() == b"untouched"
    assert not (root / "mp4.mp4").is_symlink()


def test_an_output_behind_a_link_is_refused(storage: Storage, root: Path, made: Path, tmp_path: Path) -> None:
    (root / "out").symlink_to(tmp_path)
    for prefix in (f"file://{root}/out/", f"file://{tmp_path}/"):
        with pytest.raises(StorageError) as refused:
            Upload().put(destination(storage, prefix), "x.mp4", made)
        assert refused.value.code == "file_outside_roots"
    assert not (tmp_path / "x.mp4").exists()


def test_a_stale_worker_leaves_nothing(storage: Storage, root: Path, made: Path) -> None:
    with pytest.raises(Fenced):
        Upload().put(destination(storage, f"file://{root}/out/"), "mp4.mp4", made, stale=True)
    assert list((root / "out").iterdir()) == []


def test_what_a_killed_worker_leaves_is_hidden_and_removed_by_the_next_output(
    storage: Storage, root: Path, made: Path
) -> None:
    """The worker is killed during its fence check, after all writes and before the publication."""
    command = [sys.executable, "-m", "tests.storage.uploader", str(root), str(made)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "sent\n"
        worker.kill()
    assert [path.suffix for path in (root / "out").glob("*")] in ([], [".part"])
    assert all(path.name.startswith(".euterpe-") for path in (root / "out").iterdir())
    Upload().put(destination(storage, f"file://{root}/out/"), "other.mp4", made)
    assert [path.name for path in (root / "out").iterdir()] == ["other.mp4"]


@pytest.fixture
def no_tmpfile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a file system without `O_TMPFILE`, such as NFS."""
    really_open = os.open

    def open_without_tmpfile(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return really_open(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", open_without_tmpfile)


@pytest.mark.usefixtures("no_tmpfile")
def test_an_output_is_written_without_tmpfile_too(storage: Storage, root: Path, made: Path) -> None:
    to = destination(storage, f"file://{root}/out/")
    with pytest.raises(Fenced):
        Upload().put(to, "mp4.mp4", made, stale=True)
    assert list((root / "out").iterdir()) == []
    Upload().put(to, "mp4.mp4", made)
    (stored,) = (root / "out").iterdir()
    assert stored.name == "mp4.mp4"
    assert stored.read_bytes() == made.read_bytes()


def test_an_output_in_the_place_of_a_folder_leaves_nothing(storage: Storage, root: Path, made: Path) -> None:
    (root / "out" / "mp4.mp4").mkdir(parents=True)
    with pytest.raises(StorageError):
        Upload().put(destination(storage, f"file://{root}/out/"), "mp4.mp4", made)
    assert [path.name for path in (root / "out").iterdir()] == ["mp4.mp4"]


@pytest.fixture
def limited(made: Path) -> Iterator[Path]:
    """Limit files of this process to 2 MB, so that a longer write fails as it does on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, before[1]))
    yield made
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_an_output_that_finds_no_room_leaves_nothing(storage: Storage, root: Path, limited: Path) -> None:
    with pytest.raises(StorageError) as failed:
        Upload().put(destination(storage, f"file://{root}/out/"), "mp4.mp4", limited)
    assert (failed.value.code, failed.value.retry_class) == ("disk_full", RetryClass.TRANSIENT)
    assert list((root / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, "disk_full"),
        (errno.EDQUOT, "disk_full"),
        (errno.EFBIG, "disk_full"),
        (errno.ENOENT, "output_not_found"),
        (errno.ELOOP, "file_outside_roots"),
        (errno.EIO, "output_unreachable"),
        (errno.EMFILE, "output_unreachable"),
        (errno.ENFILE, "output_unreachable"),
        (errno.ENOMEM, "output_unreachable"),
        (errno.EACCES, "output_forbidden"),
        (errno.EPERM, "output_forbidden"),
        (errno.EROFS, "output_forbidden"),
    ],
)
def test_each_failure_of_a_file_system_has_its_code(number: int, code: str) -> None:
    assert (
        os_error_as_storage_error("file:///data/a", "output", OSError(number, os.strerror(number))).code
        == code
    )
