"""Limit concurrent event streams and long polls, per requester and in all."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from euterpe.api.backpressure import ApiLimits
from euterpe.api.problems import Refused

_RETRY_S = 5


class StreamSlots:
    def __init__(self, limits: ApiLimits, note: Callable[[int], None]) -> None:
        self._limits, self._report = limits, note
        self._taken: Counter[str] = Counter()

    @contextmanager
    def taken(self, requester_id: str) -> Iterator[None]:
        """Hold a slot during the block; raise Refused if no slot is free."""
        most = self._limits.waits_per_requester
        if self._taken[requester_id] >= most:
            raise Refused(
                "too_many_waits",
                f"at most {most} event streams and long polls at once",
                retry_after_s=_RETRY_S,
            )
        if self._taken.total() >= self._limits.waits:
            raise Refused("overloaded", "too many clients are waiting here", retry_after_s=_RETRY_S)
        self._add(requester_id, 1)
        try:
            yield
        finally:
            self._add(requester_id, -1)

    def _add(self, requester_id: str, by: int) -> None:
        self._taken[requester_id] += by
        if not self._taken[requester_id]:
            del self._taken[requester_id]
        self._report(self._taken.total())
