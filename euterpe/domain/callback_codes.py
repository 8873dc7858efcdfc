"""The error codes of calls to a requester (webhooks, refresh calls), and of receivers that verify a call.

`docs/errors.md` is generated from these tables (ci/error_tables.py). The codes are public, so a member may be
added but never renamed.
"""

from enum import StrEnum


class DescribedCode(StrEnum):
    """Base class of the code tables. `summary` and `advice` are Markdown for docs/errors.md."""

    retryable: bool
    summary: str
    advice: str

    def __new__(cls, code: str, retryable: bool, summary: str, advice: str) -> "DescribedCode":
        member = str.__new__(cls, code)
        member._value_ = code
        member.retryable, member.summary, member.advice = retryable, summary, advice
        return member


class DeliveryCode(DescribedCode):
    """The reason why a delivery failed. Failed refresh calls are logged with the same codes."""

    EGRESS_REFUSED = (
        "egress_refused",
        False,
        "the address is not public, or the URL is ambiguous; no connection was made",
        "correct `status_webhook_url`, or ask the operator for `EUTERPE_EGRESS_ALLOW`, then replay",
    )
    EGRESS_TIMEOUT = (
        "egress_timeout",
        True,
        "no complete answer arrived within the deadline",
        "answer first, and do the work afterwards",
    )
    EGRESS_UNREACHABLE = (
        "egress_unreachable",
        True,
        "the host name has no address, or the connection failed or was closed early",
        "correct the receiver",
    )
    EGRESS_UNTRUSTED = (
        "egress_untrusted",
        True,
        "the certificate has expired or is not for this host name; nothing was sent",
        "renew the certificate",
    )
    EGRESS_BAD_ANSWER = (
        "egress_bad_answer",
        True,
        "the answer is not HTTP, or does not end",
        "correct the receiver",
    )
    RECEIVER_DOWN = (
        "receiver_down",
        True,
        "at least the last three sends to this receiver were not answered, so this send was not made",
        "correct the receiver; the operator can then run `euterpe outbox replay --pending` to send at once",
    )
    NO_WEBHOOK_SECRET = (
        "no_webhook_secret",
        True,
        "the requester has no valid secret to sign with",
        "the operator runs `euterpe requester rotate-secret`",
    )
    CANNOT_DECRYPT = (
        "cannot_decrypt",
        True,
        "the stored secret cannot be opened",
        "the operator restores the key ring",
    )
    UNKNOWN_KEK = (
        "unknown_kek",
        True,
        "the dispatcher's key ring lacks the secret's key",
        "the operator [restores the key](operate.md#when-a-key-is-missing), or, if the key is lost, runs "
        "`euterpe requester rotate-secret --keep 0s`",
    )
    UNKNOWN_ENCRYPTION_VERSION = (
        "unknown_encryption_version",
        True,
        "the secret was stored by a newer program",
        "the operator updates the dispatcher",
    )
    INTERNAL_ERROR = (
        "internal_error",
        True,
        "a bug; the dispatcher's log has the details",
        "tell the operator",
    )


class ReceiverCode(DescribedCode):
    """The reason why a receiver must reject a call.

    The receiver answers 503 if the code is `retryable`, else 401.
    """

    SIGNATURE_HEADER_MISSING = (
        "signature_header_missing",
        False,
        "a header of the signature is missing",
        "check that no proxy removes headers",
    )
    SIGNATURE_HEADER_MALFORMED = (
        "signature_header_malformed",
        False,
        "a header of the signature cannot be read",
        "check that no proxy changes headers",
    )
    SIGNATURE_TIMESTAMP_SKEW = (
        "signature_timestamp_skew",
        False,
        "the timestamp is more than five minutes off",
        "set the clock",
    )
    SIGNATURE_BAD = (
        "signature_bad",
        False,
        "no signature was made with one of your secrets",
        "check the secrets; verify the raw body",
    )
    SIGNATURE_REPLAYED = (
        "signature_replayed",
        False,
        "the nonce was seen before",
        "nothing: this delivery is a copy of an earlier one",
    )
    SIGNATURE_NONCE_MEMORY_FULL = (
        "signature_nonce_memory_full",
        True,
        "too many nonces within the window",
        "give `MemoryNonces` a larger `capacity`",
    )
    SIGNED_BODY_MALFORMED = (
        "signed_body_malformed",
        False,
        "the signature is valid, but the body is not an event",
        "update `euterpe.client`",
    )
