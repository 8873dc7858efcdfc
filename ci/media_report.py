"""Render docs/benchmarks-media.md from the figures of one run."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from textwrap import fill

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
    """Return the page. `found` has the description and the figures of each part, by its title."""
    parts = [text for title, (method, figures) in found.items() for text in section(title, method, figures)]
    head = _HEAD.format(machine=machine(), versions=versions(_PACKAGES), ffmpeg=ffmpeg)
    return "\n".join([head, *parts])


def section(title: str, method: str, figures: Sequence[Figure]) -> list[str]:
    """Return the lines of one part."""
    by_what: dict[str, list[Figure]] = {}
    for figure in figures:
        by_what.setdefault(figure.what, []).append(figure)
    rows = [_row(same) for same in by_what.values()]
    heads = ["| | Euterpe | bare | ratio | goal | |", "|---|---:|---:|---:|---:|---|"]
    return [f"## {title}", "", fill(method, 118), "", *heads, *rows, ""]


def _row(same: Sequence[Figure]) -> str:
    value = statistics.median(figure.value for figure in same)
    bares = [figure.bare for figure in same if figure.bare is not None]
    ratios = [figure.ratio for figure in same if figure.ratio is not None]
    ratio = statistics.median(ratios) if ratios else None
    first = same[0]
    is_met = replace(first, value=value if ratio is None else ratio, bare=None).is_met
    cells = (
        first.what,
        f"{value:,.2f} {first.unit}",
        f"{statistics.median(bares):,.2f}" if bares else "",
        "" if ratio is None else f"{ratio:.2f} ×",
        first.target,
        "" if not first.target else "met" if is_met else "**missed**",
    )
    return f"| {' | '.join(cells)} |"
