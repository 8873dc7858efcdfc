"""Errors of encryption, key rings, API keys and signatures. No message contains a secret."""

from pathlib import Path

from euterpe.domain.callback_codes import ReceiverCode
from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.errors import EuterpeError

_BACK_IN_THE_RING = "put it back into EUTERPE_KEK_FILE, or into EUTERPE_KEKS and start again"
_BACK_IN_VAULT = "set EUTERPE_VAULT_URL, or lower the key's min_decryption_version in Vault"


class CannotDecrypt(EuterpeError):
    """The secret was changed, truncated, or moved to another row.

    The error does not show which of the three happened.
    """

    code = ErrorCode.CANNOT_DECRYPT

    def __init__(self) -> None:
        super().__init__("a stored secret cannot be decrypted for this row: store it again")


class UnknownKek(EuterpeError):
    code = ErrorCode.UNKNOWN_KEK
    retryable = True  # during the rollout of a new key, another worker may already have the key

    def __init__(self, kek_id: str) -> None:
        is_in_vault = kek_id.startswith("vault:")
        super().__init__(
            f"the key ring has no KEK {kek_id!r}: {_BACK_IN_VAULT if is_in_vault else _BACK_IN_THE_RING} "
            "(if that is done already, all is well); if it is lost, store the secret anew"
        )
        self.kek_id = kek_id


class KeyProviderUnavailable(EuterpeError):
    """The key provider did not answer, or refused the call. No data was changed. A later call may succeed."""

    code = ErrorCode.KEY_PROVIDER_UNAVAILABLE
    retryable = True


class UnboundKeys(EuterpeError):
    """The key provider does not check the AAD.

    A secret that is moved to another row could therefore be decrypted.
    """

    code = "unbound_keys"

    def __init__(self, kek_id: str) -> None:
        super().__init__(
            f"{kek_id} does not check the associated data: use Vault 1.13 or newer, and an aes256-gcm96 key"
        )


class UnknownFormat(EuterpeError):
    code = ErrorCode.UNKNOWN_ENCRYPTION_VERSION
    retryable = True  # during the rollout of a new release, another worker may already know the format

    def __init__(self, version: int) -> None:
        super().__init__(f"encryption version {version} is not known to this release of Euterpe: upgrade it")
        self.version = version


class KeyRingError(EuterpeError):
    code = "key_ring"

    def __init__(self, where: str | Path, problem: str) -> None:
        super().__init__(f"key ring {where}: {problem}")


class MalformedApiKey(EuterpeError):
    code = "malformed_api_key"

    def __init__(self) -> None:
        super().__init__("this is not an API key, or it has a typo: the checksum does not match")


class SignatureError(EuterpeError):
    """Base class of the reasons why a receiver must not act on a delivery."""

    code = "signature"


class MissingHeader(SignatureError):
    code = ReceiverCode.SIGNATURE_HEADER_MISSING

    def __init__(self, header: str) -> None:
        super().__init__(f"the header {header} is missing")
        self.header = header


class MalformedHeader(SignatureError):
    code = ReceiverCode.SIGNATURE_HEADER_MALFORMED

    def __init__(self, header: str) -> None:
        super().__init__(f"the header {header} is malformed")
        self.header = header


class TimestampSkew(SignatureError):
    code = ReceiverCode.SIGNATURE_TIMESTAMP_SKEW

    def __init__(self, ahead_seconds: int, allowed_seconds: int) -> None:
        super().__init__(
            f"the timestamp is {ahead_seconds:+d} s off, more than {allowed_seconds}: check both clocks"
        )


class BadSignature(SignatureError):
    code = ReceiverCode.SIGNATURE_BAD

    def __init__(self) -> None:
        super().__init__("no signature matches: check the secret, and that the body is the raw bytes")


class ReplayedNonce(SignatureError):
    code = ReceiverCode.SIGNATURE_REPLAYED

    def __init__(self) -> None:
        super().__init__("this delivery was seen before, or its nonce may have been forgotten")


class NonceMemoryFull(SignatureError):
    """The memory is full of nonces that are still valid.

    The receiver must answer 503: if it dropped a nonce instead, it would accept a replay of that delivery.
    """

    code = ReceiverCode.SIGNATURE_NONCE_MEMORY_FULL
    retryable = code.retryable

    def __init__(self, capacity: int) -> None:
        super().__init__(f"all {capacity} nonces in memory are still live: raise the capacity")
