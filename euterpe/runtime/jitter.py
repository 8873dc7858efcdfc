"""Random numbers for jitter and backoff, and never for secrets."""

import random


def draw() -> float:
    """Return a number that is uniform in [0, 1)."""
    return random.random()  # noqa: S311  jitter, not a secret


def jittered(seconds: float, least: float = 0.5, most: float = 1.5) -> float:
    """Return `seconds` times a factor that is uniform between `least` and `most`."""
    return seconds * (least + (most - least) * draw())
