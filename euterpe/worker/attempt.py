"""An attempt at a job, from its claim to its outcome: fetch, probe, encode, verify, upload."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO, assert_never

import structlog

from euterpe.domain.error_codes import RetryClass
from euterpe.domain.leased_job import MAX_WARNINGS, End, StaleClaim, Unavailable
from euterpe.domain.retry import JobError
from euterpe.domain.spec import JobSpec, resolve_outputs
from euterpe.domain.states import JobStatus
from euterpe.domain.watermark_urls import watermark_urls
from euterpe.media.encoding.progress import EncodeProgress
from euterpe.media.encoding.verify import MadeFile
from euterpe.media.planning.documents import plan_hash
from euterpe.media.planning.needs import needs_of_outputs, needs_of_plan
from euterpe.media.planning.planner import plan
from euterpe.media.planning.tree import Plan, PlanWarning
from euterpe.media.source.media_info import MediaInfo
from euterpe.storage.publication import Owner
from euterpe.storage.source_file import SourceFile
from euterpe.storage.transfer import Stored
from euterpe.worker.attempt_control import AttemptControl, AttemptResult, LeaseLost, WorkerStopping
from euterpe.worker.blame import Charge, NoCharge, Verdict, judge
from euterpe.worker.credentials import CredentialAccess
from euterpe.worker.early_uploads import EarlyUploads
from euterpe.worker.head_start import HeadStart
from euterpe.worker.output_documents import output_documents
from euterpe.worker.output_maker import EncodeWork, OutputMaker
from euterpe.worker.recorder import AttemptRecorder
from euterpe.worker.requirements import require_features
from euterpe.worker.source_fetcher import SourceFetcher
from euterpe.worker.tools import Tools
from euterpe.worker.uploader import Uploader
from euterpe.worker.watermark_fetcher import WatermarkFetcher, probe_watermarks

_log = structlog.get_logger(__name__)
# A job's progress in percent after the fetch and after the encode. The encode is nearly all of the work.
_FETCHED, _ENCODED = 5.0, 95.0
# The free space is checked after this many bytes, because other programs also use the disk. More checks would
# cost too many system calls.
_CHECK_EVERY_BYTES = 16 * 1024 * 1024
_FINAL = frozenset({RetryClass.PERMANENT, RetryClass.UNRECOVERABLE})


class Attempt:
    def __init__(self, tools: Tools, control: AttemptControl) -> None:
        self._tools, self._control, self._job = tools, control, control.job
        self._recorder = AttemptRecorder(tools.plane, control)
        self._meter = control.meter
        self._meter.note(ffmpeg=tools.ffmpeg_version)
        self._unchecked = _CHECK_EVERY_BYTES
        self._source_bytes = self._out_bytes = self._announced_bytes = 0
        self._source: SourceFetcher | None = None
        self._is_requeued = False
        self._storage = tools.storage.bounded(control.time_left)
        self._maker = OutputMaker(tools, control, on_progress=self._on_encoded, on_disk=self._on_disk)
        self._owner = Owner(self._job.job_id, self._job.claim_version, is_rival=self._is_rival)

    def _is_rival(self, other_id: str) -> bool | None:
        return self._tools.plane.is_rival(self._job, other_id)

    def run(self) -> AttemptResult:
        """Run the attempt and record its outcome. Write nothing once the lease is lost.

        Return `WORKER_FAULT` when the worker is probably at fault (disk, memory, sandbox).
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
            # Remove all files before recording success, so that a succeeded job leaves no file on this
            # worker.
            self._drop_source()
            timings = self._meter.document("final")
            self._recorder.succeed(outputs, timings)
            _log.info("job_succeeded", **timings)
        except (LeaseLost, StaleClaim):
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
        """Release the job without a charge. After too many releases, the control plane charges the job."""
        end = self._recorder.release(self._meter.document("final"), reason)
        self._is_requeued = end in (End.RELEASED, End.REQUEUED)

    def _fail(self, error: JobError, timings: Mapping[str, Any]) -> None:
        if error.retry_class in _FINAL or self._job.attempt_count >= self._job.max_attempts:
            self._drop_source()
        self._is_requeued = self._recorder.fail(error, timings) is End.REQUEUED

    def _drop_source(self) -> None:
        """Remove the kept source, because no retry needs it."""
        self._tools.kept.drop(self._job.job_id)

    def _write_end(self, write: Callable[[], object]) -> None:
        try:
            write()
        except (Unavailable, LeaseLost) as error:
            # The lease will expire, and then the sweep ends the attempt.
            _log.warning("outcome_not_written", code=error.code, error=str(error))
        except Exception:  # noqa: BLE001  a slot must survive any error of a job
            _log.exception("outcome_not_written")

    def _work(self, folder: Path) -> list[dict[str, Any]]:
        _log.info("attempt_started")
        access = CredentialAccess(self._tools.plane, self._control, timings=self._tools.refresh_timings)
        self._storage.require(access.spec)
        require_features(self._tools.ffmpeg_features, needs_of_outputs(resolve_outputs(access.spec)))
        self._recorder.advance(JobStatus.FETCHING)
        (out := folder / "out").mkdir()
        early = EarlyUploads(self._storage, access, self._control, self._owner, on_sent=self._on_sent)
        head_start = self._maker.head_start(
            lambda: resolve_outputs(access.spec), folder / "source", out, lambda: self._announced_bytes
        )
        marks = WatermarkFetcher(
            folder / "watermarks", self._storage, on_received=self._on_watermark_received
        )
        with early, head_start:
            self._source = fetched = self._source_fetcher(folder / "source", head_start, access.spec)
            with self._meter.phase("fetch"):
                marks.announce(access)
                self._source_bytes = fetched.fetch(access)
                self._source_bytes += marks.fetch(access)
            with (folder / "source").open("rb") as source, marks.open() as pictures:
                info, planned = self._plan(access.spec, source, pictures)
                fds = [file.fileno() for file in pictures.values()]
                work = EncodeWork(planned, info, source, out, early, fds, access.hls_keys)
                made = self._maker.make(work, head_start)
            # Free the disk space for other jobs, because the upload may take a long time.
            fetched.keep()
            (folder / "source").unlink(missing_ok=True)
            marks.remove()
            self._room.hold(sum(file.path.stat().st_size for file in made.files))
            self._room.shrink()
            self._recorder.advance(JobStatus.UPLOADING, warnings=_documents(made.warnings))
            self._control.leave_slot()
            with self._meter.phase("upload"):
                stored = self._upload_all(access, made.files, early)
        self._meter.note(bytes_out=sum(done.size_bytes for done in stored))
        return output_documents(made.files, stored)

    def _plan(
        self, spec: JobSpec, source: BinaryIO, watermarks: Mapping[str, BinaryIO]
    ) -> tuple[MediaInfo, Plan]:
        allow = spec.allow_truncated
        with self._meter.phase("probe"):
            info = self._tools.sandbox.probe(
                source.fileno(), allow_truncated=allow, on_tick=self._control.check
            )
            pictures = probe_watermarks(self._tools.sandbox, watermarks, on_tick=self._control.check)
        self._recorder.advance(JobStatus.PROCESSING, source_info=info.document())
        outputs = resolve_outputs(spec)
        threads = self._tools.threads
        planned = plan(outputs, info, threads=threads, allow_truncated=allow, watermarks=pictures)
        _log.info("planned", plan_hash=plan_hash(planned))
        require_features(self._tools.ffmpeg_features, needs_of_plan(planned))
        return info, planned

    def _source_fetcher(self, path: Path, head_start: HeadStart, spec: JobSpec) -> SourceFetcher:
        def on_begun(file: SourceFile) -> None:
            self._announced_bytes = file.expect.size or 0
            # Do not begin early if damage is allowed, because only an encode of the complete source finds the
            # damage. Do not begin early with watermarks either, because they are fetched after the source.
            if not spec.allow_truncated and not watermark_urls(spec):
                head_start.begin(file)

        return SourceFetcher(
            path,
            self._storage,
            self._tools.kept,
            self._room,
            job_id=self._job.job_id,
            max_source_bytes=self._tools.max_source_bytes,
            on_received=self._on_received,
            on_begun=on_begun,
        )

    def _on_received(self, size: int, received: int, expected: int | None) -> None:
        self._source_bytes = received
        self._room.hold(received + self._out_bytes)
        self._check(size)
        self._meter.note(bytes_in=received)
        if size and expected:
            self._recorder.report(_FETCHED * received / expected)

    def _on_watermark_received(self, size: int, received: int) -> None:
        self._room.hold(self._source_bytes + received)
        self._check(size)
        self._meter.add("bytes_in", size)

    def _on_disk(self, disk_bytes: int) -> None:
        self._out_bytes = disk_bytes
        self._room.hold(self._source_bytes + disk_bytes)

    def _on_encoded(self, progress: EncodeProgress) -> None:
        self._check(_CHECK_EVERY_BYTES)
        done = _FETCHED + (_ENCODED - _FETCHED) * (progress.percent or 0.0) / 100
        self._recorder.report(round(done, 2), eta_seconds=progress.eta_seconds, speed=progress.speed)

    def _upload_all(
        self, access: CredentialAccess, made: Sequence[MadeFile], early: EarlyUploads
    ) -> list[Stored]:
        """Upload the files. In `made`, each file comes after the files that it refers to."""
        whole, sent = max(1, sum(file.path.stat().st_size for file in made)), 0

        def on_stored(done: Stored) -> None:
            nonlocal sent
            sent += done.size_bytes
            self._recorder.report(_ENCODED + (100.0 - _ENCODED) * sent / whole)

        uploader = Uploader(
            self._storage,
            access,
            self._control,
            self._owner,
            self._recorder.prove_ownership,
            on_sent=self._on_sent,
            early=early,
        )
        stored = uploader.publish(made, on_stored)
        uploader.check(made, stored)
        return stored

    def _on_sent(self, size: int) -> None:
        self._meter.add("bytes_out", size)
        self._control.check()

    def _check(self, written_bytes: int) -> None:
        """Raise when the attempt must stop, or when the free disk space is below the reserve."""
        self._control.check()
        self._unchecked += written_bytes
        if self._unchecked >= _CHECK_EVERY_BYTES:
            self._unchecked = 0
            self._room.check()


def _documents(warnings: Sequence[PlanWarning]) -> list[dict[str, Any]]:
    """Return the warnings, missing outputs first.

    If there are too many warnings, the last one says how many are left out.
    """
    ordered = sorted(warnings, key=lambda warning: warning.code not in ("output_failed", "output_skipped"))
    if (left := len(ordered) - MAX_WARNINGS) > 0:
        more = PlanWarning("more_warnings", None, f"{left + 1} more warnings are not listed")
        ordered = [*ordered[: MAX_WARNINGS - 1], more]
    return [asdict(warning) for warning in ordered]
