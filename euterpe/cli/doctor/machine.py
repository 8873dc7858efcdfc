"""The checks of a machine that runs jobs: ffmpeg, sandbox, disk, and what jobs may reach."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from euterpe.cli.doctor.findings import CheckResult, DoctorFinding, check
from euterpe.domain.errors import EuterpeError
from euterpe.settings import Settings


def examine_media(settings: Settings) -> Iterator[CheckResult]:
    yield check("ffmpeg", partial(_ffmpeg, settings))
    yield from _features(settings)
    yield from _sandbox(settings)


def examine_reach(settings: Settings) -> Iterator[CheckResult]:
    yield check("work directory", partial(_work_dir, settings))
    yield check("what jobs may reach", partial(_reach, settings))


def _ffmpeg(settings: Settings) -> str:
    from euterpe.media.ffmpeg import SAFE_VERSION, examine_ffmpeg, find_ffmpeg

    found = examine_ffmpeg(find_ffmpeg(settings.ffmpeg))
    if not found.is_safe:
        oldest = ".".join(map(str, SAFE_VERSION))
        raise DoctorFinding(
            f"{found.version} is not known to be as new as {oldest}, and hostile media can get around its "
            "limits; unset EUTERPE_FFMPEG to use the bundled one"
        )
    return f"{found.version} at {found.path}"


def _features(settings: Settings) -> Iterator[CheckResult]:
    """Yield a warning if ffmpeg lacks an encoder, a muxer or a filter that jobs may need."""
    from euterpe.media.ffmpeg import find_ffmpeg
    from euterpe.media.ffmpeg_features import read_features
    from euterpe.media.planning.needs import ALL_FEATURES

    with suppress(EuterpeError):  # the check before this one reports a missing ffmpeg
        if missing := read_features(find_ffmpeg(settings.ffmpeg)).missing(ALL_FEATURES):
            detail = (
                f"no {', '.join(missing)}: this worker releases each job that needs it, and the job fails if "
                "no other worker can run it; unset EUTERPE_FFMPEG to use the bundled one"
            )
            yield CheckResult("ffmpeg features", True, detail, is_warning=True)


def _sandbox(settings: Settings) -> Iterator[CheckResult]:
    """Start the sandbox of a worker, and yield a result for each layer of the sandbox."""
    from euterpe.media.sandbox.sandbox import Sandbox

    try:
        with Sandbox(Path(os.devnull)) as sandbox:
            isolation = sandbox.isolation
    except EuterpeError as error:
        yield CheckResult("sandbox", False, str(error))
        return
    for layer in isolation.layers():
        name = f"sandbox: {layer.name}"
        if layer.holds:
            yield CheckResult(name, True, f"{layer.mechanism} holds")
            continue
        refused = layer.is_essential and settings.require_sandbox
        detail = f"no {layer.mechanism}: after a takeover of ffmpeg {layer.open_without}; {layer.advice}"
        if refused:
            detail += "; or accept the risk with EUTERPE_REQUIRE_SANDBOX=false"
        yield CheckResult(name, not refused, detail, is_warning=not refused)


def _work_dir(settings: Settings) -> str:
    folder = settings.work_dir or Path(tempfile.gettempdir())
    # A worker creates the missing folders of the path, so check the nearest folder that exists.
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        raise DoctorFinding(f"{there} cannot be written to; correct EUTERPE_WORK_DIR")
    free = shutil.disk_usage(there).free
    if free <= settings.min_free_bytes:
        raise DoctorFinding(
            f"{folder} has {free} bytes free, and {settings.min_free_bytes} are kept: no job can run; make "
            "room, or lower EUTERPE_MIN_FREE_BYTES"
        )
    return f"{folder} has {free // 1024**2} MiB free"


def _reach(settings: Settings) -> str:
    from euterpe.wiring.worker import egress_policy, storage_policy

    egress_policy(settings)
    roots = storage_policy(settings).roots
    for root in roots:
        if not root.is_dir():
            raise DoctorFinding(f"{root} is not a folder; correct EUTERPE_STORAGE_ROOTS")
    opened = {
        "EUTERPE_STORAGE_ROOTS": roots,
        "EUTERPE_STORAGE_ENDPOINTS": settings.storage_endpoints,
        "EUTERPE_EGRESS_ALLOW": settings.egress_allow,
    }
    named = [f"{', '.join(map(str, entries))} by {name}" for name, entries in opened.items() if entries]
    return "; ".join(["the clouds' own storage and public addresses", *named])
