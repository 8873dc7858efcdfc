"""Plan a job without running it: read the beginning and end of its source, probe, and describe the plan."""

import tempfile
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

from euterpe.domain.credentials import credentials_for
from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.errors import EuterpeError
from euterpe.domain.spec import JobSpec, resolve_outputs
from euterpe.media.errors import MediaError
from euterpe.media.planning.overview import plan_overview
from euterpe.media.planning.planner import plan
from euterpe.media.sandbox.isolation import SandboxIncomplete
from euterpe.media.sandbox.sandbox import Sandbox
from euterpe.media.source.media_info import MediaInfo, StreamInfo
from euterpe.media.source.watermark_info import WatermarkInfo
from euterpe.storage.source_ends import DEFAULT_ENDS, EndBytes
from euterpe.storage.source_file import SourceFile
from euterpe.storage.storage import Storage
from euterpe.worker.watermark_fetcher import (
    MOST_WATERMARK_BYTES,
    as_watermark,
    places_of,
    probe_watermark,
    watermark_object,
)


class DryRunTimeout(EuterpeError):
    code = "dry_run_timeout"


class DryRunStopped(EuterpeError):
    """Raised when the process stops during a dry run."""

    code = "dry_run_unavailable"


@dataclass(frozen=True)
class DryRunLimits:
    max_source_bytes: int
    ends: EndBytes = DEFAULT_ENDS
    deadline_s: float = 30.0
    requires_sandbox: bool = False


class DryRuns:
    """The dry runs of one process. Thread-safe. The first dry run starts the sandbox and makes `folder`.

    `folder` contains the bytes that were read from sources, at most 48 MiB for each running dry run.
    """

    def __init__(self, storage: Storage, sandbox: Sandbox, folder: Path, limits: DryRunLimits) -> None:
        self._storage, self._sandbox, self._folder, self._limits = storage, sandbox, folder, limits
        self._lock, self._stopping = threading.Lock(), threading.Event()

    def plan(self, spec: JobSpec) -> dict[str, Any]:
        """Return the `PlanDocument` of a job.

        Raise `StorageError` or `MediaError` if the dry run shows that the job would fail, and OSError if the
        folder cannot be written.
        """
        deadline = _Deadline(self._limits.deadline_s, self._stopping)
        deadline.check()
        sandbox = self._sandbox_started()
        self._folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=self._folder, prefix="euterpe-dry-run-") as file:
            is_whole = self._read(spec, file.fileno(), deadline)
            info = sandbox.probe(file.fileno(), allow_truncated=spec.allow_truncated, on_tick=deadline.check)
        if not is_whole:
            info = without_false_ends(info)
        outputs, pictures = resolve_outputs(spec), self._watermarks(spec, deadline)
        planned = plan(outputs, info, threads=1, allow_truncated=spec.allow_truncated, watermarks=pictures)
        return plan_overview(planned, outputs, info, is_exact=is_whole)

    def begin_stop(self) -> None:
        """Make all running and later dry runs raise `DryRunStopped`."""
        self._stopping.set()

    def stop(self) -> None:
        self.begin_stop()
        self._sandbox.stop()

    def _watermarks(self, spec: JobSpec, deadline: "_Deadline") -> dict[str, WatermarkInfo]:
        """Fetch the watermarks one after the other, and return their facts."""
        storage, sandbox = self._storage.bounded(deadline.seconds_left), self._sandbox_started()
        credentials, found = credentials_for(spec.credentials, "source"), {}
        for where in places_of(spec):
            with tempfile.TemporaryFile(dir=self._folder, prefix="euterpe-dry-run-") as file:
                with as_watermark():
                    picture = watermark_object(storage, where, spec, credentials)
                    part = SourceFile(file.fileno(), picture.stat())
                    picture.fetch(part, max_bytes=MOST_WATERMARK_BYTES, on_chunk=lambda _: deadline.check())
                found[where] = probe_watermark(sandbox, where, file, on_tick=deadline.check)
        return found

    def _sandbox_started(self) -> Sandbox:
        with self._lock:
            self._sandbox.start()
        if self._limits.requires_sandbox:
            try:
                self._sandbox.isolation.require()
            except SandboxIncomplete as missing:
                raise MediaError(ErrorCode.SANDBOX_FAILED, str(missing)) from None
        return self._sandbox

    def _read(self, spec: JobSpec, descriptor: int, deadline: "_Deadline") -> bool:
        storage = self._storage.bounded(deadline.seconds_left)
        source = storage.source(spec.source, credentials_for(spec.credentials, "source"))
        most = min(self._limits.max_source_bytes, spec.max_source_bytes or self._limits.max_source_bytes)
        return source.read_ends(descriptor, max_bytes=most, on_wait=deadline.check, ends=self._limits.ends)


def without_false_ends(info: MediaInfo) -> MediaInfo:
    """Replace durations that were measured in a partial file by durations that the headers declare."""
    streams = tuple(_declared(stream, info) for stream in info.streams)
    seconds = max(info.duration_seconds or 0.0, info.declared_seconds or 0.0) or None
    return replace(info, streams=streams, duration_seconds=seconds)


def _declared(stream: StreamInfo, info: MediaInfo) -> StreamInfo:
    declared = stream.declared_seconds or info.declared_seconds
    if declared is None or (stream.duration_seconds or 0.0) >= declared:
        return stream
    return replace(stream, duration_seconds=declared, end_seconds=None, latest_seconds=None)


class _Deadline:
    def __init__(self, seconds: float, stopping: threading.Event) -> None:
        self._seconds, self._until, self._stopping = seconds, monotonic() + seconds, stopping

    def seconds_left(self) -> float:
        """Return the seconds left, or raise `DryRunTimeout`. During a stop, raise `DryRunStopped`."""
        if self._stopping.is_set():
            raise DryRunStopped("this process stops")
        if (left := self._until - monotonic()) <= 0:
            raise DryRunTimeout(f"the source could not be read and probed within {self._seconds:g} s")
        return left

    def check(self) -> None:
        self.seconds_left()
