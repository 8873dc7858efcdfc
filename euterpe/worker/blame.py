"""Whose fault the end of an attempt is: the job's, which is charged, or the worker's, which hands it back.

Invariant `blame`: only types, codes, error numbers and measurements decide, never a text.
"""

import errno
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from euterpe.crypto.errors import CannotDecrypt, UnknownFormat, UnknownKek
from euterpe.domain.retry import Backoff, JobError, RetryClass, canceled
from euterpe.media.errors import MediaError
from euterpe.storage.errors import StorageError
from euterpe.store.queue.inbox import ClaimedJob
from euterpe.worker.disk import DiskFull, NoRoomNow, TooLargeForWorker
from euterpe.worker.health import WorkerFault, exhaustion_in, full_disk_in
from euterpe.worker.interruptions import AttemptTimeout, CancelRequested

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


def judge(error: Exception, phase: str, self_check: Callable[[], WorkerFault | None]) -> Verdict:
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
        case AttemptTimeout() | CannotDecrypt():
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


# What a job could bring about by itself, again and again: a helper that it breaks, a child that it kills.
LIMITED_CODES = frozenset({"sandbox_failed", "encode_killed", "worker_exhausted", "worker_broken"})


@dataclass(frozen=True)
class ReleasePolicy:
    """Bound what a job can cost that is never charged."""

    most_free: int = 5  # of each job, for codes of `LIMITED_CODES`; from then on they are charged
    # What this worker lacks, another may have: a key that is being rolled out, a disk with room.
    first_pause_ms: int = 5_000
    # A key may be lost for good: so often, at least, such a job is tried once more.
    longest_pause_ms: int = 300_000

    def pause_ms(self, job: ClaimedJob) -> int:
        """Return a pause that grows with each claim of the job that has cost it no attempt: the versions
        count them all."""
        given_back = job.claim_version - job.attempt_count
        backoff = Backoff(self.first_pause_ms, self.longest_pause_ms)
        draw = random.random()  # noqa: S311  jitter, not a secret
        return backoff.delay_ms(given_back + 1, RetryClass.TRANSIENT, draw)

    def is_spent(self, attempts: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether the job was handed back so often that its next hand-back is charged."""
        return limited(attempts) >= self.most_free


def limited(attempts: Sequence[Mapping[str, Any]]) -> int:
    """Count the attempts that were handed back for a code of `LIMITED_CODES`.

    Over the whole job: counted since the last charge, a job with three attempts ran eighteen times.
    """
    released = [attempt for attempt in attempts if attempt["outcome"] == "released" and attempt["error"]]
    return sum(attempt["error"]["code"] in LIMITED_CODES for attempt in released)
