"""Find the configured ffmpeg, or else the ffmpeg in the wheel of imageio-ffmpeg, and check its version."""

import re
import subprocess
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.errors import MediaError

# In older versions, a playlist can bypass the format whitelist (CVE-2026-107697).
SAFE_VERSION = (9, 0, 2)

# The number of a release contains a dot. A git build has a date such as 2025-01-27, which is not a version.
_VERSION = re.compile(r"ffmpeg version n?(\d+(?:\.\d+)+)")


@dataclass(frozen=True)
class Ffmpeg:
    path: Path
    version: str

    @property
    def is_safe(self) -> bool:
        """Return whether this version has the fixes that untrusted input requires."""
        numbers = tuple(int(part) for part in re.findall(r"\d+", self.version)[:3])
        return numbers >= SAFE_VERSION


def find_ffmpeg(named: Path | None = None) -> Path:
    """Return `named`, or else the path of the bundled ffmpeg.

    Raise `ffmpeg_missing` if the path is not a file.
    """
    path = named or _bundled()
    if not path.is_file():
        raise MediaError(ErrorCode.FFMPEG_MISSING, f"there is no ffmpeg at {path}: correct EUTERPE_FFMPEG")
    return path.resolve()


def _bundled() -> Path:
    """Return the path of the ffmpeg in the wheel `imageio-ffmpeg`.

    Do not use the wheel's own finder, because it can return any other ffmpeg on the machine, even an old
    ffmpeg.
    """
    carried = sorted(Path(str(files("imageio_ffmpeg"))).glob("binaries/ffmpeg-*"))
    if not carried:
        raise MediaError(
            ErrorCode.FFMPEG_MISSING, "imageio-ffmpeg has no ffmpeg for this platform: set EUTERPE_FFMPEG"
        )
    return carried[-1]


def examine_ffmpeg(path: Path) -> Ffmpeg:
    """Run `ffmpeg -version` and return the version. Raise `ffmpeg_missing` when `path` is not an ffmpeg."""
    try:
        shown = subprocess.run(  # noqa: S603  the operator named it
            [path, "-version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=True, env={}
        ).stdout.decode(errors="replace")
    except (OSError, subprocess.SubprocessError):
        raise MediaError(ErrorCode.FFMPEG_MISSING, f"{path} does not run: correct EUTERPE_FFMPEG") from None
    if (found := _VERSION.match(shown)) is None:
        raise MediaError(ErrorCode.FFMPEG_MISSING, f"{path} is not ffmpeg: correct EUTERPE_FFMPEG")
    return Ffmpeg(path, found[1])
