"""Make the outputs of an attempt: encode (during the fetch, if possible), then verify."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import Any, BinaryIO

import structlog

from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.outputs import OutputSpec
from euterpe.media.encoding.encode import EncodeStats, encode, max_output_bytes, remove_inputs_and_logs
from euterpe.media.encoding.expected import ExpectedFile, files_of
from euterpe.media.encoding.progress import EncodeProgress
from euterpe.media.encoding.runner import SourceStream
from euterpe.media.encoding.verify import MadeFile, verify
from euterpe.media.errors import MediaError
from euterpe.media.planning.tree import Plan, PlanWarning
from euterpe.media.source.media_info import MediaInfo
from euterpe.worker.attempt_control import AttemptControl
from euterpe.worker.early_uploads import EarlyUploads
from euterpe.worker.head_start import HeadStart
from euterpe.worker.tools import Tools

_log = structlog.get_logger(__name__)
# The encode has its own deadline, but only as a fallback: in every phase, `AttemptControl.check` should
# report the timeout first. So the encode's deadline is this many seconds after the attempt's deadline.
_EXTRA_ENCODE_S = 5.0
# If the verification finds one of these errors, the cause can be the pipe from which ffmpeg read the source.
# After any other error, a second encode would not help. For example, a quality that is too low would be the
# same again. After a fault of the worker, the job is released anyway.
_CAUSED_BY_PIPES = (ErrorCode.OUTPUT_TRUNCATED, ErrorCode.OUTPUT_UNDECODABLE)


@dataclass(frozen=True)
class EncodeWork:
    """The inputs of an attempt's encode: plan, facts, files, output folder and early uploads."""

    planned: Plan
    info: MediaInfo
    source: BinaryIO
    folder: Path
    early: EarlyUploads
    watermark_fds: Sequence[int]
    hls_keys: Mapping[str, bytes] = field(repr=False)

    def offer(self, file: ExpectedFile) -> None:
        self.early.offer(file.path, self.folder / file.path, file.content_type)


@dataclass(frozen=True)
class MadeOutputs:
    """The verified files in publishing order, and the warnings of the job."""

    files: tuple[MadeFile, ...]
    warnings: tuple[PlanWarning, ...]


