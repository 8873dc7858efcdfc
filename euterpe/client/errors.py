"""Exceptions of the client: a type for each reaction that a program may have."""

from collections.abc import Sequence

from euterpe.domain.callback_codes import DescribedCode
from euterpe.domain.errors import EuterpeError, FieldError


class ClientCode(DescribedCode):
    """The codes of errors without a problem document. An error with a problem document has
    the code of that document."""

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
    """Base of the client's errors, with the `code` and `request_id` of the server's response, if any."""

    code: str = ClientCode.CLIENT_ERROR
    not_applied = False  # True: the request certainly had no effect, so a retry is safe
    retry_after: float | None = None  # seconds

    def __init__(self, message: str, *, code: str | None = None, request_id: str | None = None) -> None:
        super().__init__(message)
        self.code = code or type(self).code
        self.request_id = request_id


class Unauthorized(ClientError):
    code = "unauthorized"


class Forbidden(ClientError):
    """The key is valid but lacks the scope for this request."""

    code = "forbidden"


class NotFound(ClientError):
    code = "not_found"


class Gone(ClientError):
    """The job existed, but its history has been pruned."""

    code = "pruned"


class Conflict(ClientError):
    """The job's state does not allow this request, or the idempotency key belongs to another request."""

    code = "conflict"


class TooLarge(ClientError):
    code = ClientCode.TOO_LARGE


class Invalid(ClientError):
    """The request is invalid; `errors` lists every problem with its field."""

    code = "invalid_request"
    errors: Sequence[FieldError] = ()


class Busy(ClientError):
    """The quota is used up, or the queue is full: retry after `retry_after` seconds."""

    code = ClientCode.BUSY
    retryable = code.retryable
    not_applied = True


class ServerError(ClientError):
    """The server failed. Its operator finds the cause in the logs by the request id."""

    code = ClientCode.SERVER_ERROR
    retryable = code.retryable

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message} (request {self.request_id})" if self.request_id else message


class Unreachable(ClientError):
    """There was no response: the connection was refused, lost or too slow."""

    code = ClientCode.UNREACHABLE
    retryable = code.retryable

    def __init__(self, message: str, *, not_applied: bool = False) -> None:
        super().__init__(message)
        self.not_applied = not_applied


class UnexpectedAnswer(ClientError):
    """The response is not from Euterpe: the URL belongs to another program or a proxy."""

    code = ClientCode.UNEXPECTED_ANSWER


class StillRunning(ClientError):
    """The timeout of a `wait` has passed. The job goes on."""

    code = ClientCode.STILL_RUNNING


class JobFailed(ClientError):
    """Raised by `Job.raise_for_failure`; `code` is the code of the job's error."""

    code = ClientCode.JOB_FAILED
