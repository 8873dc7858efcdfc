"""When to sweep: claims do it by the way, so that no separate reaper is needed."""

import time
from collections.abc import Callable
from typing import TypeVar

_Claim = TypeVar("_Claim")

# Whoever found nothing has swept, and claims first when something has come. But not later than so many pauses
# after that sweep: it would miss what has become due meanwhile.
_STILL_SWEPT = 20


class SweepTimer:
    def __init__(self, every_ms: int, sweep: Callable[[], int]) -> None:
        """`sweep` brings rows where claims find them, and tells how many."""
        self._every_s, self._sweep = every_ms / 1000, sweep
        self._last, self._is_idle = float("-inf"), False

    def around(self, claim: Callable[[], list[_Claim]]) -> list[_Claim]:
        """Sweeps before a claim or, so that an idle worker's first job does not wait for it, after one that
        found nothing; what that brings is claimed."""
        if self._is_due(_STILL_SWEPT * self._every_s if self._is_idle else self._every_s):
            self._now()
        claimed = claim()
        if not claimed and self._is_due(self._every_s) and self._now():
            claimed = claim()
        self._is_idle = not claimed
        return claimed

    def _is_due(self, pause_s: float) -> bool:
        return time.monotonic() - self._last >= pause_s

    def _now(self) -> int:
        now = time.monotonic()
        # One that fails comes later: claims go on without it in between.
        self._last = now + _STILL_SWEPT * self._every_s
        swept = self._sweep()
        self._last = now
        return swept
