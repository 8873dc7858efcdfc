import base64
import fcntl
import json
import os
import signal
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.crypto.errors import CannotDecrypt, KeyRingError, UnknownKek
from euterpe.crypto.keyfile import activate_key, add_key, create_file, read, remove_key
from euterpe.crypto.local_key_ring import FileKeyRing, LocalKeyRing, load_value

K1, K2 = (base64.b64encode(bytes([fill]) * 32).decode() for fill in (1, 2))
RING = {"active": "k1", "keys": {"k1": K1, "k2": K2}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a key file with two keys, of which k1 is active."""
    path = tmp_path / "kek.json"
    path.touch(mode=0o600)
    path.write_text(json.dumps(RING))
    return path


def is_ring_of(path: Path, active: str, *kek_ids: str) -> bool:
    ring = FileKeyRing(path)
    return (ring.active_id, sorted(ring.ids)) == (active, sorted(kek_ids))


def test_what_one_key_wraps_it_unwraps(path: Path) -> None:
    ring = FileKeyRing(path)
    for kek_id in ("k1", "k2"):
        assert ring.unwrap(kek_id, ring.wrap(kek_id, bytes(32), b"aad"), b"aad") == bytes(32)


def test_another_key_or_other_aad_does_not_unwrap(path: Path) -> None:
    ring = FileKeyRing(path)
    wrapped = ring.wrap("k1", bytes(32), b"aad")
    with pytest.raises(CannotDecrypt):
        ring.unwrap("k2", wrapped, b"aad")
    with pytest.raises(CannotDecrypt):
        ring.unwrap("k1", wrapped, b"other")
    with pytest.raises(UnknownKek):
        ring.unwrap("k3", wrapped, b"aad")


def test_the_environment_holds_the_same_json() -> None:
    ring = load_value(json.dumps(RING))
    assert (ring.active_id, ring.ids) == ("k1", ("k1", "k2"))


BAD = {
    "": "write it as",
    "{": "write it as",
    "[]": "write it as",
    "[" * 100_000: "write it as",
    '{"active": "k1"}': "write it as",
    '{"active": 1, "keys": {}}': "write it as",
    '{"active": "k1", "keys": ["k1"]}': "write it as",
    f'{{"active": "k1", "keys": {{"k1": "{K1}"}}, "extra": 1}}': "write it as",
    '{"active": "k1", "keys": {}}': "no key k1: choose one of none",
    f'{{"active": "k2", "keys": {{"k1": "{K1}"}}}}': "no key k2: choose one of k1",
    f'{{"active": "k1", "keys": {{"k1": "{K1}", "k1": "{K2}"}}}}': "twice",
    f'{{"active": "k1", "active": "k1", "keys": {{"k1": "{K1}"}}}}': "twice",
    f'{{"active": "k1", "keys": {{"k1": "{K1}", "k2": "{K1}"}}}}': "same key",
    f'{{"active": "{K1}", "keys": {{"k1": "{K1}"}}}}': "an id is",
    f'{{"active": "k1", "keys": {{"k1": "{K1}", "{K2}": "k2"}}}}': "an id is",
    f'{{"active": "K1", "keys": {{"K1": "{K1}"}}}}': "an id is",
    f'{{"active": ".k", "keys": {{".k": "{K1}"}}}}': "an id is",
    f'{{"active": "k1\\n", "keys": {{"k1\\n": "{K1}"}}}}': "an id is",
    f'{{"active": "{"k" * 64}", "keys": {{"{"k" * 64}": "{K1}"}}}}': "an id is",
    '{"active": "k1", "keys": {"k1": "not base64"}}': "key k1 must be 32",
    '{"active": "k1", "keys": {"k1": "é"}}': "key k1 must be 32",
    '{"active": "k1", "keys": {"k1": null}}': "key k1 must be 32",
    f'{{"active": "k1", "keys": {{"k1": "{K1}AAAA"}}}}': "key k1 must be 32",
    f'{{"active": "k1", "keys": {{"k1": " {K1}"}}}}': "key k1 must be 32",
    '{"active": "k1", "keys": {"k1": "AAAAAAAAAAAAAAAAAAAAAA=="}}': "key k1 must be 32",
}


@pytest.mark.parametrize(("text", "problem"), BAD.items(), ids=range(len(BAD)))
def test_a_bad_ring_is_refused_by_place_and_problem(path: Path, text: str, problem: str) -> None:
    path.write_text(text)
    with pytest.raises(KeyRingError, match=problem) as from_file:
        FileKeyRing(path)
    with pytest.raises(KeyRingError, match=problem) as from_value:
        load_value(text)
    assert str(path) in str(from_file.value)
    assert "EUTERPE_KEKS" in str(from_value.value)
    for error in (from_file.value, from_value.value):
        assert error.__context__ is None
        assert K1 not in str(error)
        assert K2 not in str(error)


@given(st.one_of(st.text(), st.recursive(st.text(), lambda x: st.dictionaries(st.text(), x)).map(json.dumps)))
def test_any_text_is_a_ring_or_a_key_ring_error(text: str) -> None:
    with pytest.raises(KeyRingError):
        load_value(text)


def test_bytes_that_are_not_text_are_refused(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\xfd")
    with pytest.raises(KeyRingError, match="write it as"):
        FileKeyRing(path)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o700, 0o601, 0o610, 0o644, 0o4600])
def test_a_file_that_others_could_use_is_refused(path: Path, mode: int) -> None:
    path.chmod(mode)
    with pytest.raises(KeyRingError, match=f"mode {mode:04o}.*chmod 600 {path}"):
        FileKeyRing(path)


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_file_that_is_ours_alone_is_read(path: Path, mode: int) -> None:
    path.chmod(mode)
    assert is_ring_of(path, "k1", "k1", "k2")


def test_a_file_of_another_user_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() == 0:
        os.chown(path, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(KeyRingError, match="belongs to uid"):
        FileKeyRing(path)


def test_what_is_not_a_regular_file_is_refused(path: Path, tmp_path: Path) -> None:
    link, fifo = tmp_path / "link", tmp_path / "fifo"
    link.symlink_to(path)
    os.mkfifo(fifo, 0o600)
    for other in (link, fifo, tmp_path):
        with pytest.raises(KeyRingError, match="regular file"):
            FileKeyRing(other)


def test_a_file_that_is_missing_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(KeyRingError, match="euterpe keys add"):
        FileKeyRing(tmp_path / "none.json")


def test_a_new_file_is_ours_alone_and_has_one_active_key(tmp_path: Path) -> None:
    path = tmp_path / "kek.json"
    umask = os.umask(0)
    try:
        assert create_file(path)
    finally:
        os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert FileKeyRing(path).ids == (FileKeyRing(path).active_id,)
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_exists_is_never_created_again(path: Path, tmp_path: Path) -> None:
    before, dangling = path.read_bytes(), tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "nowhere")
    assert not create_file(path)
    assert not create_file(dangling)
    assert path.read_bytes() == before
    assert not (tmp_path / "nowhere").exists()


def test_of_many_that_create_the_file_one_does(tmp_path: Path) -> None:
    path = tmp_path / "kek.json"

    def active_after(_: int) -> tuple[bool, str]:
        return create_file(path), FileKeyRing(path).active_id

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(active_after, range(16)))
    assert sum(created for created, _ in results) == 1
    assert len({active for _, active in results}) == 1


def test_the_first_key_is_active_and_the_next_only_decrypts(tmp_path: Path) -> None:
    path = tmp_path / "kek.json"
    assert add_key(path, "first") == "first"
    generated = add_key(path)
    assert generated.startswith("k-")
    assert is_ring_of(path, "first", "first", generated)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(set(read(path).keys.values())) == 2


def test_a_key_is_activated_and_the_old_one_removed(path: Path) -> None:
    wrapped = FileKeyRing(path).wrap("k2", bytes(32), b"")
    activate_key(path, "k2")
    assert is_ring_of(path, "k2", "k1", "k2")
    remove_key(path, "k1")
    assert is_ring_of(path, "k2", "k2")
    assert FileKeyRing(path).unwrap("k2", wrapped, b"") == bytes(32)


def test_edits_that_would_lose_keys_are_refused(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(KeyRingError, match="k2 already"):
        add_key(path, "k2")
    with pytest.raises(KeyRingError, match="an id is"):
        add_key(path, "")
    with pytest.raises(KeyRingError, match="no key k9: choose one of k1, k2"):
        activate_key(path, "k9")
    with pytest.raises(KeyRingError, match="no key 'k9': choose one of k1, k2"):
        remove_key(path, "k9")
    with pytest.raises(KeyRingError, match="k1 is active: activate another"):
        remove_key(path, "k1")
    path.chmod(0o644)
    with pytest.raises(KeyRingError, match="chmod 600"):
        add_key(path)
    assert path.read_bytes() == before


def test_a_directory_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(KeyRingError, match=r"none/kek\.json.*No such file or directory"):
        add_key(tmp_path / "none" / "kek.json")


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_whole(
    path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(KeyRingError, match="No space left on device"):
        add_key(path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_change_is_on_disk_before_it_takes_effect_and_before_it_is_reported(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = []
    fsync, rename = os.fsync, os.replace

    def recorded_fsync(descriptor: int) -> None:
        steps.append("sync directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "sync file")
        fsync(descriptor)

    def recorded_rename(source: Path, target: Path) -> None:
        steps.append("rename")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(os, "replace", recorded_rename)
    add_key(path)
    assert steps == ["sync file", "rename", "sync directory"]


def test_an_editor_that_is_killed_leaves_the_old_file_whole_and_the_next_one_works(path: Path) -> None:
    before = path.read_bytes()
    script = """
import os, pathlib, signal, sys
from euterpe.crypto.local_key_ring import FileKeyRing
from euterpe.crypto.keyfile import add_key
os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
add_key(pathlib.Path(sys.argv[1]), "k3")
"""
    killed = subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert path.read_bytes() == before
    add_key(path, "k4")
    assert is_ring_of(path, "k1", "k1", "k2", "k4")
    assert list(path.parent.iterdir()) == [path]


def test_editors_at_the_same_time_lose_nothing(path: Path) -> None:
    new_ids = [f"new-{number}" for number in range(24)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda kek_id: add_key(path, kek_id), new_ids))
    assert is_ring_of(path, "k1", "k1", "k2", *new_ids)


def test_no_repr_shows_a_key(path: Path) -> None:
    keys = read(path)
    assert repr(keys) == f"KeySet(where={str(path)!r}, active='k1')"
    assert repr(LocalKeyRing(keys)) == "LocalKeyRing(active_id='k1', ids=('k1', 'k2'))"


def test_the_wait_for_another_editor_has_a_time_limit(tmp_path: Path) -> None:
    directory = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        with pytest.raises(KeyRingError, match="somebody else"):
            add_key(tmp_path / "keks.json", lock_timeout_s=0.02)
    finally:
        os.close(directory)
    add_key(tmp_path / "keks.json")
