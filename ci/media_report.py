"""Render docs/benchmarks-media.md from the figures of one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ci.figure_tables import section
from ci.report import machine, versions
from euterpe.bench.figures import Figure

_PACKAGES = ("euterpe-transcode", "av", "imageio-ffmpeg")
_HEAD = """# Benchmarks of media

`ci/bench media` writes this page; do not edit it. One run on one machine. Read the ratios: absolute
figures depend on the machine more than on the software. CPU seconds are those of all processes of a
measurement, from the kernel's accounting (`wait4`); they hardly depend on what else runs. Where a part
is measured several times, the two sides take turns, and figures are medians, including the ratios.

*Euterpe* is all that a worker does with a fetched source: probe, plan, encode in the sandbox, packaging
and verification. *Bare* is ffmpeg of the same version without a sandbox, as each part describes. Films
are generated: `testsrc2` with grain, 25 pictures a second.

Machine: {machine}. Versions: {versions}, ffmpeg {ffmpeg}.
"""


def render(found: Mapping[str, tuple[str, Sequence[Figure]]], ffmpeg: str) -> str:
    """Return the page. `found` maps the title of each part to its description and its figures."""
    parts = [text for title, (method, figures) in found.items() for text in section(title, method, figures)]
    head = _HEAD.format(machine=machine(), versions=versions(_PACKAGES), ffmpeg=ffmpeg)
    return "\n".join([head, *parts])
