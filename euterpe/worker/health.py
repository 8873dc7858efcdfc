"""The worker's self-check (disk, file descriptors, threads, sandbox), and a gate that pauses its claims."""

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import structlog

from euterpe.domain.error_codes import ErrorCode, RetryClass
from euterpe.domain.retry import JobError
from euterpe.media.errors import MediaError
from euterpe.media.sandbox.sandbox import Sandbox
from euterpe.storage.errors import StorageError
from euterpe.worker.disk import DiskLedger
from euterpe.worker.workdir import WorkDir

_log = structlog.get_logger(__name__)
# An attempt opens about twenty descriptors at once: source, connections, a child's pipes and sockets.
_SPARE_DESCRIPTORS = 32
_SANDBOX_TRIES = 3

_EXHAUSTED = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM, errno.ENOBUFS, errno.ETOOMANYREFS}
)
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


@dataclass(frozen=True)
class WorkerFault:
    """A fault of this worker that affects every job: a resource is missing, or the sandbox does not work."""

    code: ErrorCode
    message: str

    def job_error(self, phase: str) -> JobError:
        return JobError(self.code, self.message, phase, RetryClass.TRANSIENT)


def exhaustion_in(error: BaseException | None) -> WorkerFault | None:
    """Return the fault `worker_exhausted` if `error` shows that this process lacks a resource, else None.

    The resources are file descriptors, threads and memory. Check the types and error numbers of `error`, of
    its causes and of its contexts. The only message that is compared is one of the Python interpreter.
    """
    for cause in _chain(error):
        if isinstance(cause, OSError) and cause.errno in _EXHAUSTED:
            return WorkerFault(
                ErrorCode.WORKER_EXHAUSTED, "the worker ran out of file descriptors, threads or memory"
            )
        # The interpreter raises exactly this error when it cannot start a thread.
        if isinstance(cause, MemoryError) or (type(cause), str(cause)) == (
            RuntimeError,
            "can't start new thread",
        ):
            return WorkerFault(ErrorCode.WORKER_EXHAUSTED, "the worker ran out of threads or memory")
    return None


def full_disk_in(error: Exception) -> WorkerFault | None:
    """Return the fault `disk_full` if a write to the worker's own disk failed because the disk is full."""
    if isinstance(error, StorageError) and error.side == "output":
        return None  # a `file://` output is not on the worker's own disk
    if any(isinstance(cause, OSError) and cause.errno in _FULL for cause in _chain(error)):
        return WorkerFault(ErrorCode.DISK_FULL, "the worker's disk is full, but not because of this job")
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


class SelfCheck:
    """A check of the resources that every job needs: disk, file descriptors, threads and sandbox."""

    def __init__(
        self,
        workdir: WorkDir,
        disk: DiskLedger,
        sandbox: Sandbox,
        *,
        spare_descriptors: int = _SPARE_DESCRIPTORS,
    ) -> None:
        self._workdir, self._disk, self._sandbox = workdir, disk, sandbox
        self._spare = spare_descriptors

    def quick(self) -> WorkerFault | None:
        """Check disk, descriptors and threads. Return a fault or None.

        The check takes a millisecond and starts no process.
        """
        return self._first_fault(self._try_disk, self._try_descriptors, self._try_thread)

    def full(self) -> WorkerFault | None:
        """Check the resources as `quick` does, and then the sandbox. Return a fault or None.

        The check takes about 20 ms.
        """
        return self.quick() or self._sandbox_fault()

    def _sandbox_fault(self) -> WorkerFault | None:
        """Return a fault only if a trivial child process fails in every one of `_SANDBOX_TRIES` tries.

        If a job in another slot crashes the fork server, the child process ends together with the fork
        server. Such a crash must not pause the worker.
        """
        fault: WorkerFault | None = None
        for _ in range(_SANDBOX_TRIES):
            fault = self._first_fault(self._sandbox_child)
            if fault is None:
                return None
        return fault

    def _first_fault(self, *tries: Callable[[], WorkerFault | None]) -> WorkerFault | None:
        for attempt in tries:
            try:
                fault = attempt()
            except (OSError, RuntimeError, MemoryError, MediaError) as error:
                fault = _fault_of(error)
            if fault is not None:
                return fault
        return None

    def _try_disk(self) -> WorkerFault | None:
        if self._disk.is_short():
            return WorkerFault(ErrorCode.DISK_FULL, "the worker's disk is below its reserve")
        try:
            self._workdir.try_to_write()
        except OSError:
            # Kept sources can fill a disk quota. The number of free bytes does not show a full quota.
            if not self._disk.drop_kept():
                raise
            self._workdir.try_to_write()
        return None

    def _try_descriptors(self) -> None:
        with ExitStack() as opened:
            for _ in range(self._spare):
                opened.callback(os.close, os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))

    def _try_thread(self) -> None:
        thread = threading.Thread(target=lambda: None, name="euterpe-self-check")
        thread.start()
        thread.join()

    def _sandbox_child(self) -> None:
        self._sandbox.check()


def _fault_of(error: Exception) -> WorkerFault:
    if isinstance(error, OSError) and error.errno in _FULL:
        return WorkerFault(ErrorCode.DISK_FULL, "the worker's disk takes no more files")
    if isinstance(error, MediaError):
        return WorkerFault(error.code, str(error))
    return exhaustion_in(error) or WorkerFault(
        ErrorCode.WORKER_BROKEN, f"the self-check raised {type(error).__name__}"
    )


class ClaimGate:
    """The gate that decides when a worker may claim.

    Failed jobs alone never pause the claims: there must be a fault that the self-check finds without running
    a job. After a suspicious attempt the worker runs a self-check. If the check passes, the worker claims at
    once, even if many jobs fail.
    """

    def __init__(
        self,
        check: SelfCheck,
        disk: DiskLedger,
        *,
        first_rest_s: float = 0.5,
        longest_rest_s: float = 60.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._check, self._disk, self._now = check, disk, now
        self._first_rest_s, self._longest_rest_s = first_rest_s, longest_rest_s
        self._is_suspect, self._rests, self._until = False, 0, float("-inf")

    def suspect(self) -> None:
        """Request a full self-check before the next claim. Any thread may call it."""
        self._is_suspect = True

    def may_claim(self) -> bool:
        """Return whether to claim now. Call it from one thread only, before each claim."""
        if self._now() < self._until:
            return False
        if self._is_suspect or self._rests:
            return self._passes_the_check()
        return not self._disk.is_short()

    def _passes_the_check(self) -> bool:
        self._is_suspect = False
        fault = self._check.full()
        if fault is None:
            if self._rests:
                _log.info("worker_recovered", rests=self._rests)
            self._rests = 0
            return True
        rest = min(self._longest_rest_s, self._first_rest_s * 2.0 ** min(self._rests, 10))
        self._rests += 1
        self._until = self._now() + rest
        _log.warning("claims_paused", code=fault.code, message=fault.message, rest_s=rest)
        return False
