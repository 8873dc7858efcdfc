"""Envelope encryption: each secret has its own data key (DEK), which a KEK of the key provider wraps.

Format version 1, where ‖ joins bytes:

ciphertext  = mid[32] ‖ commitment[32] ‖ nonce[12] ‖ AES-256-GCM(plaintext) + tag
dek_wrapped = nonce[12] ‖ AES-256-GCM(DEK) + tag
"""

import hmac
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA512
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from euterpe.crypto.errors import CannotDecrypt, UnknownFormat
from euterpe.crypto.key_provider import KeyProvider

FORMAT_VERSION = 1

_KEY, _NONCE, _TAG = 32, 12, 16
_HEAD = _KEY + _KEY + _NONCE


@dataclass(frozen=True)
class Sealed:
    """A sealed secret, in the form in which the database stores it."""

    ciphertext: bytes = field(repr=False)
    dek_wrapped: bytes = field(repr=False)
    kek_id: str
    version: int


@dataclass(frozen=True)
class Context:
    """The owner of a secret.

    The owner is part of the AAD, so a secret that is moved to another row cannot be decrypted.
    """

    label: bytes
    fields: Mapping[str, str]

    def data_aad(self, mid: bytes, commitment: bytes) -> bytes:
        return _encode(self.label, self.fields) + mid + commitment

    def wrap_aad(self, kek_id: str) -> bytes:
        """Return the AAD of the wrapped DEK.

        The KEK is part of this AAD only, and not of the secret's AAD, so a rewrap does not encrypt the secret
        again.
        """
        return _encode(b"euterpe-dek-v1\0", {**self.fields, "kek_id": kek_id})


def credentials_context(job_id: str, requester_id: str, credential_version: int) -> Context:
    fields = {
        "job_id": job_id,
        "requester_id": requester_id,
        "credential_version": str(credential_version),
    }
    return Context(b"euterpe-cred-v1\0", fields)


def callbacks_context(job_id: str, requester_id: str) -> Context:
    return Context(b"euterpe-call-v1\0", {"job_id": job_id, "requester_id": requester_id, "of": "callbacks"})


def hls_keys_context(job_id: str, requester_id: str) -> Context:
    return Context(b"euterpe-hls-v1\0", {"job_id": job_id, "requester_id": requester_id, "of": "hls_keys"})


def webhook_secret_context(requester_id: str, secret_id: str) -> Context:
    return Context(b"euterpe-hook-v1\0", {"requester_id": requester_id, "secret_id": secret_id})


def service_secret_context(secret_id: str) -> Context:
    return Context(b"euterpe-serv-v1\0", {"secret_id": secret_id, "of": "service"})


def storage_profile_context(profile: str, field: str) -> Context:
    return Context(b"euterpe-prof-v1\0", {"profile": profile, "field": field, "of": "storage profile"})


def seal(
    plaintext: bytes, context: Context, keys: KeyProvider, *, random: Callable[[int], bytes] = os.urandom
) -> Sealed:
    """Encrypt `plaintext` under a new DEK, and wrap the DEK under the active KEK."""
    dek, mid, nonce = random(_KEY), random(_KEY), random(_NONCE)
    key, commitment = _derive(dek, mid)
    body = AESGCM(key).encrypt(nonce, plaintext, context.data_aad(mid, commitment))
    kek_id = keys.active_id
    return Sealed(
        ciphertext=mid + commitment + nonce + body,
        dek_wrapped=keys.wrap(kek_id, dek, context.wrap_aad(kek_id)),
        kek_id=kek_id,
        version=FORMAT_VERSION,
    )


def unseal(sealed: Sealed, context: Context, keys: KeyProvider) -> bytes:
    """Return the plaintext. Raise `CannotDecrypt`, `UnknownKek` or `UnknownFormat`."""
    dek = _unwrap(sealed, context, keys)
    if len(sealed.ciphertext) < _HEAD + _TAG:
        raise CannotDecrypt
    mid, claimed = sealed.ciphertext[:_KEY], sealed.ciphertext[_KEY : 2 * _KEY]
    nonce, body = sealed.ciphertext[2 * _KEY : _HEAD], sealed.ciphertext[_HEAD:]
    key, commitment = _derive(dek, mid)
    # With GCM alone, an attacker can make a ciphertext that decrypts under two keys. The commitment binds the
    # ciphertext to one key.
    if not hmac.compare_digest(claimed, commitment):
        raise CannotDecrypt
    try:
        return AESGCM(key).decrypt(nonce, body, context.data_aad(mid, commitment))
    except InvalidTag:
        raise CannotDecrypt from None


def rewrap(sealed: Sealed, context: Context, keys: KeyProvider) -> Sealed:
    """Return the secret with its DEK wrapped under the active KEK, or `sealed` itself if nothing changes."""
    _check_version(sealed)
    kek_id = keys.active_id
    if sealed.kek_id == kek_id:
        return sealed
    dek = _unwrap(sealed, context, keys)
    return replace(sealed, dek_wrapped=keys.wrap(kek_id, dek, context.wrap_aad(kek_id)), kek_id=kek_id)


def check(sealed: Sealed, context: Context, keys: KeyProvider) -> None:
    """Raise unless the provider can unwrap the DEK of this row. The secret itself is not decrypted."""
    _unwrap(sealed, context, keys)


def _unwrap(sealed: Sealed, context: Context, keys: KeyProvider) -> bytes:
    _check_version(sealed)
    return keys.unwrap(sealed.kek_id, sealed.dek_wrapped, context.wrap_aad(sealed.kek_id))


def _check_version(sealed: Sealed) -> None:
    if sealed.version != FORMAT_VERSION:
        raise UnknownFormat(sealed.version)


def _derive(dek: bytes, mid: bytes) -> tuple[bytes, bytes]:
    """Return the encryption key and the commitment to this key."""
    key, commitment = (
        HKDF(algorithm=SHA512(), length=_KEY, salt=mid, info=info).derive(dek)
        for info in (b"EUTERPE/v1/DERIVEKEY", b"EUTERPE/v1/COMMITKEY")
    )
    return key, commitment


def _encode(label: bytes, fields: Mapping[str, str]) -> bytes:
    """Return label and fields as bytes.

    The length of each text comes before the text, so that two different lists of fields never give the same
    bytes.
    """
    parts = [label, len(fields).to_bytes(2, "big")]
    for item in sorted(fields.items()):
        for text in item:
            data = text.encode()
            parts += [len(data).to_bytes(2, "big"), data]
    return b"".join(parts)
