"""The results of an attempt, and the exceptions that interrupt it: lost lease, cancel, stop, timeout."""

from enum import Enum, auto

from euterpe.domain.errors import EuterpeError


class AttemptResult(Enum):
    """The result of an attempt, as its worker needs it."""

    SUCCEEDED = auto()
    FAILED = auto()  # charged to the job
    RELEASED = auto()  # released without a charge, and the worker is not suspect
    WORKER_FAULT = auto()  # released without a charge, and the worker must check itself
    LEASE_LOST = auto()


class Interruption(EuterpeError):
    """Raised inside an attempt, at any point, to end it."""

    code = "attempt_ended"


class LeaseLost(Interruption):
    """Raised when the job has another owner or is finished, so that this attempt may write nothing more."""

    code = "lease_lost"


class CancelRequested(Interruption):
    code = "canceled"


class WorkerStopping(Interruption):
    """Raised when the worker is stopping and will not finish the attempt."""

    code = "worker_stopping"


class AttemptTimeout(Interruption):
    code = "attempt_timeout"
