"""What can go wrong on the way out. A message names `scheme://host:port`, never a path, query or answer."""

from euterpe.domain.errors import EuterpeError


class EgressError(EuterpeError):
    """No usable answer. `where` is the origin that was asked, as far as it could be read."""

    code = "egress_error"

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}")
        self.where = where


class EgressRefused(EgressError):
    """The policy of this installation, or a URL that can be read in two ways. Nothing was dialled."""

    code = "egress_refused"


class EgressTimeout(EgressError):
    code = "egress_timeout"
    retryable = True


class EgressTooSlow(EgressTimeout):
    """Something comes all the time, and less than the least pace of a transfer."""


class EgressUnreachable(EgressError):
    """No address, no connection, or one that was cut."""

    code = "egress_unreachable"
    retryable = True


class EgressUntrusted(EgressError):
    """The certificate does not prove the name. Nothing was sent."""

    code = "egress_untrusted"
    retryable = True  # what expired in the night is renewed in the morning: a delivery must live that long


class EgressBadAnswer(EgressError):
    """Not HTTP, or HTTP without end."""

    code = "egress_bad_answer"
    retryable = True  # a proxy in the middle of a deployment says strange things
