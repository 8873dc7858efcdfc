"""An attempt at a job, from its claim to its outcome: fetch, probe, encode, verify, upload."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, assert_never

import structlog

from euterpe.domain.error_codes import RetryClass
from euterpe.domain.retry import JobError
from euterpe.domain.spec import resolve_outputs
from euterpe.domain.states import JobStatus
from euterpe.media.encoding.encode import encode, max_output_bytes
from euterpe.media.encoding.progress import EncodeProgress
from euterpe.media.encoding.verify import MadeFile, Verified, verify
from euterpe.media.planning.planner import plan
from euterpe.media.planning.tree import Plan, PlanWarning
from euterpe.media.sandbox.sandbox import Sandbox
from euterpe.media.source.media_info import MediaInfo
from euterpe.net.egress import Egress
from euterpe.storage.publication import Owner
from euterpe.storage.storage import Storage
from euterpe.storage.transfer import Stored
from euterpe.store.engine.ids import is_id
from euterpe.store.errors import Conflict
from euterpe.store.store import Store
from euterpe.worker.attempt_control import AttemptControl, AttemptResult, LeaseLost, WorkerStopping
from euterpe.worker.blame import LIMITED_CODES, Charge, NoCharge, ReleasePolicy, Verdict, judge
from euterpe.worker.credentials import DEFAULT_TIMINGS, CredentialAccess, RefreshTimings
from euterpe.worker.disk import DiskLedger
from euterpe.worker.health import SelfCheck
from euterpe.worker.kept_sources import KeptSources
from euterpe.worker.output_documents import output_documents
from euterpe.worker.recorder import AttemptRecorder
from euterpe.worker.source_fetcher import SourceFetcher
from euterpe.worker.uploader import Uploader
from euterpe.worker.workdir import WorkDir

_log = structlog.get_logger(__name__)
# A job's progress in percent after the fetch and after the encode. The encode is nearly all of the work.
_FETCHED, _ENCODED = 5.0, 95.0
# The free space is checked again after this many bytes, because other programs use the disk, too. It is not
# checked more often, because each check is a system call.
_CHECK_EVERY_BYTES = 16 * 1024 * 1024
# In every phase, `AttemptControl.check` should be the first to report the timeout. So the encode gets this
# many seconds more than the attempt has left: its own timeout is only a fallback.
_EXTRA_ENCODE_S = 5.0
_FINAL = frozenset({RetryClass.PERMANENT, RetryClass.UNRECOVERABLE})
# 20 outputs of a source with 32 streams could have 640 warnings.
_MOST_WARNINGS = 100


@dataclass(frozen=True)
class Tools:
    """The services and limits that all attempts of a worker share."""

    store: Store
    storage: Storage
    egress: Egress
    sandbox: Sandbox
    workdir: WorkDir
    ffmpeg_version: str
    threads: int
    memory_bytes: int  # the limit of each ffmpeg process
    max_source_bytes: int
    stall_seconds: float
    max_refreshes: int
    disk: DiskLedger
    kept: KeptSources
    release_policy: ReleasePolicy = field(default_factory=ReleasePolicy)
    refresh_timings: RefreshTimings = DEFAULT_TIMINGS

    @property
    def self_check(self) -> SelfCheck:
        return SelfCheck(self.workdir, self.disk, self.sandbox)


class Attempt:
    def __init__(self, tools: Tools, control: AttemptControl) -> None:
        self._tools, self._control, self._job = tools, control, control.job
        self._recorder = AttemptRecorder(tools.store, control)
        self._meter = control.meter
        self._meter.note(ffmpeg=tools.ffmpeg_version)
        self._unchecked = _CHECK_EVERY_BYTES
        self._cpu_seconds = 0.0
        self._source: SourceFetcher | None = None
        self._is_requeued = False
        self._storage = tools.storage.bounded(control.time_left)
        self._owner = Owner(self._job.job_id, self._job.claim_version, is_rival=self._is_rival)

    def _is_rival(self, other_id: str) -> bool | None:
        if not is_id(other_id):  # anyone with write access to the object store may have written this id
            return None
        return self._tools.store.jobs.is_rival(self._job.job_id, self._job.claim_version, other_id)

    def run(self) -> AttemptResult:
        """Run the attempt and record its outcome. Write nothing once the lease is lost.

        Return `WORKER_FAULT` when the worker seems to be at fault (disk, memory, sandbox).
        """
        try:
            return self._run()
        finally:
            if not self._is_requeued:
                self._drop_source()

    def _run(self) -> AttemptResult:
        try:
            with self._workplace() as folder:
                outputs = self._work(folder)
            # Record success after all files are removed, so that a succeeded job leaves none here.
            self._drop_source()
            timings = self._meter.document("final")
            self._recorder.advance(JobStatus.SUCCEEDED, outputs=outputs, timings=timings)
            _log.info("job_succeeded", **timings)
        except (LeaseLost, Conflict):  # the store raises Conflict when the claim is over
            _log.warning("lease_lost", phase=self._recorder.phase)
            return AttemptResult.LEASE_LOST
        except WorkerStopping:
            self._write_end(lambda: self._recorder.release(self._meter.document("final")))
            return AttemptResult.RELEASED
        except Exception as error:  # noqa: BLE001  a slot must survive any error of a job
            return self._end(judge(error, self._recorder.phase, self._tools.self_check.quick))
        return AttemptResult.SUCCEEDED

    @contextmanager
    def _workplace(self) -> Iterator[Path]:
        """Yield a work folder with a disk reservation. Remove the folder before the reservation ends.

        A fetched source is kept until the outcome of the attempt is known.
        """
        self._room = self._tools.disk.open()
        try:
            with self._tools.workdir.folder(f"{self._job.job_id}-{self._job.claim_version}") as folder:
                try:
                    yield folder
                finally:
                    if self._source is not None:
                        self._source.keep()
        finally:
            self._room.close()

    def _end(self, verdict: Verdict) -> AttemptResult:
        match verdict:
            case Charge(error):
                self._write_end(lambda: self._fail(error, self._meter.document("final")))
                return AttemptResult.FAILED
            case NoCharge(error, suspects_worker):
                self._write_end(lambda: self._hand_back(error))
                return AttemptResult.WORKER_FAULT if suspects_worker else AttemptResult.RELEASED
            case _:
                assert_never(verdict)

    def _hand_back(self, reason: JobError) -> None:
        """Release the job without a charge.

        If the code is one of `LIMITED_CODES`, and the job has used up its releases for these codes, charge
        the attempt instead.
        """
        policy, timings = self._tools.release_policy, self._meter.document("final")
        if reason.code in LIMITED_CODES and policy.is_spent(self._recorder.attempts()):
            self._fail(reason, timings)
            return
        pause = policy.pause_ms(self._job)
        _log.warning("attempt_not_charged", code=reason.code, message=reason.message, pause_ms=pause)
        self._is_requeued = True
        self._recorder.release(timings, pause, reason)

    def _fail(self, error: JobError, timings: Mapping[str, Any]) -> None:
        if error.retry_class in _FINAL or self._job.attempt_count >= self._job.max_attempts:
            self._drop_source()
        self._is_requeued = self._recorder.fail(error, timings)

    def _drop_source(self) -> None:
        """Remove the kept source, because no retry needs it."""
        self._tools.kept.drop(self._job.job_id)

    def _write_end(self, write: Callable[[], None]) -> None:
        try:
            write()
        except Exception:  # noqa: BLE001  a slot must survive any error of a job
            # The lease will expire, and then the sweep ends the attempt.
            _log.exception("outcome_not_written")

    def _work(self, folder: Path) -> list[dict[str, Any]]:
        _log.info("attempt_started")
        egress = self._tools.egress.bounded(self._control.time_left)
        access = CredentialAccess(
            self._tools.store,
            egress,
            self._control,
            max_refreshes=self._tools.max_refreshes,
            timings=self._tools.refresh_timings,
        )
        self._recorder.advance(JobStatus.FETCHING)
        self._source = fetched = self._source_fetcher(folder / "source")
        with self._meter.phase("fetch"):
            self._source_bytes = fetched.fetch(access)
        with (folder / "source").open("rb") as source:
            with self._meter.phase("probe"):
                info = self._tools.sandbox.probe(source.fileno(), on_tick=self._control.check)
            self._recorder.advance(JobStatus.PROCESSING, source_info=info.document())
            planned = plan(resolve_outputs(access.spec), info, threads=self._tools.threads)
            (out := folder / "out").mkdir()
            verified = self._make(planned, info, source, out)
        made = verified.files
        # Other jobs may need the disk space, and the upload may take long.
        fetched.keep()
        (folder / "source").unlink(missing_ok=True)
        self._room.hold(sum(file.path.stat().st_size for file in made))
        warnings = _documents((*verified.failed, *planned.warnings))
        self._recorder.advance(JobStatus.UPLOADING, warnings=warnings)
        with self._meter.phase("upload"):
            stored = self._upload_all(access, made)
        self._meter.note(bytes_out=sum(done.size_bytes for done in stored))
        return output_documents(made, stored)

    def _source_fetcher(self, path: Path) -> SourceFetcher:
        return SourceFetcher(
            path,
            self._storage,
            self._tools.kept,
            self._room,
            job_id=self._job.job_id,
            max_source_bytes=self._tools.max_source_bytes,
            on_received=self._on_received,
        )

    def _on_received(self, size: int, received: int, expected: int | None) -> None:
        self._room.hold(received)
        self._check(size)
        self._meter.note(bytes_in=received)
        if size and expected:
            self._recorder.report(_FETCHED * received / expected)

    def _make(self, planned: Plan, info: MediaInfo, source: BinaryIO, folder: Path) -> Verified:
        self._meter.note(media_seconds=info.duration_seconds)
        with self._meter.phase("encode"):
            stats = encode(
                self._tools.sandbox,
                planned,
                source.fileno(),
                folder,
                timeout_seconds=self._control.seconds_left + _EXTRA_ENCODE_S,
                stall_seconds=self._tools.stall_seconds,
                max_output_bytes=max_output_bytes(info.size_bytes),
                memory_bytes=self._tools.memory_bytes,
                on_progress=self._on_encoded,
                on_cpu=self._on_cpu,
                on_disk=self._on_disk,
            )
        with self._meter.phase("verify"):
            return verify(
                self._tools.sandbox,
                planned,
                folder,
                source_fd=source.fileno(),
                failed=stats.failed,
                on_tick=self._control.check,
            )

    def _on_cpu(self, cpu_seconds: float) -> None:
        # A failed encode is metered, too, because its processor time costs money. If the fork server is
        # killed, the child's final usage is lost, so keep the largest measured value.
        self._cpu_seconds = max(self._cpu_seconds, cpu_seconds)
        self._meter.note(cpu_seconds=round(self._cpu_seconds, 3))

    def _on_disk(self, disk_bytes: int) -> None:
        self._room.hold(self._source_bytes + disk_bytes)

    def _on_encoded(self, progress: EncodeProgress) -> None:
        self._check(_CHECK_EVERY_BYTES)
        done = _FETCHED + (_ENCODED - _FETCHED) * (progress.percent or 0.0) / 100
        self._recorder.report(round(done, 2), eta_seconds=progress.eta_seconds, speed=progress.speed)

    def _upload_all(self, access: CredentialAccess, made: Sequence[MadeFile]) -> list[Stored]:
        """Upload the files in the order of `made`, which has each file after the files that it refers to."""
        whole, sent, stored = sum(file.path.stat().st_size for file in made), 0, list[Stored]()
        uploader = Uploader(
            self._storage,
            access,
            self._control,
            self._owner,
            self._recorder.prove_ownership,
            on_sent=self._on_sent,
        )
        for done in uploader.publish(made):
            stored.append(done)
            sent += done.size_bytes
            self._recorder.report(_ENCODED + (100.0 - _ENCODED) * sent / max(1, whole))
        uploader.check(made, stored)
        return stored

    def _on_sent(self, size: int) -> None:
        self._meter.add("bytes_out", size)
        self._control.check()

    def _check(self, written_bytes: int) -> None:
        """Raise when the attempt must stop, or when the disk is short."""
        self._control.check()
        self._unchecked += written_bytes
        if self._unchecked >= _CHECK_EVERY_BYTES:
            self._unchecked = 0
            self._room.check()


def _documents(warnings: Sequence[PlanWarning]) -> list[dict[str, Any]]:
    """Return the warnings, those of whole outputs first. If there are too many, the last one says so."""
    ordered = sorted(warnings, key=lambda warning: warning.code not in ("output_failed", "output_skipped"))
    if (left := len(ordered) - _MOST_WARNINGS) > 0:
        more = PlanWarning("more_warnings", None, f"{left + 1} more warnings are not listed")
        ordered = [*ordered[: _MOST_WARNINGS - 1], more]
    return [asdict(warning) for warning in ordered]
