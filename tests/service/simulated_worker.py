"""A simulated remote worker: a program that claims over HTTP and reports each step of a job, without media.
The program uses the real `HttpPlane`, lease keeper and recorder. The metadata of a job controls its attempts.
The program appends each event to a journal, whose lines survive a SIGKILL.
"""

import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from random import Random
from typing import Any

import structlog

from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.errors import EuterpeError
from euterpe.domain.leased_job import LeasedJob
from euterpe.domain.retry import JobError
from euterpe.domain.states import IN_PROGRESS
from euterpe.worker.attempt_control import AttemptControl, LeaseLost
from euterpe.worker.http_plane import HttpPlane
from euterpe.worker.lease_keeper import JobLeaseKeeper
from euterpe.worker.recorder import AttemptRecorder
from euterpe.worker.remote.claim_poll import ClaimPoll
from euterpe.worker.remote.held_lease import boot_clock
from euterpe.worker.remote.server_connection import ServerConnection
from euterpe.worker.remote.server_settings import ServerSettings

# Most attempts wait for a late call, so a worker needs many slots. With 5 slots, a run of 500 jobs took 40 s,
# and two cores were idle.
SLOTS = 16
_TIMEOUT_S = 600.0
_WATCH_S = 0.05
_CLAIM_WAIT_S = 2.0
_LONGEST_STEP_S = 0.02
# The longest pause before a claim is repeated: half of the lease, as in production. If a claim's answer was
# lost and the claim is repeated after a longer pause, the lease has expired, and the attempt is lost.
_LONGEST_PAUSE_S = 1.5


class Journal:
    """A file of JSON lines. One system call writes a whole line."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, event: str, job: LeasedJob, **values: Any) -> None:
        line = {"event": event, "job_id": job.job_id, "attempt_id": job.attempt_id, **values}
        os.write(self._file, json.dumps(line).encode() + b"\n")


class LeaseWatch:
    """A record of the time until which each lease is valid.

    `HttpPlane` deletes this time when a lease is lost, so `LeaseWatch` keeps a copy.
    """

    def __init__(self, plane: HttpPlane, keeper: JobLeaseKeeper) -> None:
        self._plane, self._keeper = plane, keeper
        self._holds_until: dict[str, float] = {}
        threading.Thread(target=self._watch, daemon=True).start()

    def has_run_out(self, job: LeasedJob) -> bool:
        return boot_clock() > self._holds_until.get(job.attempt_id, float("-inf"))

    def note(self, job: LeasedJob) -> None:
        until = self._plane.holds_until(job)
        if until > 0:
            self._holds_until[job.attempt_id] = until

    def _watch(self) -> None:
        pause = threading.Event()
        while not pause.wait(_WATCH_S):
            for control in self._keeper.held():
                self.note(control.job)


class SimulatedWorker:
    def __init__(self, url: str, api_key: str, worker_id: str, journal: Journal, random: Random) -> None:
        connection = ServerConnection(ServerSettings(url, api_key), connections=SLOTS + 4)
        claims = ClaimPoll(
            connection, worker_id, ("default",), clock=boot_clock, longest_pause_s=_LONGEST_PAUSE_S
        )
        self._plane = HttpPlane(connection, worker_id=worker_id, claims=claims)
        self._keeper = JobLeaseKeeper(self._plane, interval_ms=500)
        self._watch = LeaseWatch(self._plane, self._keeper)
        self._journal, self._random = journal, random
        self._pool, self._busy = ThreadPoolExecutor(SLOTS), threading.Semaphore(SLOTS)
        self._running = 0
        self._lock = threading.Lock()
        self._is_stopping = False

    def stop(self) -> None:
        """Claim no more, and abort the claim that waits."""
        self._is_stopping = True
        self._plane.wake()

    def run(self) -> None:
        self._keeper.start()
        while not self._is_stopping:
            with self._busy:  # wait for a free slot
                free = SLOTS - self._running
            try:
                jobs = self._plane.claim(free, wait_s=_CLAIM_WAIT_S)
            except EuterpeError:
                self._plane.wait(0.1)
                continue
            for job in jobs:
                self._begin(job)
        self._pool.shutdown()
        self._keeper.stop()
        self._plane.close()

    def _begin(self, job: LeasedJob) -> None:
        self._journal.note("claimed", job)
        self._watch.note(job)
        control = AttemptControl(job, _TIMEOUT_S)
        self._keeper.keep(control)
        self._busy.acquire()
        with self._lock:
            self._running += 1
        self._pool.submit(self._attempt, control).add_done_callback(self._end)

    def _end(self, ended: "Future[None]") -> None:
        with self._lock:
            self._running -= 1
        self._busy.release()
        self._plane.wake()
        if (error := ended.exception()) is not None:
            os.write(2, f"{error!r}\n".encode())
            os._exit(3)

    def _attempt(self, control: AttemptControl) -> None:
        job = control.job
        try:
            self._run(control, AttemptRecorder(self._plane, control))
        except LeaseLost:
            self._journal.note("lost", job, has_run_out=self._watch.has_run_out(job))
        finally:
            self._keeper.drop(control)

    def _run(self, control: AttemptControl, recorder: AttemptRecorder) -> None:
        job = control.job
        wanted: Mapping[str, Any] = job.spec["metadata"]
        fails_in = self._random.choice(IN_PROGRESS) if job.attempt_count <= wanted["failures"] else None
        for target in (*IN_PROGRESS[1:], None):
            if recorder.phase == fails_in:
                code = ErrorCode[wanted["code"].upper()]
                end = recorder.fail(JobError(code, "wanted", recorder.phase), {})
                if end == "stale":
                    raise LeaseLost("the failure was refused")
                self._journal.note("failed", job, end=end)
                return
            control.wait(self._random.random() * _LONGEST_STEP_S + wanted["pause_s"])
            if target is not None:
                recorder.advance(target)
        recorder.succeed([{"name": "out", "attempt": job.attempt_id}], {})
        self._journal.note("succeeded", job)


def main(worker_id: str, journal: str) -> None:
    url, key = os.environ["EUTERPE_SERVER"], os.environ["EUTERPE_API_KEY"]
    worker = SimulatedWorker(url, key, worker_id, Journal(journal), Random(worker_id))

    def stop(*_: object) -> None:
        threading.Thread(target=worker.stop).start()  # a signal handler must wait for no lock

    signal.signal(signal.SIGTERM, stop)
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    worker.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
