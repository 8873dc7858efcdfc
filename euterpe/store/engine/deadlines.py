"""One deadline for each caller that waits to write, shared by all the queues in which it waits.

SQLite and libSQL have one writer. A caller may wait in several queues one after the other: for a thread, for
the next group commit, for the connection, for the lock on the file. With a timeout in each queue the waits
added up: while another process held the lock, the last of 50 callers waited for 25 minutes. So one deadline
is set when the caller arrives, and the waits in all queues end at that deadline.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# How long a caller waits for other writers before it gets StoreUnavailable.
WRITE_WAIT_S = 30.0

_DEADLINE: ContextVar[float | None] = ContextVar("euterpe_write_until", default=None)


def deadline_after(wait_s: float) -> float:
    """Return the deadline of a caller that arrives now, on the monotonic clock."""
    return time.monotonic() + wait_s


@contextmanager
def write_deadline(deadline: float) -> Iterator[None]:
    """End all waits in this block by `deadline`, or by the deadline of an outer block if that is earlier."""
    earlier = _DEADLINE.get()
    token = _DEADLINE.set(deadline if earlier is None else min(earlier, deadline))
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def seconds_left() -> float:
    """Return how long the caller may still wait: 0 once its deadline has passed."""
    until = _DEADLINE.get()
    return WRITE_WAIT_S if until is None else max(0.0, until - time.monotonic())
