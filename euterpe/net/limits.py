"""How long one request may wait, and how much it may receive. Every wait on the network asks here first."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from euterpe.net.errors import EgressBadAnswer, EgressTimeout, EgressTooSlow
from euterpe.net.pace import TransferPace

# Slower than this is not slow but stuck, or wants to hold us: 50 GiB would take more than a year.
MIN_BYTES_PER_SECOND = 1024
# Informational answers count too: a stream of `100 Continue` is headers without end.
MAX_HEAD_BYTES = 64 * 1024


class RequestLimits:
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
        pace: TransferPace | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.where = where
        self._transfer = pace
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
        left = min(self._ends - self._began, self._idle_s - self._waited, self._of_transfer())
        if left <= 0:
            raise self.timeout()
        if self._receivable < 0:
            raise EgressBadAnswer(self.where, "its answer has no end")
        return left

    def end_wait(self, moved: int) -> None:
        """The wait brought, or took, `moved` bytes."""
        waited = self._clock() - self._began
        self._waited += waited
        self._moved += moved
        if self._transfer is not None:
            self._transfer.add(waited, moved)
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

    def _of_transfer(self) -> float:
        return math.inf if self._transfer is None else self._transfer.seconds_left

    @contextmanager
    def connecting(self) -> Iterator[None]:
        """Count the time that it takes to connect, successful or not: a server that hangs up after each drop
        would otherwise stay below the pace."""
        transfer, self._transfer = self._transfer, None
        began = self._clock()
        try:
            yield
        finally:
            self._transfer = transfer
            if transfer is not None:
                transfer.add(self._clock() - began, 0)

    def timeout(self) -> EgressTimeout:
        """Return the error for a wait that ended without anything; it counts for the pace of the transfer."""
        if self._transfer is not None:
            self._transfer.add(self._clock() - self._began, 0)
            if self._transfer.is_too_slow:
                return EgressTooSlow(self.where, f"moved {self._transfer}")
            if self._transfer.seconds_left <= 0:
                self._transfer.begin_anew()
        if self._ends - self._began <= self._idle_s - self._waited:
            return EgressTimeout(self.where, f"did not finish within {self._deadline_s:g} s")
        return EgressTimeout(self.where, f"moved less than 1 KiB a second for {self._idle_s:g} s")
