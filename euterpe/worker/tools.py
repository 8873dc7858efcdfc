"""The services and limits that all attempts of a worker share."""

from dataclasses import dataclass

from euterpe.media.ffmpeg_features import FfmpegFeatures
from euterpe.media.sandbox.sandbox import Sandbox
from euterpe.storage.storage import Storage
from euterpe.worker.control_plane import ControlPlane
from euterpe.worker.credentials import DEFAULT_TIMINGS, RefreshTimings
from euterpe.worker.disk import DiskLedger
from euterpe.worker.head_start import DEFAULT_TIMINGS as HEAD_START_TIMINGS
from euterpe.worker.head_start import HeadStartTimings
from euterpe.worker.health import SelfCheck
from euterpe.worker.kept_sources import KeptSources
from euterpe.worker.workdir import WorkDir


@dataclass(frozen=True)
class Tools:
    """The services and limits that all attempts of a worker share."""

    plane: ControlPlane
    storage: Storage
    sandbox: Sandbox
    workdir: WorkDir
    ffmpeg_version: str
    ffmpeg_features: FfmpegFeatures
    threads: int
    memory_bytes: int  # the memory limit of each ffmpeg process
    max_source_bytes: int
    stall_seconds: float
    disk: DiskLedger
    kept: KeptSources
    refresh_timings: RefreshTimings = DEFAULT_TIMINGS
    head_start_timings: HeadStartTimings = HEAD_START_TIMINGS

    @property
    def self_check(self) -> SelfCheck:
        return SelfCheck(self.workdir, self.disk, self.sandbox)
