"""Sealed secrets as text, for a configuration file.

A sealed text is `eus1.KEK_ID.DEK.CIPHERTEXT`. DEK and CIPHERTEXT are base64url. The KEK id may contain dots.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode

from euterpe.crypto.envelope import FORMAT_VERSION, Context, Sealed, seal, unseal
from euterpe.crypto.errors import CannotDecrypt
from euterpe.crypto.key_provider import KeyProvider

_PREFIX = f"eus{FORMAT_VERSION}"


def seal_text(secret: str, context: Context, keys: KeyProvider) -> str:
    """Return the secret, encrypted under the active KEK."""
    sealed = seal(secret.encode(), context, keys)
    return ".".join((_PREFIX, sealed.kek_id, _text(sealed.dek_wrapped), _text(sealed.ciphertext)))


def unseal_text(text: str, context: Context, keys: KeyProvider) -> str:
    """Return the secret. Raise `CannotDecrypt` for a malformed text, too, or `UnknownKek`."""
    return unseal(_parsed(text), context, keys).decode()


def kek_id_of(text: str) -> str:
    """Return the id of the KEK that encrypts the secret. Raise `CannotDecrypt` for a malformed text."""
    return _parsed(text).kek_id


def _parsed(text: str) -> Sealed:
    prefix, _, rest = text.partition(".")
    parts = rest.rsplit(".", 2)
    if prefix != _PREFIX or len(parts) != 3:
        raise CannotDecrypt
    kek_id, dek, ciphertext = parts
    return Sealed(_bytes(ciphertext), _bytes(dek), kek_id, FORMAT_VERSION)


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        raise CannotDecrypt from None
