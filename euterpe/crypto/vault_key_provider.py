"""A key provider that uses a key of HashiCorp Vault's transit engine. The KEKs never leave Vault."""

import threading
import time
from collections.abc import Callable

from euterpe.crypto.errors import CannotDecrypt, KeyProviderUnavailable, UnknownKek
from euterpe.crypto.vault_client import BadVaultRequest, KeyVersions, VaultTransit

_DEK_BYTES = 32
# The versions of the key are read again after this time, so a rotation in Vault takes effect after at most
# this time.
_VERSIONS_VALID_S = 30.0
# An unwrapped DEK is used for this long without asking Vault again, even if the token was revoked meanwhile.
# Without this cache there would be too many calls to Vault: a worker that waits for new credentials unseals
# the old credentials twice a second, and each webhook needs a secret.
_DEK_VALID_S = 60.0
_MOST_DEKS = 1_000
_MOST_DIGITS = 9  # the maximum number of digits of a version


class VaultKeyProvider:
    """One transit key of Vault, of a type with AEAD (aes256-gcm96). Each version of the key is a KEK.

    The id of a KEK is `vault:MOUNT/KEY:vN`. A wrapped DEK is Vault's ciphertext, `vault:vN:BASE64`.
    """

    def __init__(
        self,
        transit: VaultTransit,
        key: str,
        *,
        versions_valid_s: float = _VERSIONS_VALID_S,
        dek_valid_s: float = _DEK_VALID_S,
        most_deks: int = _MOST_DEKS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._transit, self._key, self._clock = transit, key, clock
        self._prefix = f"vault:{transit.mount}/{key}:v"
        self._versions_valid_s, self._dek_valid_s, self._most_deks = versions_valid_s, dek_valid_s, most_deks
        self._guard = threading.Lock()
        self._versions: KeyVersions | None = None
        self._versions_until = 0.0
        self._deks: dict[tuple[str, bytes, bytes], tuple[float, bytes]] = {}  # oldest first

    def __repr__(self) -> str:
        return f"VaultKeyProvider({self._prefix}*)"

    @property
    def active_id(self) -> str:
        return f"{self._prefix}{self._known_versions().latest}"

    @property
    def ids(self) -> tuple[str, ...]:
        known = self._known_versions()
        return tuple(f"{self._prefix}{number}" for number in range(known.latest, known.oldest - 1, -1))

    def wrap(self, kek_id: str, dek: bytes, aad: bytes) -> bytes:
        version = self._version_of(kek_id)
        try:
            ciphertext = self._transit.encrypt(self._key, version, dek, aad)
        except BadVaultRequest as error:
            self._forget_versions()  # after a rotation in Vault, this version may be too old
            raise KeyProviderUnavailable(f"Vault refuses to encrypt under {kek_id}: {error}") from None
        if not ciphertext.startswith(f"vault:v{version}:") or not ciphertext.isascii():
            raise KeyProviderUnavailable(f"Vault encrypted under another version than {kek_id}: update it")
        return ciphertext.encode()

    def unwrap(self, kek_id: str, wrapped: bytes, aad: bytes) -> bytes:
        if (dek := self._remembered(kek_id, wrapped, aad)) is not None:
            return dek
        if not wrapped.startswith(f"vault:v{self._version_of(kek_id)}:".encode()) or not wrapped.isascii():
            raise CannotDecrypt
        try:
            dek = self._transit.decrypt(self._key, wrapped.decode(), aad)
        except BadVaultRequest:
            dek = self._decrypt_again(kek_id, wrapped, aad)
        if len(dek) != _DEK_BYTES:
            # Vault authenticates the ciphertext, and this provider wraps only 32 bytes. So the row is not
            # wrong: the answer is wrong.
            raise KeyProviderUnavailable(f"Vault decrypted {len(dek)} bytes instead of {_DEK_BYTES}")
        self._remember(kek_id, wrapped, aad, dek)
        return dek

    def _decrypt_again(self, kek_id: str, wrapped: bytes, aad: bytes) -> bytes:
        """Call Vault again after the answer 400, and return the DEK.

        Raise `CannotDecrypt` if Vault answers 400 again. The first answer can mean that Vault no longer
        decrypts with this version of the key. The status 400 alone does not show this, so read the versions
        again before the second call. The first answer can also come from a proxy, or from a Vault that is
        starting. So one answer 400 is not enough for `CannotDecrypt`, which is final for a job.
        """
        self._forget_versions()
        self._version_of(kek_id)
        try:
            return self._transit.decrypt(self._key, wrapped.decode(), aad)
        except BadVaultRequest:
            raise CannotDecrypt from None

    def _version_of(self, kek_id: str) -> int:
        number = kek_id.removeprefix(self._prefix)
        if number == kek_id or not (number.isascii() and number.isdigit()) or len(number) > _MOST_DIGITS:
            raise UnknownKek(kek_id)
        known = self._known_versions()
        if int(number) > known.latest:
            self._forget_versions()  # Vault may have rotated the key in the meantime
            known = self._known_versions()
        if not known.oldest <= int(number) <= known.latest:
            raise UnknownKek(kek_id)
        return int(number)

    def _known_versions(self) -> KeyVersions:
        with self._guard:
            if self._versions is not None and self._clock() < self._versions_until:
                return self._versions
        try:
            found = self._transit.versions(self._key)
        except BadVaultRequest as error:
            raise KeyProviderUnavailable(f"Vault does not describe the key {self._key}: {error}") from None
        with self._guard:
            self._versions, self._versions_until = found, self._clock() + self._versions_valid_s
        return found

    def _forget_versions(self) -> None:
        with self._guard:
            self._versions = None

    def _remembered(self, kek_id: str, wrapped: bytes, aad: bytes) -> bytes | None:
        with self._guard:
            until, dek = self._deks.get((kek_id, wrapped, aad), (0.0, b""))
        return dek if self._clock() < until else None

    def _remember(self, kek_id: str, wrapped: bytes, aad: bytes, dek: bytes) -> None:
        now = self._clock()
        with self._guard:
            self._deks.pop((kek_id, wrapped, aad), None)
            self._deks[kek_id, wrapped, aad] = now + self._dek_valid_s, dek
            for entry, (until, _) in list(self._deks.items()):
                if until > now and len(self._deks) <= self._most_deks:
                    break
                del self._deks[entry]
