"""Run sweeps as a part of claims, so that no separate process is needed, and limit the rows of each sweep."""

import time
from collections.abc import Callable
from typing import TypeVar

_Claim = TypeVar("_Claim")

# The limit on the rows of each step of a sweep, so that no claim waits long for the sweep. If this many rows
# are due, the sweep also moves a few rows of each of the next requesters (`due_rows.py`).
ROWS_PER_SWEEP = 100
# The limit on the recovered receivers whose events one sweep releases. The limit is more than one: otherwise
# the backlog of the first receiver would delay the events of the next receiver.
RECEIVERS_PER_SWEEP = 4
# After a claim that found nothing, the next call claims before it sweeps. But when this many periods of
# `every_ms` have passed since the last sweep, the call sweeps before it claims, because rows may have become
# due meanwhile.
_IDLE_PAUSES = 20


class SweepTimer:
    """A timer that runs `sweep` before or after claims. `sweep` returns how many rows it changed."""

    def __init__(self, every_ms: int, sweep: Callable[[], int]) -> None:
        self._every_s, self._sweep = every_ms / 1000, sweep
        self._last, self._is_idle = float("-inf"), False

    def claim_with_sweep(self, claim: Callable[[], list[_Claim]]) -> list[_Claim]:
        """Call `claim`, and sweep if a sweep is due; return the claimed rows.

        Normally the sweep runs before the claim. After a call that claimed nothing, the next call claims
        before it sweeps, so that the first new job does not wait for the sweep. But when `_IDLE_PAUSES`
        periods of `every_ms` have passed since the last sweep, the sweep runs before the claim. If the claim
        finds nothing, the call runs a sweep that is due, and claims again if the sweep changed rows.
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
        # Until the sweep ends, `_last` is a time in the future. If the sweep fails, `_last` keeps this value,
        # so the next sweep is due only after a longer pause, and claims continue during this pause.
        self._last = now + _IDLE_PAUSES * self._every_s
        swept = self._sweep()
        self._last = now
        return swept
