"""A ring that follows its file."""

import json
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from euterpe.crypto import keyfile
from euterpe.crypto.envelope import seal, unseal, webhook_secret_context
from euterpe.crypto.errors import KeyRingError, UnknownKek
from euterpe.crypto.file_keyring import FileKeyRing
from euterpe.crypto.keyfile import activate_key, add_key, remove_key

CONTEXT = webhook_secret_context("r1", "s1")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ring file of one key, k1."""
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
    assert (ring.active_id, ring.kek_ids) == ("k2", ("k2",))
    with pytest.raises(UnknownKek):
        unseal(sealed, CONTEXT, ring)


def test_a_file_that_stays_is_read_once(ring: FileKeyRing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyfile, "read", None)
    sealed = seal(b"secret", CONTEXT, ring)
    assert unseal(sealed, CONTEXT, ring) == b"secret"
    with pytest.raises(UnknownKek):
        ring.unwrap("k9", bytes(60), b"")


def test_a_known_key_opens_without_a_look_at_the_file(path: Path, ring: FileKeyRing) -> None:
    sealed = seal(b"secret", CONTEXT, ring)
    add_key(path, "k2")
    assert unseal(sealed, CONTEXT, ring) == b"secret"
    assert "k2" not in ring._ring.kek_ids


def half(path: Path) -> None:
    path.write_text(path.read_text()[:40])


def emptied(path: Path) -> None:
    path.write_text("")


def gone(path: Path) -> None:
    path.unlink()


def exposed(path: Path) -> None:
    path.write_text(path.read_text() + "\n")
    path.chmod(0o644)


def without_its_active_key(path: Path) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), "active": "k9"}))


def linked(path: Path) -> None:
    path.symlink_to(path.rename(path.with_name("elsewhere.json")))


@pytest.mark.parametrize("broken", [half, emptied, gone, exposed, without_its_active_key, linked])
def test_a_file_that_cannot_be_read_replaces_no_ring(
    path: Path, ring: FileKeyRing, caplog: pytest.LogCaptureFixture, broken: Callable[[Path], None]
) -> None:
    caplog.set_level(logging.INFO, "euterpe")
    whole = path.read_bytes()
    sealed = seal(b"secret", CONTEXT, ring)
    broken(path)
    for _ in range(3):
        assert seal(b"other", CONTEXT, ring).kek_id == "k1"
        assert unseal(sealed, CONTEXT, ring) == b"secret"
        with pytest.raises(UnknownKek):
            ring.unwrap("k9", bytes(60), b"")
    (told,) = caplog.records
    assert (told.message, told.levelname) == ("key_ring_not_read", "WARNING")
    assert str(path) in vars(told)["error"]
    assert not any(key in str(vars(told)) for key in json.loads(whole)["keys"].values())
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(whole)
    add_key(path, "k2")
    activate_key(path, "k2")
    assert ring.active_id == "k2"
    assert caplog.messages[1:] == ["key_ring_read"]


def test_what_is_mended_without_a_change_of_the_file_is_seen(path: Path, ring: FileKeyRing) -> None:
    """As its mode is, after a copy that did not keep it."""
    add_key(path, "k2")
    activate_key(path, "k2")
    path.chmod(0o640)
    assert ring.active_id == "k1"
    path.chmod(0o600)
    assert ring.active_id == "k2"


def test_a_change_while_the_file_is_read_is_seen_at_the_next_look(
    path: Path, ring: FileKeyRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = keyfile.read

    def and_then_it_changes(_: Path) -> object:
        monkeypatch.undo()
        found = read(path)
        activate_key(path, "k2")
        return found

    add_key(path, "k2")
    monkeypatch.setattr(keyfile, "read", and_then_it_changes)
    assert ring.active_id == "k1"
    assert ring.active_id == "k2"


def test_a_ring_that_is_not_there_at_the_start_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyRingError, match="euterpe keys add"):
        FileKeyRing(tmp_path / "none.json")


def test_many_who_seal_during_a_rotation_lose_nothing(path: Path, ring: FileKeyRing) -> None:
    def seal_and_open(number: int) -> bool:
        if number % 20 == 0:
            activate_key(path, add_key(path))
        plaintext = str(number).encode()
        return unseal(seal(plaintext, CONTEXT, ring), CONTEXT, ring) == plaintext

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(seal_and_open, range(200)))
    assert ring.active_id == keyfile.read(path).active
