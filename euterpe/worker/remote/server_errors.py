"""Turn the refusals of the server into exceptions of the worker."""

from euterpe.client.worker_answers import ServerRefusal
from euterpe.crypto.errors import CannotDecrypt, KeyProviderUnavailable, UnknownFormat, UnknownKek
from euterpe.domain.errors import EuterpeError
from euterpe.domain.leased_job import StaleClaim, Unavailable


class ServerUnavailable(Unavailable):
    """The server is unavailable. `retry_after_s` is the pause that the server asked for, or None."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class WorkerKeyRefused(Unavailable):
    """The API key is unknown, disabled, or lacks the scope `worker`.

    A call may succeed later, because an operator may enable the key again. Until then the worker claims
    nothing, and an attempt that needs the server ends after two minutes.
    """

    code = "worker_key_refused"


class ProtocolNotSupported(Unavailable):
    """The server is too old or too new for this worker.

    In a rolling upgrade, other servers can accept this worker.
    """

    code = "protocol_not_supported"


class AttemptOver(StaleClaim):
    """The claim is over. `outcome` is the outcome of the attempt, if the server sent it."""

    def __init__(self, code: str, message: str, outcome: str | None = None) -> None:
        super().__init__(message)
        self.code, self.outcome = code, outcome


class CallRefused(EuterpeError):
    """The server refuses this call, and would refuse it again. `code` is the server's error code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


# The error codes that end an attempt: the lease token is not valid for the job, or the job does not exist any
# more. Answers with the same HTTP statuses, but other codes, come from a wrong address or from a proxy, and
# must not end an attempt.
OVER = frozenset({"lease_lost", "attempt_ended", "invalid_lease_token", "not_found", "pruned"})


class _KekUnknownToServer(UnknownKek):
    def __init__(self) -> None:
        # Do not call `UnknownKek.__init__`: it needs the id of the key, which the server's answer does not
        # contain.
        EuterpeError.__init__(self, "the server lacks the key for the credentials of this job")
        self.kek_id = ""


class _FormatUnknownToServer(UnknownFormat):
    def __init__(self) -> None:
        EuterpeError.__init__(self, "the server cannot read the encryption of the credentials of this job")
        self.version = 0


def error_of(refused: ServerRefusal) -> EuterpeError:
    """Return the exception for a refusal."""
    match refused.code:
        case "key_provider_unavailable":
            return KeyProviderUnavailable(refused.detail)
        case "unknown_kek":
            return _KekUnknownToServer()
        case "unknown_encryption_version":
            return _FormatUnknownToServer()
        case "cannot_decrypt":
            return CannotDecrypt()
        case str(code) if code in OVER:
            return AttemptOver(code, refused.detail, refused.outcome)
    return _error_of_status(refused)


def _error_of_status(refused: ServerRefusal) -> EuterpeError:
    match refused.status:
        case 401 | 403:
            return WorkerKeyRefused(
                f"{refused.detail}: give the worker a key of `euterpe worker-key create` in EUTERPE_API_KEY"
            )
        case 426:
            return ProtocolNotSupported(refused.detail)
        case 400 | 413 | 415 | 422:
            return CallRefused(refused.code or "refused", refused.detail)
    # A proxy may answer with any other status, for example with 404 while the server is being deployed.
    return ServerUnavailable(refused.detail, refused.retry_after_s)
