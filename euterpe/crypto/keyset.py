"""The text form of a key ring: `{"active": "k1", "keys": {"k1": "<base64 of 32 bytes>"}}`."""

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from euterpe.crypto.errors import KeyRingError

_KEK_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_KEK_BYTES = 32


@dataclass(frozen=True)
class KeySet:
    """KEKs that are fit for use: every instance has passed the checks."""

    where: str  # the file or the variable, for the errors
    active: str
    keys: Mapping[str, bytes] = field(repr=False)

    def __post_init__(self) -> None:
        # An odd id is not echoed: the likeliest one is a key in the wrong place.
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
            document = None  # the error of json holds the text, and so the keys
        match document:
            case {"active": str(active), "keys": dict(keys), **rest} if not rest:
                return cls(where, active, {kek_id: _decode(key) for kek_id, key in keys.items()})
        raise KeyRingError(where, 'write it as {"active": "k1", "keys": {"k1": "<base64 of 32 bytes>"}}')

    def dump(self) -> str:
        keys = {kek_id: base64.b64encode(key).decode() for kek_id, key in self.keys.items()}
        return json.dumps({"active": self.active, "keys": keys}, indent=2) + "\n"


def _decode(key: object) -> bytes:
    """The key's bytes; none of them, which is never a key, when it is not base64."""
    try:
        return base64.b64decode(key, validate=True) if isinstance(key, str) else b""
    except ValueError:
        return b""
