"""Build what every worker needs, even without a database: storage, sandbox and disk."""

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path

import structlog

from euterpe.media.ffmpeg import examine_ffmpeg, find_ffmpeg
from euterpe.media.ffmpeg_features import read_features
from euterpe.media.planning.needs import ALL_FEATURES
from euterpe.media.sandbox.memory import memory_of_a_slot, memory_of_the_machine
from euterpe.media.sandbox.sandbox import Sandbox
from euterpe.net.egress import Egress
from euterpe.net.pace import MinimumPace
from euterpe.net.policy import EgressPolicy
from euterpe.settings import Settings, SettingsError
from euterpe.storage.policy import StoragePolicy
from euterpe.storage.range_readers import ParallelFetch
from euterpe.storage.storage import Storage
from euterpe.worker.control_plane import ControlPlane
from euterpe.worker.disk import DiskLedger
from euterpe.worker.kept_sources import KeptSources
from euterpe.worker.tools import Tools
from euterpe.worker.workdir import WorkDir

_log = structlog.get_logger(__name__)


def egress_policy(settings: Settings) -> EgressPolicy:
    try:
        return EgressPolicy(settings.egress_allow)
    except ValueError as error:
        raise SettingsError([f"EUTERPE_EGRESS_ALLOW: {error}"]) from None


def storage_policy(settings: Settings) -> StoragePolicy:
    # Do not resolve symbolic links in the roots, because the policy compares path names.
    roots = tuple(Path(root).absolute() for root in settings.storage_roots)
    try:
        return StoragePolicy(roots=roots, endpoints=settings.storage_endpoints)
    except ValueError as error:
        raise SettingsError([f"EUTERPE_STORAGE_ENDPOINTS: {error}"]) from None


def minimum_pace(settings: Settings) -> MinimumPace:
    return MinimumPace(settings.min_transfer_bytes_per_s, settings.min_transfer_window_ms / 1000)


def storage_of(settings: Settings, egress: Egress) -> Storage:
    return Storage(
        storage_policy(settings),
        egress,
        pace=minimum_pace(settings),
        parallel=ParallelFetch(connections=settings.fetch_connections),
    )


def work_folder(settings: Settings) -> Path:
    return settings.work_dir or Path(tempfile.gettempdir())


def worker_tools(settings: Settings, plane: ControlPlane, egress: Egress) -> Tools:
    found = examine_ffmpeg(find_ffmpeg(settings.ffmpeg))
    if not found.is_safe:
        _log.warning("ffmpeg_is_old", version=found.version, advice="see `euterpe doctor`")
    features = read_features(found.path)
    if missing := features.missing(ALL_FEATURES):
        _log.warning("ffmpeg_is_incomplete", missing=missing, advice="see `euterpe doctor`")
    workdir = WorkDir(settings.work_dir)
    kept = KeptSources(workdir)
    return Tools(
        plane=plane,
        storage=storage_of(settings, egress),
        sandbox=Sandbox(found.path),
        workdir=workdir,
        disk=DiskLedger(
            workdir.free_bytes,
            slots=settings.worker_slots,
            min_free_bytes=settings.min_free_bytes,
            kept=kept,
        ),
        kept=kept,
        ffmpeg_version=found.version,
        ffmpeg_features=features,
        threads=threads_of_a_slot(settings.worker_slots),
        memory_bytes=memory_of_a_slot(settings.worker_slots, memory_of_the_machine()),
        max_source_bytes=settings.max_source_bytes,
        stall_seconds=settings.stall_timeout_ms / 1000,
    )


def threads_of_a_slot(slots: int) -> int:
    """Return the number of ffmpeg threads per slot: the cores divided by the slots, but at least one."""
    return max(1, len(os.sched_getaffinity(0)) // slots)


def start_sandbox(sandbox: Sandbox, parts: ExitStack, *, is_required: bool) -> None:
    """Start the sandbox before the first claim. The sandbox stops when `parts` is closed.

    Raise if the sandbox is required and an essential layer is missing.
    """
    parts.enter_context(sandbox)
    for layer in sandbox.isolation.missing():
        _log.warning(
            "sandbox_incomplete", missing=layer.name, without_it=layer.open_without, advice=layer.advice
        )
    if is_required:
        sandbox.isolation.require()