class OutputMaker:
    """Run the encodes of one attempt, and measure their processor time.

    `on_progress` receives the progress of all commands together, and `on_disk` the bytes that the files
    occupy. Both callbacks may raise to stop the encode.
    """

    def __init__(
        self,
        tools: Tools,
        control: AttemptControl,
        *,
        on_progress: Callable[[EncodeProgress], None],
        on_disk: Callable[[int], None],
    ) -> None:
        self._tools, self._control, self._meter = tools, control, control.meter
        self._on_progress, self._on_disk = on_progress, on_disk
        self._cpu_seconds = self._cpu_before = 0.0

    def head_start(
        self,
        outputs: Callable[[], Sequence[OutputSpec]],
        path: Path,
        folder: Path,
        source_bytes: Callable[[], int],
    ) -> HeadStart:
        """Return an encode into `folder` that may begin while the source is fetched to `path`."""

        def run(
            first: Plan, stream: SourceStream, on_progress: Callable[[EncodeProgress], None]
        ) -> EncodeStats:
            with path.open("rb") as source, self._meter.phase("encode"):
                limit = max_output_bytes(source_bytes())
                return self._encode(first, source, folder, limit, on_progress, stream=stream)

        return HeadStart(
            *(self._tools.sandbox, self._control, path),
            outputs,
            run,
            threads=self._tools.threads,
            timings=self._tools.head_start_timings,
        )

    def make(self, work: EncodeWork, head_start: HeadStart) -> MadeOutputs:
        """Make and verify the outputs. Use the early encode if it runs the first command of the plan."""
        self._meter.note(media_seconds=work.info.duration_seconds)
        if head_start.fits(work.planned):
            try:
                stats = head_start.finish(work.info.size_bytes, partial(self._on_first, work.planned))
                if stats is not None:
                    return self._go_on(work)
            except MediaError as error:
                if error.code not in _CAUSED_BY_PIPES:
                    raise
                # Encode again without a head start, so that a head start never fails a job.
                _log.warning("head_start_discarded", code=error.code)
        self._cpu_before = self._cpu_seconds
        work.early.forget()
        rmtree(work.folder)
        work.folder.mkdir()
        self._on_disk(0)
        return self._encode_and_verify(work, work.planned, self._on_progress)

    def _go_on(self, work: EncodeWork) -> MadeOutputs:
        """Run all commands except the first one, which has run during the fetch."""
        first, *others = work.planned.commands
        _log.info("early_encode_kept")
        self._cpu_before = self._cpu_seconds
        for file in files_of(first):
            work.offer(file)
        rest = replace(work.planned, commands=tuple(others))
        return self._encode_and_verify(work, rest, partial(self._on_others, work.planned))

    def _encode_and_verify(
        self, work: EncodeWork, commands: Plan, on_progress: Callable[[EncodeProgress], None]
    ) -> MadeOutputs:
        with self._meter.phase("encode"):
            limit = max_output_bytes(work.info.size_bytes)
            stats = self._encode(
                commands,
                work.source,
                work.folder,
                limit,
                on_progress,
                on_made=work.offer,
                watermark_fds=work.watermark_fds,
            )
        # Measurements during an encode can change the plan, so use the plan that the encode returns. If the
        # first command ran during the fetch, the plan contains no measurements, so it is not changed.
        made = stats.plan if commands is work.planned else work.planned
        with self._meter.phase("verify"):
            verified = verify(
                self._tools.sandbox,
                made,
                work.folder,
                source_fd=work.source.fileno(),
                hls_keys=work.hls_keys,
                failed=stats.failed,
                on_disk=self._on_disk,
                on_tick=self._control.check,
            )
        remove_inputs_and_logs(work.folder)
        if (vmaf := verified.lowest_vmaf) is not None:
            self._meter.note(vmaf=vmaf)
        damage = [stats.damage] if stats.damage else []
        return MadeOutputs(verified.files, (*verified.failed, *damage, *made.warnings))

    def _encode(
        self,
        planned: Plan,
        source: BinaryIO,
        folder: Path,
        most_bytes: int,
        on_progress: Callable[[EncodeProgress], None],
        **options: Any,
    ) -> EncodeStats:
        return encode(
            self._tools.sandbox,
            planned,
            source.fileno(),
            folder,
            timeout_seconds=self._control.seconds_left + _EXTRA_ENCODE_S,
            stall_seconds=self._tools.stall_seconds,
            max_output_bytes=most_bytes,
            memory_bytes=self._tools.memory_bytes,
            on_progress=on_progress,
            on_cpu=self._on_cpu,
            on_disk=self._on_disk,
            **options,
        )

    def _on_cpu(self, cpu_seconds: float) -> None:
        # Count a failed encode too, because its processor time costs money. If the fork server is killed, the
        # child's final usage is lost, so keep the largest measured value.
        self._cpu_seconds = max(self._cpu_seconds, self._cpu_before + cpu_seconds)
        self._meter.note(cpu_seconds=round(self._cpu_seconds, 3))

    def _on_first(self, planned: Plan, progress: EncodeProgress) -> None:
        self._on_progress(_scaled(progress, 0.0, _first_share(planned)))

    def _on_others(self, planned: Plan, progress: EncodeProgress) -> None:
        share = _first_share(planned)
        self._on_progress(_scaled(progress, 100 * share, 1 - share))


def _first_share(planned: Plan) -> float:
    return planned.commands[0].weight / (sum(command.weight for command in planned.commands) or 1.0)


def _scaled(progress: EncodeProgress, before: float, share: float) -> EncodeProgress:
    """Convert the progress of some commands to progress of the whole plan."""
    return replace(progress, percent=before + share * (progress.percent or 0.0))
