"""Decide whether a job is charged for a failed attempt, or released because the worker is at fault.

Invariant `blame`: the decision depends on types, codes, error numbers and measurements, and never on a text
that a source or a requester could have written.
"""

import errno
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from euterpe.crypto.errors import CannotDecrypt, KeyProviderUnavailable, UnknownFormat, UnknownKek
from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.retry import JobError, canceled
from euterpe.media.errors import MediaError
from euterpe.storage.errors import MissingStorage, StorageError
from euterpe.worker.attempt_control import AttemptTimeout, CancelRequested
from euterpe.worker.disk import DiskFull, NoRoomNow, TooLargeForWorker
from euterpe.worker.health import WorkerFault, exhaustion_in, full_disk_in
from euterpe.worker.requirements import RequirementMissing

_log = structlog.get_logger(__name__)
_OUT_OF_REACH = (
    "the job's credentials cannot be decrypted at the moment; if this lasts, "
    "send new ones with PUT /transcode/{job_id}/credentials"
)
_KEYS_AWAY = "the keys that encrypt credentials cannot be reached at the moment"


@dataclass(frozen=True)
class Charge:
    """A verdict: the attempt is charged to the job. A retry depends on the error's retry class."""

    error: JobError


@dataclass(frozen=True)
class NoCharge:
    """A verdict: the job is released without a charge.

    If `suspects_worker` is true, the worker runs its self-check before the next claim.
    """

    error: JobError
    suspects_worker: bool


Verdict = Charge | NoCharge


def judge(error: Exception, phase: str, self_check: Callable[[], WorkerFault | None]) -> Verdict:
    """Return the verdict on `error`.

    If the error does not show its cause, call `self_check`, which measures the worker now. The measurement is
    necessary, because client libraries and ffmpeg report the cause of a failure only as text.
    """
    if (known := _known_verdict(error, phase)) is not None:
        return known
    fault = exhaustion_in(error) or full_disk_in(error) or self_check()
    if fault is not None:
        return NoCharge(fault.job_error(phase), suspects_worker=True)
    return Charge(_own_failure(error, phase))


def _known_verdict(error: Exception, phase: str) -> Verdict | None:
    verdict: Verdict | None = None
    match error:
        case CancelRequested():
            verdict = Charge(canceled(phase))
        case AttemptTimeout() | CannotDecrypt():
            verdict = Charge(JobError(error.code, str(error), phase))
        case UnknownKek() | UnknownFormat():
            # The requester reads this message, too, so it does not name our keys.
            reason = JobError(error.code, _OUT_OF_REACH, phase)
            verdict = NoCharge(reason, suspects_worker=False)
        case KeyProviderUnavailable():
            # The requester reads this message, too, so it does not name our servers.
            reason = JobError(error.code, _KEYS_AWAY, phase)
            verdict = NoCharge(reason, suspects_worker=False)
        case RequirementMissing():
            verdict = NoCharge(error.job_error(phase), suspects_worker=False)
        case MissingStorage():
            reason = JobError(error.released_as, str(error), phase)
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
        message = "the source is larger than any file that this worker may write"
        return JobError(ErrorCode.DISK_FULL, message, phase)
    _log.error("attempt_unexpected_error", exc_info=error)
    # Show only the type, because the text of an unknown error may contain secrets.
    message = f"an unexpected {type(error).__name__} occurred in the worker"
    return JobError(ErrorCode.INTERNAL_ERROR, message, phase)
