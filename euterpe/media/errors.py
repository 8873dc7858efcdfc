"""The error of the media steps: probe, encode and verify."""

from euterpe.domain.error_codes import ErrorCode, Release, RetryClass
from euterpe.domain.errors import EuterpeError
from euterpe.domain.retry import JobError


class MediaError(EuterpeError):
    """Raised when media cannot be read, made or verified. `job_error` returns the error to record."""

    code: ErrorCode

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.retryable = self.retry_class is RetryClass.TRANSIENT

    @property
    def retry_class(self) -> RetryClass:
        return self.code.retry

    @property
    def is_worker_fault(self) -> bool:
        """Return whether the machine is to blame. The first failures of this kind are not charged."""
        return self.code.release is Release.LIMITED

    def job_error(self, phase: str) -> JobError:
        return JobError(self.code, str(self), phase)
