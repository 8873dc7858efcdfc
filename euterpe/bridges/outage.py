"""Call a foreign queue that may be unavailable. Log one line per outage, and retry after growing pauses."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from euterpe.bridges.adapter import ForeignUnavailable
from euterpe.bridges.counts import CountedJobs

_log = structlog.get_logger(__name__)
Answer = TypeVar("Answer")
Call = Callable[[], Awaitable[Answer]]


class ForeignCalls:
    """Make calls to the foreign queue, and record its outages.

    All calls of a bridge share one object, so that an outage is logged and counted once, however many jobs
    the bridge holds.
    """

    def __init__(
        self,
        bridge: str,
        counts: CountedJobs,
        *,
        base_s: float = 0.25,
        cap_s: float = 10.0,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._bridge, self._counts, self._draw = bridge, counts, draw
        self._base_s, self._cap_s = base_s, cap_s
        self._outages = 0
        self.is_out = False
        counts.reachable.set(1)

    async def once(self, call: Call[Answer]) -> Answer:
        """Return the answer. Raise `ForeignUnavailable` if the foreign queue does not answer."""
        outages = self._outages
        try:
            answer = await call()
        except ForeignUnavailable as error:
            self._note_failure(error)
            raise
        # An answer to a call that began before the outage does not show that the outage has ended.
        if self.is_out and outages == self._outages:
            _log.info("foreign_queue_back", bridge=self._bridge)
            self._counts.reachable.set(1)
            self.is_out = False
        return answer

    async def until_answered(self, call: Call[Answer]) -> Answer:
        """Repeat the call until the foreign queue answers."""
        failures = 0
        while True:
            try:
                return await self.once(call)
            except ForeignUnavailable:
                failures += 1
                await asyncio.sleep(self.pause_s(failures))

    def pause_s(self, failures: int) -> float:
        """Return the pause after this many failures in a row.

        Half of the pause is random, so that retries spread out.
        """
        full = min(self._cap_s, self._base_s * 2.0 ** min(failures - 1, 30))
        return full * (1 + self._draw()) / 2

    def _note_failure(self, error: ForeignUnavailable) -> None:
        if not self.is_out:
            self.is_out = True
            self._outages += 1
            self._counts.outages.inc()
            self._counts.reachable.set(0)
            _log.warning("foreign_queue_unavailable", bridge=self._bridge, error=str(error))
