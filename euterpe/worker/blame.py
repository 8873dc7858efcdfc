"""Whose fault the end of an attempt is: the job's, which is charged, or the worker's, which hands it back.

Invariant `blame`: only types, codes, error numbers and measurements decide, never a text.
"""

import errno
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from euterpe.crypto.errors import CannotDecrypt, UnknownFormat, UnknownKek
from euterpe.domain.retry import JobError, RetryClass, canceled
from euterpe.media.errors import MediaError
from euterpe.storage.errors import StorageError
from euterpe.worker.disk import DiskFull, NoRoomNow, TooLargeForWorker
from euterpe.worker.ends import CancelRequested, TimeSpent
from euterpe.worker.health import Trouble, exhaustion_in, full_disk_in

_log = structlog.get_logger()
_OUT_OF_REACH = (
    "the job's credentials cannot be opened for now; if that lasts, "
    "PUT /transcode/{job_id}/credentials stores new ones"
)


@dataclass(frozen=True)
class Charge:
    """The attempt counts, and the error's retry class decides what follows."""

    error: JobError


@dataclass(frozen=True)
class NoCharge:
    """The job goes back with its attempt. `suspects_worker`: the worker is to check itself."""

    error: JobError
    suspects_worker: bool


Verdict = Charge | NoCharge


def judge(error: Exception, phase: str, self_check: Callable[[], Trouble | None]) -> Verdict:
    """Return whether `error` is charged to the job. `self_check` measures the worker now: it is asked about
    failures whose cause was in other hands, like a client library or ffmpeg, which name it in words alone."""
    if (known := _known_verdict(error, phase)) is not None:
        return known
    trouble = exhaustion_in(error) or full_disk_in(error) or self_check()
    if trouble is not None:
        return NoCharge(trouble.job_error(phase), suspects_worker=True)
    return Charge(_own_failure(error, phase))


def _known_verdict(error: Exception, phase: str) -> Verdict | None:
    verdict: Verdict | None = None
    match error:
        case CancelRequested():
            verdict = Charge(canceled(phase))
        case TimeSpent() | CannotDecrypt():
            verdict = Charge(JobError(error.code, str(error), phase))
        case UnknownKek() | UnknownFormat():
            # Its requester reads this too, and need not know our keys by name.
            reason = JobError(error.code, _OUT_OF_REACH, phase, RetryClass.TRANSIENT)
            verdict = NoCharge(reason, suspects_worker=False)
        case TooLargeForWorker():
            verdict = Charge(error.job_error(phase))
        case DiskFull():
            verdict = NoCharge(error.job_error(phase), suspects_worker=not isinstance(error, NoRoomNow))
        case MediaError() if error.is_worker_fault:
            verdict = NoCharge(error.job_error(phase), suspects_worker=True)
    return verdict


def _own_failure(error: Exception, phase: str) -> JobError:
    if isinstance(error, StorageError | MediaError):
        return error.job_error(phase)
    if isinstance(error, OSError) and error.errno == errno.EFBIG:
        said = "the source is larger than any file that this worker may write"
        return JobError("disk_full", said, phase, RetryClass.TRANSIENT)
    _log.error("attempt_broke", exc_info=error)
    # The type alone: the text of a foreign error may hold what must not be shown.
    said = f"the worker met an unexpected {type(error).__name__}"
    return JobError("internal_error", said, phase, RetryClass.TRANSIENT)
