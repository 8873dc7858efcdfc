"""Retry a call with exponential backoff and jitter."""

import time
from collections.abc import Callable
from typing import TypeVar

from euterpe.runtime.jitter import jittered

R = TypeVar("R")


def retry(
    call: Callable[[], R],
    *,
    on: type[Exception],
    may_retry: Callable[[Exception], bool],
    first_pause_s: float = 0.1,
    longest_pause_s: float = 5.0,
    sleep: Callable[[float], object] = time.sleep,
) -> R:
    """Return the result of `call`, repeated while it raises `on` and `may_retry` returns true.

    The pauses double from `first_pause_s` to `longest_pause_s`, each with jitter.
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
