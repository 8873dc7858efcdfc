"""Exceptions of the client. Errors to which a program reacts differently have different types."""

from collections.abc import Sequence

from euterpe.domain.callback_codes import DescribedCode
from euterpe.domain.errors import EuterpeError, FieldError


class ClientCode(DescribedCode):
    """The codes of errors without a problem document.

    An error with a problem document has the code of that document.
    """

    CLIENT_ERROR = ("client_error", False, "an error that no other code describes", "read the message")
    TOO_LARGE = ("too_large", False, "413 without a problem document", "send a smaller body")
    BUSY = ("busy", True, "429 without a problem document", "try again after `retry_after`")
    SERVER_ERROR = ("server_error", True, "5xx without a problem document", "try again; tell the operator")
    UNREACHABLE = (
        "unreachable",
        True,
        "no answer arrived",
        "try again; the same idempotency key makes no second job",
    )
    UNEXPECTED_ANSWER = (
        "unexpected_answer",
        False,
        "the answer is not from Euterpe",
        "check the URL, and the proxies on the way",
    )
    STILL_RUNNING = ("still_running", False, "the timeout of `wait` is over; the job continues", "wait again")
    JOB_FAILED = (
        "job_failed",
        False,
        "`raise_for_failure` was called on a job without an error code",
        "read the job's status",
    )


class ClientError(EuterpeError):
    """Base class of the client's errors.

    `code` and `request_id` come from the server's response. By default, `code` is the code of the class, and
    `request_id` is None.
    """

    code: str = ClientCode.CLIENT_ERROR
    not_applied = False  # True if the request certainly had no effect, so that a retry is safe
    retry_after: float | None = None  # seconds

    def __init__(self, message: str, *, code: str | None = None, request_id: str | None = None) -> None:
        super().__init__(message)
        self.code = code or type(self).code
        self.request_id = request_id


class Unauthorized(ClientError):
    code = "unauthorized"


class Forbidden(ClientError):
    """Raised when the key is valid but lacks the scope for this request."""

    code = "forbidden"


class NotFound(ClientError):
    code = "not_found"


class Gone(ClientError):
    """Raised when the job existed, but its history has been pruned."""

    code = "pruned"


class Conflict(ClientError):
    """Raised when the job's status does not allow the request, or when the idempotency key is in use."""

    code = "conflict"


class TooLarge(ClientError):
    code = ClientCode.TOO_LARGE


class Invalid(ClientError):
    """Raised when the request is invalid. `errors` lists every problem with its field."""

    code = "invalid_request"
    errors: Sequence[FieldError] = ()


class Busy(ClientError):
    """Raised when a limit of the server is reached (quota, queue): retry after `retry_after` seconds."""

    code = ClientCode.BUSY
    retryable = code.retryable
    not_applied = True


class ServerError(ClientError):
    """Raised when the server failed. The operator finds the cause in the logs by the request id."""

    code = ClientCode.SERVER_ERROR
    retryable = code.retryable

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message} (request {self.request_id})" if self.request_id else message


class Unreachable(ClientError):
    """Raised when there was no response: the connection was refused, lost or too slow."""

    code = ClientCode.UNREACHABLE
    retryable = code.retryable

    def __init__(self, message: str, *, not_applied: bool = False) -> None:
        super().__init__(message)
        self.not_applied = not_applied


class UnexpectedAnswer(ClientError):
    """Raised when the response is not from Euterpe: the URL belongs to another program or to a proxy."""

    code = ClientCode.UNEXPECTED_ANSWER


class StillRunning(ClientError):
    """Raised when the timeout of `wait` has passed. The job continues."""

    code = ClientCode.STILL_RUNNING


class JobFailed(ClientError):
    """Raised by `Job.raise_for_failure`; `code` is the code of the job's error."""

    code = ClientCode.JOB_FAILED
