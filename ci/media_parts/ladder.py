"""Compare a ladder of four renditions with four runs of ffmpeg, and with the best single command."""

from __future__ import annotations

from collections.abc import Sequence

from ci.media_parts.films import film
from ci.media_parts.measuring import FFMPEG, QUIET, Product, output
from euterpe.bench.figures import Figure
from euterpe.domain.outputs import OutputSpec

HEIGHTS = (1080, 720, 480, 360)
# The maximum bit rates of these rungs, in kbit/s, as listed in docs/media.md.
_CAPS = (6000, 3401, 1929, 1289)
_SECONDS, _ROUNDS, _GRID_S, _FPS = 12, 2, 4, 25


def stream(*heights: int, **fields: object) -> OutputSpec:
    """Return an HLS output with these rungs in H.264, without sound."""
    video = {"codec": "h264", "ladder": list(heights), **fields}
    return output(name="stream", type="hls", segment_seconds=_GRID_S, video=video, audio=None)


def measure(product: Product) -> list[Figure]:
    source, found = film(1080, _SECONDS), []
    for _ in range(_ROUNDS):
        ours = product.make(source, [stream(*HEIGHTS)])
        four = sum(product.bare(source, [stream(height)]).cpu for height in HEIGHTS)
        split, cascade = (product.run(_by_hand(str(source), graph)).cpu for graph in (_SPLIT, _CASCADE))
        found += [
            Figure(
                "four rungs, compared with four runs of ffmpeg", "CPU s", ours.whole.cpu, four, at_most=0.72
            ),
            Figure(
                "four rungs, compared with one command by hand (the better of split and cascade)",
                *("CPU s", ours.whole.cpu, min(split, cascade)),
                at_most=1.05,
            ),
            Figure("the same without probe and verification", "CPU s", ours.encode.cpu, min(split, cascade)),
            Figure("the command by hand with `split`", "CPU s", split, four),
            Figure("the command by hand as a cascade", "CPU s", cascade, four),
        ]
    return found


_SIZES = tuple(f"{height * 16 // 9 // 2 * 2}:{height}" for height in HEIGHTS)
_SPLIT = (
    f"[0:v]split=4[v0][a][b][c];[a]scale={_SIZES[1]}[v1];[b]scale={_SIZES[2]}[v2];[c]scale={_SIZES[3]}[v3]"
)
_CASCADE = (
    f"[0:v]split[v0][a];[a]scale={_SIZES[1]},split[v1][b];"
    f"[b]scale={_SIZES[2]},split[v2][c];[c]scale={_SIZES[3]}[v3]"
)


def _by_hand(source: str, graph: str) -> Sequence[str]:
    """Return one command for the four rungs, with Euterpe's preset, quality, bit rate limits and segments."""
    rungs = [
        word
        for place, cap in enumerate(_CAPS)
        for word in (
            *("-map", f"[v{place}]", f"-maxrate:v:{place}", f"{cap}k", f"-bufsize:v:{place}", f"{2 * cap}k"),
        )
    ]
    codec = ["-c:v", "libx264", "-preset", "veryfast", "-crf", "23", "-sc_threshold", "0"]
    segments = f"-f dash -seg_duration {_GRID_S} -use_template 1 -use_timeline 0 stream/manifest.mpd".split()
    keyframes = ["-g", str(_GRID_S * _FPS), "-keyint_min", str(_GRID_S * _FPS)]
    return [
        str(FFMPEG),
        *QUIET,
        "-i",
        source,
        "-filter_complex",
        graph,
        *rungs,
        *codec,
        *keyframes,
        *segments,
    ]
