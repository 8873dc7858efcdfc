"""Retry a call with exponential backoff and jitter. The random numbers here must not be used for secrets."""

import random
import time
from collections.abc import Callable
from typing import TypeVar

R = TypeVar("R")

# `SystemRandom` has no state. So two forked processes get different numbers, and the state of `random`, on
# which a test may depend, does not change.
_RANDOM = random.SystemRandom()


def draw() -> float:
    """Return a random number with a uniform distribution in [0, 1)."""
    return _RANDOM.random()


def jittered(seconds: float, least: float = 0.5, most: float = 1.5) -> float:
    """Return `seconds` times a uniform random factor between `least` and `most`."""
    return seconds * (least + (most - least) * draw())


def retry(
    call: Callable[[], R],
    *,
    on: type[Exception] | tuple[type[Exception], ...],
    may_retry: Callable[[Exception], bool],
    first_pause_s: float = 0.1,
    longest_pause_s: float = 5.0,
    sleep: Callable[[float], object] = time.sleep,
) -> R:
    """Return the result of `call`. Repeat the call while it raises `on` and `may_retry` returns true.

    The pauses double from `first_pause_s` to `longest_pause_s`, and each has jitter.
    """
    pause = first_pause_s
    while True:
        try:
            return call()
        except on as error:
            if not may_retry(error):
                raise
            sleep(jittered(pause))
            pause = min(longest_pause_s, pause * 2)
