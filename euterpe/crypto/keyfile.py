"""The key ring file. A file that other users can read is refused. A change replaces the file atomically."""

import base64
import fcntl
import json
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from secrets import token_bytes, token_hex
from typing import Self

from euterpe.crypto.errors import KeyRingError

_KEK_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_KEK_BYTES = 32


@dataclass(frozen=True)
class KeySet:
    """A validated set of KEKs. The constructor raises `KeyRingError` if a check fails."""

    where: str  # the file or the variable, for error messages
    active: str
    keys: Mapping[str, bytes] = field(repr=False)

    def __post_init__(self) -> None:
        # The error does not quote an invalid id, because such an id is most likely a key in the wrong place.
        if not all(_KEK_ID.fullmatch(kek_id) for kek_id in (self.active, *self.keys)):
            raise KeyRingError(
                self.where, "an id is 1 to 63 of a-z 0-9 . _ - and begins with a letter or a digit: rename it"
            )
        for kek_id, key in self.keys.items():
            if len(key) != _KEK_BYTES:
                raise KeyRingError(self.where, f"key {kek_id} must be {_KEK_BYTES} random bytes in base64")
        if self.active not in self.keys:
            raise KeyRingError(
                self.where, f"there is no key {self.active}: choose one of {', '.join(self.keys) or 'none'}"
            )
        if len(set(self.keys.values())) < len(self.keys):
            raise KeyRingError(self.where, "two ids have the same key: rotating between them changes nothing")

    @classmethod
    def parse(cls, text: str | bytes, where: str) -> Self:
        def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
            if len(dict(pairs)) < len(pairs):
                raise KeyRingError(where, "a name occurs twice in one object: keep one of the two")
            return dict(pairs)

        try:
            document = json.loads(text, object_pairs_hook=unique)
        except (ValueError, RecursionError):
            document = None  # do not show the exception, because it contains the text with the keys
        match document:
            case {"active": str(active), "keys": dict(keys), **rest} if not rest:
                return cls(where, active, {kek_id: _decode(key) for kek_id, key in keys.items()})
        raise KeyRingError(where, 'write it as {"active": "k1", "keys": {"k1": "<base64 of 32 bytes>"}}')

    def dump(self) -> str:
        keys = {kek_id: base64.b64encode(key).decode() for kek_id, key in self.keys.items()}
        return json.dumps({"active": self.active, "keys": keys}, indent=2) + "\n"


def _decode(key: object) -> bytes:
    """Return the bytes of the key. If the text is not base64, return b"", which is not a valid key."""
    try:
        return base64.b64decode(key, validate=True) if isinstance(key, str) else b""
    except ValueError:
        return b""


# Normally no process waits this long, because a change of the file holds the lock only for milliseconds.
LOCK_TIMEOUT_S = 10.0


def read(path: Path) -> KeySet:
    """Return the keys in the file.

    Raise `KeyRingError` if the file is missing, malformed or open to other users.
    """

    # O_NOFOLLOW refuses a link, because a link could be used to replace the ring. With O_NONBLOCK, `open`
    # does not wait for the writer of a FIFO, so that a FIFO can be refused.
    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK)

    try:
        with open(path, "rb", opener=opener) as file:
            _refuse_if_exposed(path, os.fstat(file.fileno()))
            return KeySet.parse(file.read(), where=str(path))
    except FileNotFoundError:
        raise KeyRingError(path, "no such file: `euterpe keys add` creates it") from None
    except OSError as error:
        raise KeyRingError(
            path, f"cannot be read ({error.strerror}): it must be a regular file of ours, not a link"
        ) from error


def create_file(path: Path) -> bool:
    """Create a file with one active key and return True.

    If the file exists already, or another process creates the file at this moment, keep that file and return
    False.
    """
    with _locked(path):
        missing = not os.path.lexists(path)
        if missing:
            _write(path, _ring_of_one(path, _new_id()))
    return missing


def add_key(path: Path, kek_id: str | None = None, *, lock_timeout_s: float = LOCK_TIMEOUT_S) -> str:
    """Add a random KEK and return its id. The first KEK of a ring is active. Later KEKs must be activated."""
    new_id = _new_id() if kek_id is None else kek_id
    with _locked(path, lock_timeout_s):
        if not os.path.lexists(path):
            _write(path, _ring_of_one(path, new_id))
            return new_id
        ring = read(path)
        if new_id in ring.keys:
            raise KeyRingError(path, f"there is a key {new_id} already: choose another id")
        _write(path, replace(ring, keys={**ring.keys, new_id: token_bytes(32)}))
    return new_id


def activate_key(path: Path, kek_id: str) -> None:
    with _locked(path):
        _write(path, replace(read(path), active=kek_id))


def remove_key(path: Path, kek_id: str) -> None:
    """Remove a KEK.

    Secrets whose DEK is wrapped by this KEK are lost. So make sure first that there are no such secrets.
    """
    with _locked(path):
        ring = read(path)
        if kek_id not in ring.keys:
            raise KeyRingError(path, f"there is no key {kek_id!r}: choose one of {', '.join(ring.keys)}")
        if kek_id == ring.active:
            raise KeyRingError(path, f"key {kek_id} is active: activate another one and rewrap first")
        _write(path, replace(ring, keys={i: key for i, key in ring.keys.items() if i != kek_id}))


def _new_id() -> str:
    return f"k-{token_hex(4)}"


def _ring_of_one(path: Path, kek_id: str) -> KeySet:
    return KeySet(str(path), kek_id, {kek_id: token_bytes(32)})


def _refuse_if_exposed(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise KeyRingError(path, "is not a regular file: name one")
    if status.st_uid not in (os.geteuid(), 0):
        raise KeyRingError(path, f"belongs to uid {status.st_uid}: run `chown {os.geteuid()} {path}`")
    mode = stat.S_IMODE(status.st_mode)
    if mode & ~0o600:
        raise KeyRingError(path, f"has mode {mode:04o}, so others could use it: run `chmod 600 {path}`")


@contextmanager
def _locked(path: Path, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[None]:
    """Lock the directory of the file, so that only one process at a time changes the file.

    A lock on the file itself would not help, because each change replaces the file.
    """
    try:
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _lock(path, directory, timeout_s)
            yield
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        raise KeyRingError(
            path, f"cannot be changed ({error.strerror}): its directory must be there and writable"
        ) from error


def _lock(path: Path, directory: int, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise KeyRingError(path, "is being changed by somebody else: try again") from None
            time.sleep(0.01)


def _write(path: Path, ring: KeySet) -> None:
    temporary = path.with_name(f".{path.name}.new")
    # If this file exists, a killed process left it: only the process with the lock writes this file, and this
    # process has the lock.
    temporary.unlink(missing_ok=True)
    try:
        with open(temporary, "x", opener=partial(os.open, mode=0o600)) as file:
            file.write(ring.dump())
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
