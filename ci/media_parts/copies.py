"""Compare a worker's stream copy of a film with the command `ffmpeg -c copy`."""

from __future__ import annotations

from ci.media_parts.films import hour
from ci.media_parts.measuring import FFMPEG, QUIET, Product, output
from euterpe.bench.figures import Figure

_ROUNDS = 3


def measure(product: Product) -> list[Figure]:
    source, found = hour(), []
    copied = output(name="film", type="mp4", video={"copy": "auto"}, audio={"copy": "auto"})
    by_hand = [FFMPEG, *QUIET, "-i", source, "-c", "copy", "-movflags", "+faststart", "film/film.mp4"]
    for _ in range(_ROUNDS):
        bare, ours = product.run(by_hand), product.make(source, [copied])
        found += [
            Figure(
                "a copy of an hour, with probe and verification", "s", ours.whole.wall, bare.wall, at_most=1.2
            ),
            Figure("the same, CPU", "CPU s", ours.whole.cpu, bare.cpu, at_most=1.2),
            Figure("ffmpeg alone, CPU", "CPU s", ours.encode.cpu, bare.cpu),
        ]
    return found
