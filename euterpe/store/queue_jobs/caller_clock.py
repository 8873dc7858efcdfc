"""A clock that a caller may override for one call (`now_ms_override` in OmniQ's client contract)."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from euterpe.store.engine.clock import Clock


class CallerClock:
    """The time that the calling thread has set, else the time of `clock`."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._override = clock, threading.local()

    def now(self, dialect: str) -> sa.ColumnElement[int]:
        override = sa.bindparam("now_override", callable_=self._override_ms, type_=sa.BigInteger)
        return sa.func.coalesce(override, self._clock.now(dialect), type_=sa.BigInteger)

    @contextmanager
    def at(self, now_ms: int) -> Iterator[None]:
        """Set the time for this thread's calls within the block. 0 means the time of `clock`."""
        self._override.ms = now_ms or None
        try:
            yield
        finally:
            self._override.ms = None

    def _override_ms(self) -> int | None:
        return getattr(self._override, "ms", None)
