"""Waiting times in an M/G/c queue: Erlang C with the correction of Allen and Cunneen.

The model assumes random (Poisson) arrivals that wait in one queue. `load` is the arrival rate multiplied by
the mean service time, in slots. The mean wait of M/M/c is multiplied by (1 + cv²) / 2, where cv is the
coefficient of variation of the service time. Waits above zero are assumed to be exponentially distributed.
"""

import math

MODEL = (
    "M/G/c (Erlang C, Allen-Cunneen): random arrivals at the busiest hour's rate, one queue, "
    "positive waits exponentially distributed, identical slots"
)


def erlang_b(slots: int, load: float) -> float:
    """Return the share of arrivals that find all slots busy, in a system where arrivals cannot wait."""
    blocked = 1.0
    for slot in range(1, slots + 1):
        blocked = load * blocked / (slot + load * blocked)
    return blocked


def erlang_c(slots: int, load: float) -> float:
    """Return the share of arrivals that have to wait."""
    return 1.0 if load >= slots else _waits(slots, load, erlang_b(slots, load))


def wait_quantile(
    slots: int, load: float, service_seconds: float, cv2: float, *, share: float = 0.95
) -> float | None:
    """Return the wait that `share` of the jobs do not exceed, or None if the load fills all slots."""
    if load >= slots:
        return None
    return _quantile(erlang_c(slots, load), slots, load, service_seconds * (1 + cv2) / 2, share)


def fewest_slots(
    load: float, service_seconds: float, cv2: float, *, within_seconds: float, share: float = 0.95
) -> tuple[int, float]:
    """Return the fewest slots with which `share` of the jobs wait at most `within_seconds`.

    Return also the wait that `share` of the jobs do not exceed with this number of slots.
    """
    spread = service_seconds * (1 + cv2) / 2
    slots = math.floor(load) + 1
    blocked = erlang_b(slots, load)
    while True:
        wait = _quantile(_waits(slots, load, blocked), slots, load, spread, share)
        if wait <= within_seconds:
            return slots, wait
        slots += 1
        blocked = load * blocked / (slots + load * blocked)


def _waits(slots: int, load: float, blocked: float) -> float:
    return blocked / (1 - load / slots * (1 - blocked))


def _quantile(waits: float, slots: int, load: float, spread: float, share: float) -> float:
    if waits <= 1 - share:
        return 0.0
    return math.log(waits / (1 - share)) * spread / (slots - load)
