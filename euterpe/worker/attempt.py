"""One attempt at a job, from its claim to its end: fetch, probe, encode, verify, upload."""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import structlog

from euterpe.crypto.errors import CannotDecrypt, UnknownFormat, UnknownKek
from euterpe.domain.credentials import StorageCredentials
from euterpe.domain.retry import Backoff, JobError, RetryClass, canceled
from euterpe.domain.spec import JobSpec, resolve_outputs
from euterpe.domain.states import JobStatus
from euterpe.media.encode import encode, max_output_bytes
from euterpe.media.errors import MediaError
from euterpe.media.info import MediaInfo
from euterpe.media.plan import Plan, plan
from euterpe.media.progress import Progress
from euterpe.media.sandbox import Sandbox
from euterpe.media.verify import MadeFile, verify
from euterpe.net.egress import Egress
from euterpe.storage.errors import StorageError
from euterpe.storage.source import SourceObject
from euterpe.storage.storage import Storage
from euterpe.storage.transfer import Stored
from euterpe.store.errors import Conflict
from euterpe.store.inbox import ClaimedJob
from euterpe.store.store import Store
from euterpe.worker.access import Access
from euterpe.worker.ends import CancelRequested, HandBack, LeaseLost, TimeSpent
from euterpe.worker.heart import Pulse
from euterpe.worker.journal import Journal
from euterpe.worker.outputs import output_documents
from euterpe.worker.workdir import DiskFull, WorkDir, for_want_of_means, for_want_of_room

_log = structlog.get_logger()
# What each phase is of a job's progress, in percent: nearly all of the work is the encode.
_FETCHED, _ENCODED = 5.0, 95.0
# Free space is asked for once in so many bytes: it is a system call, and others fill the disk too.
_LOOK_EVERY_BYTES = 16 * 1024 * 1024
# When the time is up the pulse says so, wherever the attempt is: ffmpeg's own limits are the net below it.
_PULSE_FIRST_S = 5.0
# What this worker lacks, another may have: a key that is being rolled out, a newer release.
_FOR_ANOTHER_WORKER_MS = 5_000
# A key may be lost for good: so often, at least, such a job is tried once more.
_LONGEST_PAUSE_MS = 300_000
_OUT_OF_REACH = (
    "the job's credentials cannot be opened for now; if that lasts, "
    "PUT /transcode/{job_id}/credentials stores new ones"
)
_OUR_FAULT = frozenset({"internal_error", "disk_full", "sandbox_failed", "out_of_memory"})


@dataclass(frozen=True)
class Tools:
    """What attempts work with; shared by all slots of a worker."""

    store: Store
    storage: Storage
    egress: Egress
    sandbox: Sandbox
    workdir: WorkDir
    ffmpeg_version: str
    threads: int
    memory_bytes: int  # of each ffmpeg
    max_source_bytes: int
    stall_seconds: float
    max_refreshes: int


