"""Seal the secrets of a job to the public key of a remote worker (HPKE, RFC 9180, base mode).

TLS can end at a proxy, and proxies, debug logs and tracing tools can store HTTP bodies. Nobody can read
sealed secrets in these stored bodies. The suite is DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM. A
sealed secret is the encapsulated key (32 bytes), followed by the ciphertext with its tag.
"""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from euterpe.domain.errors import EuterpeError

SUITE = "hpke-x25519-hkdf-sha256-aes-128-gcm"

_HPKE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)
_TO_URL_SAFE = str.maketrans("+/", "-_")


class CannotOpen(EuterpeError):
    """The secret was changed, or it was sealed to another key, or for another job, attempt or version."""

    code = "cannot_open"

    def __init__(self) -> None:
        super().__init__("the sealed credentials were not sealed to this worker and attempt, or were changed")


class MalformedPublicKey(EuterpeError):
    code = "malformed_public_key"

    def __init__(self) -> None:
        super().__init__("public_key must be an X25519 public key: 32 bytes as base64url")


def new_private_key() -> X25519PrivateKey:
    return X25519PrivateKey.generate()


def public_key_text(private_key: X25519PrivateKey) -> str:
    """Return the public key as base64url without padding."""
    return urlsafe_b64encode(private_key.public_key().public_bytes_raw()).rstrip(b"=").decode()


def read_public_key(text: str) -> X25519PublicKey:
    """Parse a public key in base64url or standard base64. Raise `MalformedPublicKey`."""
    try:
        digits = text.translate(_TO_URL_SAFE).removesuffix("=")
        raw = urlsafe_b64decode(digits.encode("ascii") + b"=")
        if urlsafe_b64encode(raw).rstrip(b"=").decode() != digits:
            raise MalformedPublicKey
        return X25519PublicKey.from_public_bytes(raw)
    except (binascii.Error, ValueError):
        raise MalformedPublicKey from None


def credentials_info(job_id: str, attempt_id: str, credential_version: int) -> bytes:
    """Return the parameter `info` of HPKE, which binds sealed credentials to an attempt."""
    return "\0".join(("euterpe-worker-cred-v1", job_id, attempt_id, str(credential_version))).encode()


def seal_to(public_key: X25519PublicKey, plaintext: bytes, info: bytes) -> bytes:
    """Return `plaintext` sealed to `public_key`, and bound to `info`. Raise `MalformedPublicKey`."""
    try:
        return _HPKE.encrypt(plaintext, public_key, info)
    except ValueError:  # a point of low order: the shared secret would be known to everybody
        raise MalformedPublicKey from None


def open_with(private_key: X25519PrivateKey, sealed: bytes, info: bytes) -> bytes:
    """Return the plaintext. Raise `CannotOpen` unless `sealed` was made for this key and `info`."""
    try:
        return _HPKE.decrypt(sealed, private_key, info)
    except (InvalidTag, ValueError):
        raise CannotOpen from None
