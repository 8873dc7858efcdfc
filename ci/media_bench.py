"""Run the media part of ci/bench. The arguments select parts. The page is written only if all parts run."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci import media_report
from ci.figure_tables import section
from ci.media_parts import copies, hdr, jobs, ladder, quality, stills, threads
from ci.media_parts.measuring import FFMPEG, Product, product
from euterpe.bench.figures import Figure

_PAGE = Path("docs/benchmarks-media.md")


@dataclass(frozen=True)
class Part:
    title: str
    method: str
    measure: Callable[[Product], Sequence[Figure]]


PARTS: Mapping[str, Part] = {
    "ladder": Part(
        "Ladder",
        "12 s of 1080p into HLS with 1080, 720, 480 and 360 lines of H.264, capped, with a keyframe "
        "each 4 s, without sound. The command by hand has the same preset, quality, caps and segments, "
        "and the default threads of x264.",
        ladder.measure,
    ),
    "hdr": Part(
        "Ladder of an HDR film",
        "4 s of 1080p in PQ with 10 bits, mapped to SDR, into the same four rungs. If the mapping ran "
        "for each rung, the first ratio would be near 2.",
        hdr.measure,
    ),
    "copy": Part(
        "Copies",
        "An hour of 640×360 into another MP4, with its index at the beginning. *Bare* is `ffmpeg -c copy "
        "-movflags +faststart`, without a check of the copy.",
        copies.measure,
    ),
    "stills": Part(
        "Pictures of an hour",
        "An hour of 640×360 in MP4: the probe, the seek, the picture and its verification.",
        stills.measure,
    ),
    "quality": Part(
        "Quality",
        "12 s of 720p by x264, with VMAF for one of 7 pictures and without, and 180 s of 360p, with VMAF for "
        "one of 29 pictures and without. The same 180 s with a target of VMAF 90: the processor time of the "
        "search compared with that of the encode, and the predicted VMAF compared with that of the encode.",
        quality.measure,
    ),
    "threads": Part(
        "The same bytes with capped rates",
        "With a limit on the rate, the bytes of x265 and SVT-AV1 depend on the progress of their threads. "
        "The options `const-vbv` of x265 and `lp=1` of SVT-AV1 prevent this. 8 s of 720p, at most 2,000 "
        "kbit/s; *bare* is the same command without this option.",
        threads.measure,
    ),
    "transfer": Part(
        "A job from S3 to S3",
        "60 s of 720p into one MP4 by a worker with one slot, on SQLite; the store is `rclone serve "
        "s3`. Wall time from the claim to the end. The slow store is the same store "
        "behind a proxy that limits the "
        "bandwidth in each direction. For it, *bare* is a download with `rclone copyto`, the worker's "
        "ffmpeg command, and an upload with `rclone copyto`.",
        jobs.measure_transfer,
    ),
    "clips": Part(
        "Short clips",
        "Copies of one clip of 720p, with as many slots as cores. *Bare* is the worker's ffmpeg command "
        "on local files.",
        jobs.measure_clips,
    ),
    "reports": Part(
        "Progress and leases",
        "The processor time of the worker's own process during a whole job: progress once a second, "
        "heartbeats, and also the fetch, the plan, checksums and the upload. Source and output are "
        "local files.",
        jobs.measure_reports,
    ),
}


def main() -> None:
    names = sys.argv[1:] or list(PARTS)
    if unknown := set(names) - PARTS.keys():
        sys.exit(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    found: dict[str, tuple[str, Sequence[Figure]]] = {}
    with product() as steps:
        for name in names:
            began, part = time.perf_counter(), PARTS[name]
            figures = part.measure(steps)
            found[part.title] = (part.method, figures)
            print("\n".join(section(part.title, part.method, figures)))  # noqa: T201
            print(f"({name}: {time.perf_counter() - began:.0f} s)\n", flush=True)  # noqa: T201
    if len(names) == len(PARTS):
        _PAGE.write_text(media_report.render(found, _ffmpeg_version()))


def _ffmpeg_version() -> str:
    output = subprocess.run([FFMPEG, "-version"], check=True, capture_output=True, text=True).stdout
    return output.split()[2]


if __name__ == "__main__":
    main()
