"""The encoders, muxers and filters of an ffmpeg, which depend on how it was built."""

import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

# A line of a list is " V....D libx264 H.264 …": flags, one or several names, and a description.
_LINE = re.compile(r"^ [A-Z.|]{2,6} +([A-Za-z0-9_,-]+) ", re.MULTILINE)
_MUXER_LINE = re.compile(r"^ [D ]E[d ] +([A-Za-z0-9_,-]+) ", re.MULTILINE)


@dataclass(frozen=True)
class FfmpegFeatures:
    encoders: frozenset[str] = frozenset()
    muxers: frozenset[str] = frozenset()
    filters: frozenset[str] = frozenset()

    def __or__(self, other: "FfmpegFeatures") -> "FfmpegFeatures":
        return FfmpegFeatures(
            self.encoders | other.encoders, self.muxers | other.muxers, self.filters | other.filters
        )

    def missing(self, needed: "FfmpegFeatures") -> tuple[str, ...]:
        """Return the needed features that this ffmpeg lacks, such as "encoder libx264".

        If a list is empty, ffmpeg did not print the list, so no feature of this kind is reported as missing.
        """
        return tuple(
            f"{kind} {name}"
            for kind, here, wanted in (
                ("encoder", self.encoders, needed.encoders),
                ("muxer", self.muxers, needed.muxers),
                ("filter", self.filters, needed.filters),
            )
            for name in sorted(wanted - here if here else ())
        )


def read_features(path: Path) -> FfmpegFeatures:
    """Return the features that an ffmpeg lists. A list that ffmpeg does not print is empty."""
    return FfmpegFeatures(
        encoders=frozenset(_names(_LINE, _list(path, "-encoders"))),
        muxers=frozenset(_names(_MUXER_LINE, _list(path, "-muxers"))),
        filters=frozenset(_names(_LINE, _list(path, "-filters"))),
    )


def _list(path: Path, option: str) -> str:
    command: Iterable[str | Path] = (path, "-hide_banner", option)
    try:
        shown = subprocess.run(  # noqa: S603  the operator named it
            [*command], stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=True, env={}
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    # The legend of the flags ends with a line of dashes.
    return re.split(r"^ -{2,}$", shown.stdout.decode(errors="replace"), maxsplit=1, flags=re.MULTILINE)[-1]


def _names(line: re.Pattern[str], text: str) -> Iterator[str]:
    for found in line.finditer(text):
        yield from found[1].split(",")
