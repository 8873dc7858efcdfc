"""When a sweep runs, and how many rows it takes. Claims run it, so that no separate reaper is needed."""

import time
from collections.abc import Callable
from typing import TypeVar

_Claim = TypeVar("_Claim")

# Each step of a sweep takes at most this many rows, so that no claim waits long behind it.
ROWS_PER_SWEEP = 100
# One sweep works on this many recovered receivers, so that none of them holds up the others.
RECEIVERS_PER_SWEEP = 4
# After a claim that found nothing and swept, the next one claims before it sweeps. But once this many pauses
# have passed since that sweep it sweeps first, or it would miss rows that became due meanwhile.
_IDLE_PAUSES = 20


class SweepTimer:
    """A timer that runs `sweep` before or after claims. `sweep` makes rows ready and returns how many."""

    def __init__(self, every_ms: int, sweep: Callable[[], int]) -> None:
        self._every_s, self._sweep = every_ms / 1000, sweep
        self._last, self._is_idle = float("-inf"), False

    def claim_with_sweep(self, claim: Callable[[], list[_Claim]]) -> list[_Claim]:
        """Return what `claim` returns; sweep before it, or after a claim that found nothing and claim again.

        An idle worker sweeps after its claim, so that its first job does not wait for the sweep.
        """
        if self._is_due(_IDLE_PAUSES * self._every_s if self._is_idle else self._every_s):
            self._run_sweep()
        claimed = claim()
        if not claimed and self._is_due(self._every_s) and self._run_sweep():
            claimed = claim()
        self._is_idle = not claimed
        return claimed

    def _is_due(self, pause_s: float) -> bool:
        return time.monotonic() - self._last >= pause_s

    def _run_sweep(self) -> int:
        now = time.monotonic()
        # After a failure the next sweep is due later, so that claims go on in between.
        self._last = now + _IDLE_PAUSES * self._every_s
        swept = self._sweep()
        self._last = now
        return swept
