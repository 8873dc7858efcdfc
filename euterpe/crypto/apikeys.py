"""API keys: `eut_<id>_<secret><checksum>`. Only the id and a hash of the secret are stored."""

import hashlib
import hmac
import re
import string
import zlib
from dataclasses import dataclass, field
from secrets import choice

from euterpe.crypto.errors import MalformedApiKey

_BASE62 = string.digits + string.ascii_uppercase + string.ascii_lowercase
_ID, _SECRET, _CHECKSUM = 12, 30, 6
_SHAPE = re.compile(rf"(eut_([0-9A-Za-z]{{{_ID}}})_([0-9A-Za-z]{{{_SECRET}}}))([0-9A-Za-z]{{{_CHECKSUM}}})")


@dataclass(frozen=True)
class MintedKey:
    """A new API key. `plaintext` is shown to its owner once. The other fields are stored."""

    key_id: str
    secret_hash: str = field(repr=False)
    plaintext: str = field(repr=False)


@dataclass(frozen=True)
class ParsedKey:
    key_id: str
    secret: str = field(repr=False)


@dataclass(frozen=True)
class HashedKey:
    """A key in the form in which it is stored. This form suffices to check later whether the key is valid."""

    key_id: str
    secret_hash: str = field(repr=False)


def mint() -> MintedKey:
    key_id, secret = _random_text(_ID), _random_text(_SECRET)
    text = f"eut_{key_id}_{secret}"
    return MintedKey(key_id, _hash(secret), text + _checksum(text))


def parse(text: str) -> ParsedKey:
    """Return the id and secret of a key. The checksum detects a typo without a query to the database."""
    shape = _SHAPE.fullmatch(text)
    if shape is None or _checksum(shape[1]) != shape[4]:
        raise MalformedApiKey
    return ParsedKey(shape[2], shape[3])


def matches(parsed: ParsedKey, secret_hash: str) -> bool:
    return hmac.compare_digest(_hash(parsed.secret).encode(), secret_hash.encode())


def hashed(parsed: ParsedKey) -> HashedKey:
    return HashedKey(parsed.key_id, _hash(parsed.secret))


def _random_text(length: int) -> str:
    return "".join(choice(_BASE62) for _ in range(length))


def _hash(secret: str) -> str:
    """Return a plain SHA-256. No slow hash is needed, because 178 random bits cannot be guessed."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _checksum(text: str) -> str:
    number, digits = zlib.crc32(text.encode()), ""
    for _ in range(_CHECKSUM):
        number, digit = divmod(number, len(_BASE62))
        digits = _BASE62[digit] + digits
    return digits
