"""What can go wrong when a program talks to Euterpe: a type for each thing that it can do about it."""

from collections.abc import Sequence

from euterpe.domain.errors import EuterpeError, FieldError


class ClientError(EuterpeError):
    """`code` is the server's, where it gave one; its logs know the call by `request_id`."""

    code = "client_error"
    undone = False  # surely nothing happened, so any call may be made again
    retry_after: float | None = None  # seconds

    def __init__(self, message: str, *, code: str | None = None, request_id: str | None = None) -> None:
        super().__init__(message)
        self.code = code or type(self).code
        self.request_id = request_id


class Unauthorized(ClientError):
    code = "unauthorized"


class Forbidden(ClientError):
    """The key is good, and has not the scope for this."""

    code = "forbidden"


class NotFound(ClientError):
    code = "not_found"


class Gone(ClientError):
    """The job was there, and its history has been pruned."""

    code = "pruned"


class Conflict(ClientError):
    """The job is in a state in which this cannot be done, or the idempotency key had another request."""

    code = "conflict"


class TooLarge(ClientError):
    code = "too_large"


class Invalid(ClientError):
    """The request breaks the rules; `errors` are all of them, each with its place."""

    code = "invalid_request"
    errors: Sequence[FieldError] = ()


class Busy(ClientError):
    """Over the quota, or the queue is full: come back in `retry_after` seconds."""

    code = "busy"
    retryable = True
    undone = True


class ServerError(ClientError):
    """Not the request's fault. Its operator finds out more by the request id."""

    code = "server_error"
    retryable = True

    def __str__(self) -> str:
        told = super().__str__()
        return f"{told} (request {self.request_id})" if self.request_id else told


class Unreachable(ClientError):
    """No answer: the connection was refused, lost, or too slow."""

    code = "unreachable"
    retryable = True

    def __init__(self, message: str, *, undone: bool = False) -> None:
        super().__init__(message)
        self.undone = undone


class UnexpectedAnswer(ClientError):
    """An answer, but none of Euterpe: the URL is another program's, or a proxy's."""

    code = "unexpected_answer"


class StillRunning(ClientError):
    """The time of a `wait` is over. The job goes on."""

    code = "still_running"


class JobFailed(ClientError):
    """What `Job.raise_for_failure` raises; `code` is that of the job's error."""

    code = "job_failed"
