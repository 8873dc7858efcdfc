"""Limits of one request against slow or endless responses (slowloris), checked before each network wait."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from euterpe.net.errors import EgressBadAnswer, EgressTimeout, EgressTooSlow
from euterpe.net.pace import TransferPace

# A server that is slower than this is broken or delays us on purpose: 50 GiB would take more than a year.
MIN_BYTES_PER_SECOND = 1024
# Informational responses count too, because a stream of `100 Continue` has the effect of an endless header.
MAX_HEAD_BYTES = 64 * 1024

# The pause between two calls of `on_wait`.
TICK_S = 0.5

Clock = Callable[[], float]
OnWait = Callable[[], None]


class RequestLimits:
    """The limits of one request: a fixed deadline, a byte limit and a minimum pace.

    In every `idle_s` seconds of waiting for the peer, the request must move at least 1 KiB per second on
    average. As soon as it has moved `idle_s` × 1 KiB, the waiting time and the bytes are counted from zero
    again. Time that this process itself needs between two waits, for its disk or an encoder, does not count.

    `on_wait` is called every `tick_s` seconds of a wait for the response. It may raise to end the request.
    """

    def __init__(
        self,
        where: str,
        deadline_s: float,
        *,
        idle_s: float = math.inf,
        pace: TransferPace | None = None,
        clock: Clock = time.monotonic,
        on_wait: OnWait | None = None,
        tick_s: float = TICK_S,
    ) -> None:
        self.where = where
        self._on_wait, self._tick_s = on_wait, tick_s
        self._transfer = pace
        self.answer_ended = False
        self.clock = clock
        self._deadline_s, self._ends = deadline_s, clock() + deadline_s
        self._idle_s, self._pace = idle_s, idle_s * MIN_BYTES_PER_SECOND
        self._waited = self._moved = 0.0
        self._receivable: float = MAX_HEAD_BYTES
        self._began = 0.0

    def begin_wait(self) -> float:
        """Return how many seconds the wait that begins now may take. Raise if a limit is exceeded."""
        self._began = self.clock()
        left = min(self._ends - self._began, self._idle_s - self._waited, self._transfer_seconds_left())
        if left <= 0:
            raise self.timeout()
        if self._receivable < 0:
            raise EgressBadAnswer(self.where, "its answer has no end")
        return left

    def end_wait(self, moved: int) -> None:
        """Record the end of a wait that received or sent `moved` bytes."""
        waited = self.clock() - self._began
        self._waited += waited
        self._moved += moved
        if self._transfer is not None:
            self._transfer.add(waited, moved)
        if self._moved >= self._pace:
            self.turn()

    def ticks(self) -> Iterator[float]:
        """Begin a wait. Yield the number of seconds for which the caller may block, one part after another.

        Before each further part, this generator calls `on_wait`. The generator raises when the wait has
        reached its limit.
        """
        left = self.begin_wait()
        while self._on_wait is not None and left > self._tick_s:
            yield self._tick_s
            left -= self._tick_s
            self._on_wait()
        yield left
        raise self.timeout()

    def received(self, byte_count: int) -> None:
        self.end_wait(byte_count)
        self._receivable -= byte_count
        self.answer_ended = byte_count == 0

    def turn(self) -> None:
        """Restart the measurement of the pace: the request has kept the pace, or begins its next step."""
        self._waited = self._moved = 0.0

    def head_read(self, receivable: float) -> None:
        """Record that the headers were read, and that `receivable` bytes may follow."""
        self.turn()
        self._receivable = receivable

    def _transfer_seconds_left(self) -> float:
        return math.inf if self._transfer is None else self._transfer.seconds_left

    @contextmanager
    def connecting(self) -> Iterator[None]:
        """Count the time of a connection attempt, successful or not, as waiting time of the transfer.

        Otherwise a server that closes the connection after every few bytes would evade the minimum pace.
        """
        transfer, self._transfer = self._transfer, None
        began = self.clock()
        try:
            yield
        finally:
            self._transfer = transfer
            if transfer is not None:
                transfer.add(self.clock() - began, 0)

    def timeout(self) -> EgressTimeout:
        """Return the error for a wait that moved no byte, and count the wait in the pace of the transfer."""
        if self._transfer is not None:
            self._transfer.add(self.clock() - self._began, 0)
            if self._transfer.is_too_slow:
                return EgressTooSlow(self.where, f"moved {self._transfer}")
            if self._transfer.seconds_left <= 0:
                self._transfer.restart_window()
        if self._ends - self._began <= self._idle_s - self._waited:
            return EgressTimeout(self.where, f"did not finish within {self._deadline_s:g} s")
        return EgressTimeout(self.where, f"moved less than 1 KiB a second for {self._idle_s:g} s")
