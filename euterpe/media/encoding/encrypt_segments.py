"""Encrypt the segments of an HLS output with AES-128 (RFC 8216, §5.2), after their verification.

Each file is encrypted with AES-CBC and PKCS7 padding. The key comes from the requester, and stays in the
worker's process.
"""

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES128
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.padding import PKCS7

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.encoding.output_folder import DiskUse
from euterpe.media.errors import MediaError

_BLOCK_BYTES = 16
_PIECE_BYTES = 1 << 20
# No planned file has this name, because the names of outputs and renditions do not begin with a dot.
_UNFINISHED = ".encrypted"


def encrypt_segments(
    folder: Path,
    segments: Sequence[str],
    key: bytes,
    *,
    iv: bytes | None,
    disk: DiskUse,
    on_tick: Callable[[], None],
) -> None:
    """Replace the segments of one rendition, given in order, by encrypted files.

    Without `iv`, the initialization vector of a segment is its media sequence number. So the same segments
    always become the same files. Raise `MediaError` if a segment is a link or a special file.
    """
    parent = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for number, name in enumerate(segments):
            vector = iv if iv is not None else number.to_bytes(_BLOCK_BYTES, "big")
            with _opened(parent, name) as (source, size):
                disk.add(size + _BLOCK_BYTES)
                _encrypt(source, parent, Cipher(AES128(key), CBC(vector)).encryptor(), on_tick)
            os.rename(_UNFINISHED, name, src_dir_fd=parent, dst_dir_fd=parent)
            disk.remove(size)
    finally:
        os.close(parent)


def _encrypt(source: BinaryIO, parent: int, encryptor: CipherContext, on_tick: Callable[[], None]) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    padder = PKCS7(_BLOCK_BYTES * 8).padder()
    with os.fdopen(os.open(_UNFINISHED, flags, 0o644, dir_fd=parent), "wb") as target:
        while piece := source.read(_PIECE_BYTES):
            on_tick()
            target.write(encryptor.update(padder.update(piece)))
        target.write(encryptor.update(padder.finalize()) + encryptor.finalize())


@contextmanager
def _opened(parent: int, name: str) -> Iterator[tuple[BinaryIO, int]]:
    """Yield a regular file and its size.

    Refuse links and special files: without Landlock, a compromised ffmpeg could replace a segment by a FIFO,
    or by a link to another job's file.
    """
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = os.fdopen(os.open(name, flags, dir_fd=parent), "rb")
    except OSError as error:
        raise MediaError(
            ErrorCode.OUTPUT_UNDECODABLE, f"{name} cannot be opened ({error.strerror})"
        ) from None
    with file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise MediaError(ErrorCode.OUTPUT_UNDECODABLE, f"{name} is not a regular file")
        yield file, status.st_size
