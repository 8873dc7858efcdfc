"""Media errors: a stable code for each, and its retry class."""

from collections.abc import Mapping
from types import MappingProxyType

from euterpe.domain.errors import EuterpeError
from euterpe.domain.retry import JobError, RetryClass

# A bad source or request stays bad until a person changes it (permanent); a machine recovers (transient).
_RETRY: Mapping[str, RetryClass] = MappingProxyType(
    {
        "source_not_media": RetryClass.PERMANENT,
        "source_truncated": RetryClass.PERMANENT,
        "source_damaged": RetryClass.PERMANENT,
        "source_unsupported": RetryClass.PERMANENT,
        "no_video_stream": RetryClass.PERMANENT,
        "no_audio_stream": RetryClass.PERMANENT,
        "output_unsupported": RetryClass.PERMANENT,
        "output_too_large": RetryClass.PERMANENT,
        "output_truncated": RetryClass.PERMANENT,
        "output_undecodable": RetryClass.PERMANENT,
        "encode_failed": RetryClass.PERMANENT,
        "encode_timeout": RetryClass.PERMANENT,
        "encode_stalled": RetryClass.TRANSIENT,
        "encode_killed": RetryClass.TRANSIENT,
        "out_of_memory": RetryClass.TRANSIENT,
        "sandbox_failed": RetryClass.TRANSIENT,
        "ffmpeg_missing": RetryClass.TRANSIENT,
    }
)

MEDIA_CODES = tuple(_RETRY)

# The helper process is gone or cannot start a child, or a child was killed from outside within its limits.
_WORKER_FAULTS = frozenset({"sandbox_failed", "encode_killed"})


class MediaError(EuterpeError):
    """Raised when media cannot be read, made or verified. `job_error` gives the error to record."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.retry_class = _RETRY[code]
        self.retryable = self.retry_class is RetryClass.TRANSIENT

    @property
    def is_worker_fault(self) -> bool:
        """Return whether the machine failed rather than the job; the first such failures are not charged."""
        return self.code in _WORKER_FAULTS

    def job_error(self, phase: str) -> JobError:
        return JobError(self.code, str(self), phase, self.retry_class)