class Attempt:
    def __init__(self, tools: Tools, pulse: Pulse) -> None:
        self._tools, self._pulse, self._job = tools, pulse, pulse.job
        self._journal = Journal(tools.store, pulse)
        self._timings: dict[str, Any] = {"ffmpeg": tools.ffmpeg_version}
        self._unchecked = _LOOK_EVERY_BYTES

    def run(self) -> bool:
        """Ends with the job moved on as far as it got; when it is not ours any more, with nothing written.
        False when the worker itself is in trouble, and not the job."""
        try:
            with self._tools.workdir.folder(f"{self._job.job_id}-{self._job.claim_version}") as folder:
                outputs = self._work(folder)
            # Once nothing of it is left here: an end that is told is a whole end.
            self._journal.advance(JobStatus.SUCCEEDED, outputs=outputs, timings=self._timings)
            _log.info("job_succeeded", **self._timings)
        except (LeaseLost, Conflict):  # the latter is the store's word for a claim that is over
            _log.warning("lease_lost", phase=self._journal.phase)
        except HandBack:
            self._write_end(self._journal.release)
        except (UnknownKek, UnknownFormat) as error:
            self._put_off(error)
        except Exception as error:  # noqa: BLE001  a slot must outlive whatever a job does
            if isinstance(error, OSError) and for_want_of_means(error):
                # The worker's own lack: the job is not to pay for it.
                _log.error("worker_lacks_means", error=str(error))
                self._write_end(lambda: self._journal.release(_FOR_ANOTHER_WORKER_MS))
                return False
            failure = self._failure(error)
            self._write_end(lambda: self._journal.fail(failure, self._timings))
            return failure.code not in _OUR_FAULT
        return True

    def _put_off(self, lacks: UnknownKek | UnknownFormat) -> None:
        """The secrets of this job alone are out of our reach: others that we hold can go on."""
        pause = _pause_ms(self._job)
        _log.warning("job_put_off", code=lacks.code, error=str(lacks), pause_ms=pause)
        # Its requester reads this too, and need not know our keys by name.
        reason = JobError(lacks.code, _OUT_OF_REACH, self._journal.phase, RetryClass.TRANSIENT)
        self._write_end(lambda: self._journal.release(pause, reason))

    def _failure(self, error: Exception) -> JobError:
        phase = self._journal.phase
        match error:
            case CancelRequested():
                return canceled(phase)
            case TimeSpent():
                return JobError(error.code, str(error), phase)
            case CannotDecrypt():
                return JobError(error.code, str(error), phase)
            case StorageError() | MediaError() | DiskFull():
                return error.job_error(phase)
            case OSError() if for_want_of_room(error):
                return DiskFull("the work directory has no room left").job_error(phase)
        _log.error("attempt_broke", exc_info=error)
        # The type alone: the text of a foreign error may hold what must not be shown.
        said = f"the worker met an unexpected {type(error).__name__}"
        return JobError("internal_error", said, phase, RetryClass.TRANSIENT)

    def _write_end(self, write: Callable[[], None]) -> None:
        try:
            write()
        except Exception:  # noqa: BLE001  a slot must outlive whatever a job does
            # The lease runs out by itself, and the sweep moves the job on.
            _log.exception("end_not_written")

    def _work(self, folder: Path) -> list[dict[str, Any]]:
        _log.info("attempt_started")
        access = Access(
            self._tools.store, self._tools.egress, self._pulse, max_refreshes=self._tools.max_refreshes
        )
        self._journal.advance(JobStatus.FETCHING)
        with (folder / "source").open("w+b") as source:
            with self._timed("fetch"):
                self._fetch(access, source)
            with self._timed("probe"):
                info = self._tools.sandbox.probe(source.fileno(), on_tick=self._pulse.check)
            self._journal.advance(JobStatus.PROCESSING, source_info=info.document())
            (made_in := folder / "out").mkdir()
            made = self._make(access.spec, info, source, made_in)
        (folder / "source").unlink()  # room for whoever needs it: the upload may take long
        self._journal.advance(JobStatus.UPLOADING)
        with self._timed("upload"):
            stored = self._upload_all(access, made)
        self._timings["bytes_out"] = sum(done.size_bytes for done in stored)
        return output_documents(made, stored)

    def _fetch(self, access: Access, source: BinaryIO) -> None:
        found: dict[int, SourceObject] = {}

        def at(spec: JobSpec, credentials: StorageCredentials | None) -> SourceObject:
            """To make a client takes 3 ms: one for each version of the credentials."""
            if id(spec) not in found:
                found[id(spec)] = self._tools.storage.source(spec.source, credentials)
            return found[id(spec)]

        expected = access.on("source", lambda spec, credentials: at(spec, credentials).stat())
        self._tools.workdir.check_room(expected.size or 0)

        def on_chunk(size: int) -> None:
            self._look_around(size)
            if expected.size:
                self._journal.report(_FETCHED * source.tell() / expected.size)

        def fetch(spec: JobSpec, credentials: StorageCredentials | None) -> None:
            limit = min(self._tools.max_source_bytes, spec.max_source_bytes or self._tools.max_source_bytes)
            at(spec, credentials).fetch(source, expect=expected, max_bytes=limit, on_chunk=on_chunk)

        access.on("source", fetch)
        source.flush()
        self._timings["bytes_in"] = source.tell()

    def _make(self, spec: JobSpec, info: MediaInfo, source: BinaryIO, folder: Path) -> tuple[MadeFile, ...]:
        planned: Plan = plan(resolve_outputs(spec), info, threads=self._tools.threads)
        self._timings["media_seconds"] = info.duration_seconds
        with self._timed("encode"):
            encode(
                self._tools.sandbox,
                planned,
                source.fileno(),
                folder,
                timeout_seconds=self._pulse.seconds_left + _PULSE_FIRST_S,
                stall_seconds=self._tools.stall_seconds,
                max_output_bytes=max_output_bytes(info.size_bytes),
                memory_bytes=self._tools.memory_bytes,
                on_progress=self._on_encoded,
                on_cpu=self._on_end,
            )
        with self._timed("verify"):
            return verify(self._tools.sandbox, planned, folder, on_tick=self._pulse.check)

    def _on_end(self, cpu_seconds: float) -> None:
        # Of an encode that failed too: somebody pays for it.
        self._timings["cpu_seconds"] = round(cpu_seconds, 3)

    def _on_encoded(self, progress: Progress) -> None:
        self._look_around(_LOOK_EVERY_BYTES)
        done = _FETCHED + (_ENCODED - _FETCHED) * (progress.percent or 0.0) / 100
        self._journal.report(round(done, 2), eta_seconds=progress.eta_seconds, speed=progress.speed)

    def _upload_all(self, access: Access, made: Sequence[MadeFile]) -> list[Stored]:
        """In the order in which they were made: what refers to others comes after them."""
        whole, sent, stored = sum(file.path.stat().st_size for file in made), 0, list[Stored]()
        for file in made:
            stored.append(self._upload(access, file))
            sent += stored[-1].size_bytes
            self._journal.report(_ENCODED + (100.0 - _ENCODED) * sent / max(1, whole))
        return stored

    def _upload(self, access: Access, file: MadeFile) -> Stored:
        def put(spec: JobSpec, credentials: StorageCredentials | None) -> Stored:
            destination = self._tools.storage.destination(spec.output, credentials)
            return destination.put(
                file.name,
                file.path,
                content_type=file.content_type,
                before_publish=self._journal.prove_ownership,
                on_chunk=lambda _: self._pulse.check(),
            )

        return access.on("output", put)

    def _look_around(self, written_bytes: int) -> None:
        self._pulse.check()
        self._unchecked += written_bytes
        if self._unchecked >= _LOOK_EVERY_BYTES:
            self._unchecked = 0
            self._tools.workdir.check_room()

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self._timings[f"{phase}_ms"] = round((time.monotonic() - began) * 1000)


def _pause_ms(job: ClaimedJob) -> int:
    """Grows with each claim of the job that has cost it no attempt: the versions count them all."""
    given_back = job.claim_version - job.attempt_count
    backoff = Backoff(_FOR_ANOTHER_WORKER_MS, _LONGEST_PAUSE_MS)
    draw = random.random()  # noqa: S311  jitter, not a secret
    return backoff.delay_ms(given_back + 1, RetryClass.TRANSIENT, draw)
