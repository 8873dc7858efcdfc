"""The key ring reloads its file when the file changes."""

import json
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from euterpe.crypto import keyfile
from euterpe.crypto.envelope import seal, unseal, webhook_secret_context
from euterpe.crypto.errors import KeyRingError, UnknownKek
from euterpe.crypto.keyfile import activate_key, add_key, remove_key
from euterpe.crypto.local_key_ring import FileKeyRing

CONTEXT = webhook_secret_context("r1", "s1")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a key file with one key, k1."""
    path = tmp_path / "kek.json"
    add_key(path, "k1")
    return path


@pytest.fixture
def ring(path: Path) -> FileKeyRing:
    return FileKeyRing(path)


def test_a_secret_under_a_key_that_came_later_is_opened(path: Path, ring: FileKeyRing) -> None:
    add_key(path, "k2")
    activate_key(path, "k2")
    sealed = seal(b"secret", CONTEXT, FileKeyRing(path))
    assert sealed.kek_id == "k2"
    assert unseal(sealed, CONTEXT, ring) == b"secret"


def test_a_secret_is_sealed_under_the_key_that_is_active_now(path: Path, ring: FileKeyRing) -> None:
    assert seal(b"secret", CONTEXT, ring).kek_id == "k1"
    add_key(path, "k2")
    activate_key(path, "k2")
    assert seal(b"secret", CONTEXT, ring).kek_id == "k2"
    activate_key(path, "k1")
    assert seal(b"secret", CONTEXT, ring).kek_id == "k1"


def test_a_key_that_was_retired_opens_nothing_once_the_file_was_read(path: Path, ring: FileKeyRing) -> None:
    sealed = seal(b"secret", CONTEXT, ring)
    add_key(path, "k2")
    activate_key(path, "k2")
    remove_key(path, "k1")
    assert (ring.active_id, ring.ids) == ("k2", ("k2",))
    with pytest.raises(UnknownKek):
        unseal(sealed, CONTEXT, ring)


def test_a_file_that_stays_is_read_once(ring: FileKeyRing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyfile, "read", None)
    sealed = seal(b"secret", CONTEXT, ring)
    assert unseal(sealed, CONTEXT, ring) == b"secret"
    with pytest.raises(UnknownKek):
        ring.unwrap("k9", bytes(60), b"")


def test_a_known_key_opens_without_a_check_of_the_file(path: Path, ring: FileKeyRing) -> None:
    sealed = seal(b"secret", CONTEXT, ring)
    add_key(path, "k2")
    assert unseal(sealed, CONTEXT, ring) == b"secret"
    assert "k2" not in ring._ring.ids


def truncated(path: Path) -> None:
    path.write_text(path.read_text()[:40])


def emptied(path: Path) -> None:
    path.write_text("")


def deleted(path: Path) -> None:
    path.unlink()


def exposed(path: Path) -> None:
    path.write_text(path.read_text() + "\n")
    path.chmod(0o644)


def without_its_active_key(path: Path) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), "active": "k9"}))


def symlinked(path: Path) -> None:
    path.symlink_to(path.rename(path.with_name("elsewhere.json")))


@pytest.mark.parametrize("damage", [truncated, emptied, deleted, exposed, without_its_active_key, symlinked])
def test_a_file_that_cannot_be_read_replaces_no_ring(
    path: Path, ring: FileKeyRing, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], None]
) -> None:
    caplog.set_level(logging.INFO, "euterpe")
    intact = path.read_bytes()
    sealed = seal(b"secret", CONTEXT, ring)
    damage(path)
    for _ in range(3):
        assert seal(b"other", CONTEXT, ring).kek_id == "k1"
        assert unseal(sealed, CONTEXT, ring) == b"secret"
        with pytest.raises(UnknownKek):
            ring.unwrap("k9", bytes(60), b"")
    (record,) = caplog.records
    assert (record.message, record.levelname) == ("key_ring_not_read", "WARNING")
    assert str(path) in vars(record)["error"]
    assert not any(key in str(vars(record)) for key in json.loads(intact)["keys"].values())
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(intact)
    add_key(path, "k2")
    activate_key(path, "k2")
    assert ring.active_id == "k2"
    assert caplog.messages[1:] == ["key_ring_read"]


def test_a_repair_of_the_mode_alone_is_seen(path: Path, ring: FileKeyRing) -> None:
    """A chmod does not change the inode, size or mtime, by which the ring detects a changed file."""
    add_key(path, "k2")
    activate_key(path, "k2")
    path.chmod(0o640)
    assert ring.active_id == "k1"
    path.chmod(0o600)
    assert ring.active_id == "k2"


def test_a_change_while_the_file_is_read_is_seen_at_the_next_check(
    path: Path, ring: FileKeyRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = keyfile.read

    def read_then_change(_: Path) -> object:
        monkeypatch.undo()
        keys = read(path)
        activate_key(path, "k2")
        return keys

    add_key(path, "k2")
    monkeypatch.setattr(keyfile, "read", read_then_change)
    assert ring.active_id == "k1"
    assert ring.active_id == "k2"


def test_a_ring_that_is_not_there_at_the_start_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyRingError, match="euterpe keys add"):
        FileKeyRing(tmp_path / "none.json")


def test_every_secret_that_is_sealed_during_a_rotation_opens(path: Path, ring: FileKeyRing) -> None:
    def seal_and_open(number: int) -> bool:
        if number % 20 == 0:
            activate_key(path, add_key(path))
        plaintext = str(number).encode()
        return unseal(seal(plaintext, CONTEXT, ring), CONTEXT, ring) == plaintext

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(seal_and_open, range(200)))
    assert ring.active_id == keyfile.read(path).active
