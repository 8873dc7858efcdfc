"""Measure whether a ladder of an HDR film is mapped to SDR only once."""

from __future__ import annotations

from pathlib import Path

from ci.media_parts.films import film, hdr_film
from ci.media_parts.ladder import HEIGHTS, stream
from ci.media_parts.measuring import FFMPEG, QUIET, Product
from euterpe.bench.figures import Figure
from euterpe.media.planning.filters import graph

_SECONDS, _ROUNDS = 4, 2


def measure(product: Product) -> list[Figure]:
    hdr, sdr, found = hdr_film(1080, _SECONDS), film(1080, _SECONDS), []
    for _ in range(_ROUNDS):
        ours = product.make(hdr, [stream(*HEIGHTS)]).whole.cpu
        once = _map_to_nothing(product, hdr) + product.bare(sdr, [stream(*HEIGHTS)]).cpu
        four = sum(product.bare(hdr, [stream(height)]).cpu for height in HEIGHTS)
        found += [
            Figure(
                "four rungs from PQ, compared with a run that maps PQ to SDR and a ladder from SDR",
                *("CPU s", ours, once),
                at_most=1.05,
            ),
            Figure(
                "four rungs from PQ, compared with four runs, each of which maps PQ to SDR",
                "CPU s",
                ours,
                four,
            ),
        ]
    return found


def _map_to_nothing(product: Product, source: Path) -> float:
    """Return the CPU seconds of one decode and one mapping to SDR at the full size, without an encode."""
    (command,) = product.plan(source, [stream(HEIGHTS[0])]).commands
    words = ("-i", str(source), "-filter_complex", graph(command), "-map", "[v0]", "-f", "null", "-")
    return product.run([str(FFMPEG), *QUIET, *words]).cpu
