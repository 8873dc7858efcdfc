"""The time by which a caller that waits to write must have its answer.

SQLite and libSQL have one writer. A caller may wait in several queues one after the other: for a thread, for
the next group commit, for its turn at the connection, for the lock on the file. With a timeout for each of
them the waits added up: while another process held the lock, the last of 50 callers waited for 25 minutes. So
the time begins when the caller arrives, and each queue uses what is left of it.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# How long a writer waits for the others before it gives up.
WRITE_WAIT_S = 30.0

_UNTIL: ContextVar[float | None] = ContextVar("euterpe_write_until", default=None)


def in_time(wait_s: float) -> float:
    """Return the deadline of a caller that arrives now, on the monotonic clock."""
    return time.monotonic() + wait_s


@contextmanager
def waiting_until(deadline: float) -> Iterator[None]:
    """Let all waits in this block end by then; an earlier deadline of the caller holds."""
    earlier = _UNTIL.get()
    token = _UNTIL.set(deadline if earlier is None else min(earlier, deadline))
    try:
        yield
    finally:
        _UNTIL.reset(token)


def seconds_left() -> float:
    """Return how long the caller may still wait: 0 when its time is up."""
    until = _UNTIL.get()
    return WRITE_WAIT_S if until is None else max(0.0, until - time.monotonic())
