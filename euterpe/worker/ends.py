"""Why an attempt stops before it is through, other than by an error of its own."""

from euterpe.domain.errors import EuterpeError


class AttemptEnded(EuterpeError):
    """Raised wherever the attempt happens to be; nothing of it goes on after that."""

    code = "attempt_ended"


class LeaseLost(AttemptEnded):
    """The job is somebody else's, or over: there is nothing left that we may write."""

    code = "lease_lost"


class CancelRequested(AttemptEnded):
    code = "canceled"


class HandBack(AttemptEnded):
    """The worker is stopping and will not finish this."""

    code = "worker_stopping"


class TimeSpent(AttemptEnded):
    code = "attempt_timeout"
