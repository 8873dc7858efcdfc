"""What can go wrong with media: a stable code for each thing, and how it may be retried."""

from collections.abc import Mapping
from types import MappingProxyType

from euterpe.domain.errors import EuterpeError
from euterpe.domain.retry import JobError, RetryClass

# A source or a request that cannot work stays so until a person changes it; a machine recovers by itself.
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

# The helper process is gone or cannot start a child, or somebody outside killed a child within its limits.
_WORKER_FAULTS = frozenset({"sandbox_failed", "encode_killed"})


class MediaError(EuterpeError):
    """Why media could not be read, made or trusted. There is one way to act on it: `job_error`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.retry_class = _RETRY[code]
        self.retryable = self.retry_class is RetryClass.TRANSIENT

    @property
    def is_worker_fault(self) -> bool:
        """Return whether the machine failed and not the job, so that no attempt is charged at first."""
        return self.code in _WORKER_FAULTS

    def job_error(self, phase: str) -> JobError:
        return JobError(self.code, str(self), phase, self.retry_class)
