"""Exceptions of the client: a type for each reaction that a program may have."""

from collections.abc import Sequence

from euterpe.domain.errors import EuterpeError, FieldError


class ClientError(EuterpeError):
    """Base of the client's errors, with the `code` and `request_id` of the server's response, if any."""

    code = "client_error"
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
    code = "too_large"


class Invalid(ClientError):
    """The request is invalid; `errors` lists every problem with its field."""

    code = "invalid_request"
    errors: Sequence[FieldError] = ()


class Busy(ClientError):
    """The quota is used up, or the queue is full: retry after `retry_after` seconds."""

    code = "busy"
    retryable = True
    not_applied = True


class ServerError(ClientError):
    """The server failed. Its operator finds the cause in the logs by the request id."""

    code = "server_error"
    retryable = True

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message} (request {self.request_id})" if self.request_id else message


class Unreachable(ClientError):
    """There was no response: the connection was refused, lost or too slow."""

    code = "unreachable"
    retryable = True

    def __init__(self, message: str, *, not_applied: bool = False) -> None:
        super().__init__(message)
        self.not_applied = not_applied


class UnexpectedAnswer(ClientError):
    """The response is not from Euterpe: the URL belongs to another program or a proxy."""

    code = "unexpected_answer"


class StillRunning(ClientError):
    """The timeout of a `wait` has passed. The job goes on."""

    code = "still_running"


class JobFailed(ClientError):
    """Raised by `Job.raise_for_failure`; `code` is the code of the job's error."""

    code = "job_failed"
