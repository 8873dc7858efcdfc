"""When to sweep: claims do it by the way, so that no separate reaper is needed."""

import time
from collections.abc import Callable
from typing import TypeVar

_Claim = TypeVar("_Claim")

# So many times its pause without a sweep, and the next claim begins with one: claims that always find
# something would put it off for ever.
_OVERDUE = 20


class Sweeps:
    def __init__(self, every_ms: int, sweep: Callable[[], int]) -> None:
        """`sweep` brings rows where claims find them, and tells how many."""
        self._every_s, self._sweep = every_ms / 1000, sweep
        self._last = float("-inf")

    def around(self, claim: Callable[[], list[_Claim]]) -> list[_Claim]:
        """Sweeps where there was nothing to claim: what is there need not wait for it."""
        if self._is_due(_OVERDUE * self._every_s):
            self._now()
        claimed = claim()
        if not claimed and self._is_due(self._every_s) and self._now():
            claimed = claim()
        return claimed

    def _is_due(self, pause_s: float) -> bool:
        return time.monotonic() - self._last >= pause_s

    def _now(self) -> int:
        self._last = time.monotonic()
        return self._sweep()
