"""How an attempt ends, and why it stops before it is through other than by an error of its own."""

from enum import Enum, auto

from euterpe.domain.errors import EuterpeError


class AttemptResult(Enum):
    """What became of an attempt, as far as its worker has to know."""

    SUCCEEDED = auto()
    FAILED = auto()  # charged to the job
    HANDED_BACK = auto()  # not charged, and nothing is wrong with the worker
    WORKER_FAULT = auto()  # something is wrong with the worker, as it seems: it is to check itself
    LEASE_LOST = auto()


class Interruption(EuterpeError):
    """Raised wherever the attempt happens to be; nothing of it goes on after that."""

    code = "attempt_ended"


class LeaseLost(Interruption):
    """The job is somebody else's, or over: there is nothing left that we may write."""

    code = "lease_lost"


class CancelRequested(Interruption):
    code = "canceled"


class WorkerStopping(Interruption):
    """The worker is stopping and will not finish this."""

    code = "worker_stopping"


class AttemptTimeout(Interruption):
    code = "attempt_timeout"
