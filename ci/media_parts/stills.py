"""Measure posters and sprites of a film of one hour.

For each picture, the worker seeks to the time of the picture in the film.
"""

from __future__ import annotations

from ci.media_parts.films import hour
from ci.media_parts.measuring import Product, output
from euterpe.bench.figures import Figure

_ROUNDS = 3


def measure(product: Product) -> list[Figure]:
    source, found = hour(), []
    for _ in range(_ROUNDS):
        for at in ("90%", "best"):
            made = product.make(source, [output(name="poster", type="image", at=[at])])
            found.append(Figure(f"poster of an hour, at `{at}`", "CPU s", made.whole.cpu, at_most=2))
    sheets = product.make(source, [output(name="seek", type="sprite", interval_seconds=10)])
    return [*found, Figure("sprite of an hour, each 10 s", "CPU s", sheets.whole.cpu)]
