"""Errors of egress requests. A message contains `scheme://host:port`, and never a path, query or response."""

from euterpe.domain.callback_codes import DeliveryCode
from euterpe.domain.errors import EuterpeError


class EgressError(EuterpeError):
    """Base class of the errors of egress requests.

    `where` is the requested origin, or "the URL" if the URL is not valid.
    """

    code = "egress_error"

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}")
        self.where = where


class EgressRefused(EgressError):
    """The policy of this installation forbids the request, or the URL is ambiguous.

    No connection was made.
    """

    code = DeliveryCode.EGRESS_REFUSED


class EgressTimeout(EgressError):
    code = DeliveryCode.EGRESS_TIMEOUT
    retryable = code.retryable


class EgressTooSlow(EgressTimeout):
    """The transfer moves bytes, but more slowly than its minimum pace."""


class EgressUnreachable(EgressError):
    """The host has no address, the connection could not be made, or it was cut."""

    code = DeliveryCode.EGRESS_UNREACHABLE
    retryable = code.retryable


class EgressUntrusted(EgressError):
    """The certificate is not valid for the host. Nothing was sent."""

    # A retry can help: a certificate that expires at night is often renewed in the morning.
    code = DeliveryCode.EGRESS_UNTRUSTED
    retryable = code.retryable


class EgressBadAnswer(EgressError):
    """The response is not HTTP, or has no end."""

    # A retry can help: for example, a proxy may send garbage in the middle of a deployment.
    code = DeliveryCode.EGRESS_BAD_ANSWER
    retryable = code.retryable
