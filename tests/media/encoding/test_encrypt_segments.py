"""Tests of AES-128: each segment can be decrypted alone, and no other file changes."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC, ECB

from euterpe.media.encoding.encrypt_segments import encrypt_segments
from euterpe.media.encoding.output_folder import DiskUse
from euterpe.media.errors import MediaError

KEY = bytes(range(16))
MIB = 1 << 20


def encrypt(folder: Path, names: Sequence[str], iv: bytes | None = None) -> list[int]:
    """Encrypt the files, and return the reported disk usage."""
    disk = list[int]()
    use = DiskUse(folder, disk.append)
    encrypt_segments(folder, names, KEY, iv=iv, disk=use, on_tick=lambda: None)
    return disk


def decrypted(data: bytes, iv: bytes) -> bytes:
    """Decrypt with only the block cipher, following the definitions of CBC and PKCS#7."""
    blocks = Cipher(AES(KEY), ECB()).decryptor()  # noqa: S305  by hand, as a second opinion
    plain = blocks.update(data) + blocks.finalize()
    chained = bytes(one ^ other for one, other in zip(plain, iv + data, strict=False))
    assert chained[-chained[-1] :] == bytes([chained[-1]]) * chained[-1]
    return chained[: -chained[-1]]


@pytest.mark.parametrize("size", [1, 15, 16, 17, 4096, 70_001])
@pytest.mark.parametrize("iv", [None, bytes.fromhex("f" * 32)])
def test_a_segment_decrypts_to_what_it_was(tmp_path: Path, size: int, iv: bytes | None) -> None:
    clear = {f"a_{number}.m4s": os.urandom(size) for number in range(3)}
    for name, data in clear.items():
        (tmp_path / name).write_bytes(data)
    encrypt(tmp_path, [*clear], iv)
    for number, (name, data) in enumerate(clear.items()):
        found = (tmp_path / name).read_bytes()
        assert len(found) == (size // 16 + 1) * 16
        assert decrypted(found, iv or number.to_bytes(16, "big")) == data
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(clear)


def test_a_large_segment_is_encrypted_in_pieces(tmp_path: Path) -> None:
    data = os.urandom(5 * MIB + 5)
    (tmp_path / "a.m4s").write_bytes(data)
    encrypt(tmp_path, ["a.m4s"])
    opened = Cipher(AES(KEY), CBC(bytes(16))).decryptor()
    assert (opened.update((tmp_path / "a.m4s").read_bytes()) + opened.finalize())[: len(data)] == data


def test_the_same_segments_become_the_same_bytes(tmp_path: Path) -> None:
    found = []
    for folder in (tmp_path / "1", tmp_path / "2"):
        folder.mkdir()
        (folder / "a.m4s").write_bytes(b"segment" * 100)
        encrypt(folder, ["a.m4s"])
        found.append((folder / "a.m4s").read_bytes())
    assert found[0] == found[1]


def test_one_segment_at_a_time_takes_disk_twice(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_bytes(bytes(100 * 4096 - 16))
    assert encrypt(tmp_path, "abc") == [400 * 4096] * 3


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """Without Landlock, a compromised ffmpeg could replace a segment by a link."""
    other = tmp_path / "other"
    other.write_bytes(b"another job")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.m4s").symlink_to(other)
    os.mkfifo(tmp_path / "out" / "b.m4s")
    (tmp_path / "out" / "c.m4s").mkdir()
    for name in ("a.m4s", "b.m4s", "c.m4s", "missing.m4s"):
        with pytest.raises(MediaError) as refused:
            encrypt(tmp_path / "out", [name])
        assert refused.value.code == "output_undecodable"
    assert other.read_bytes() == b"another job"


def test_a_long_encryption_can_be_stopped(tmp_path: Path) -> None:
    class Stopped(Exception):
        pass

    def stop() -> None:
        raise Stopped

    (tmp_path / "a.m4s").write_bytes(b"x")
    with pytest.raises(Stopped):
        encrypt_segments(
            tmp_path, ["a.m4s"], KEY, iv=None, disk=DiskUse(tmp_path, lambda _: None), on_tick=stop
        )
