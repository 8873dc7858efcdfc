"""How long one request may wait, and how much it may receive. Every wait on the network asks here first."""

import math
import time
from collections.abc import Callable

from euterpe.net.errors import EgressBadAnswer, EgressTimeout

# Slower than this is not slow but stuck, or wants to hold us: 50 GiB would take more than a year.
MIN_BYTES_PER_SECOND = 1024
# Informational answers count too: a stream of `100 Continue` is headers without end.
MAX_HEAD_BYTES = 64 * 1024


class Limits:
    """Of one request: a deadline that nothing stretches, and a pace that a drip of bytes does not keep.

    The pace: what is waited for the other side, `idle_s` in all, must bring at least 1 KiB for each of these
    seconds; then it starts anew. What our own side takes in between (a disk, an encoder) does not count.
    """

    def __init__(
        self,
        where: str,
        deadline_s: float,
        *,
        idle_s: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.where = where
        self.answer_ended = False
        self._clock = clock
        self._deadline_s, self._ends = deadline_s, clock() + deadline_s
        self._idle_s, self._pace = idle_s, idle_s * MIN_BYTES_PER_SECOND
        self._waited = self._moved = 0.0
        self._receivable: float = MAX_HEAD_BYTES
        self._began = 0.0

    def begin_wait(self) -> float:
        """How many seconds the wait that begins now may take."""
        self._began = self._clock()
        left = min(self._ends - self._began, self._idle_s - self._waited)
        if left <= 0:
            raise self.timeout()
        if self._receivable < 0:
            raise EgressBadAnswer(self.where, "its answer has no end")
        return left

    def end_wait(self, moved: int) -> None:
        """The wait brought, or took, `moved` bytes."""
        self._waited += self._clock() - self._began
        self._moved += moved
        if self._moved >= self._pace:
            self.turn()

    def received(self, byte_count: int) -> None:
        self.end_wait(byte_count)
        self._receivable -= byte_count
        self.answer_ended = byte_count == 0

    def turn(self) -> None:
        """The other side starts something new: its pace is measured from here."""
        self._waited = self._moved = 0.0

    def head_read(self, receivable: float) -> None:
        """The headers are here; `receivable` bytes may follow."""
        self.turn()
        self._receivable = receivable

    def timeout(self) -> EgressTimeout:
        if self._ends - self._began <= self._idle_s - self._waited:
            return EgressTimeout(self.where, f"did not finish within {self._deadline_s:g} s")
        return EgressTimeout(self.where, f"moved less than 1 KiB a second for {self._idle_s:g} s")
