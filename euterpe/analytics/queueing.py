"""How long jobs wait for a slot: M/G/c, as Erlang C corrected by Allen and Cunneen.

Arrivals come at random (Poisson) and wait in one line; `load` is arrivals times mean service, in slots.
The mean wait of M/M/c is multiplied by (1 + cv²) / 2, and whoever has to wait is taken to wait an
exponential time.
"""

import math

MODEL = (
    "M/G/c (Erlang C, Allen-Cunneen): random arrivals at the busiest hour's rate, one line, "
    "waits beyond zero exponential, all slots alike"
)


def erlang_b(slots: int, load: float) -> float:
    """The share of arrivals that find all slots taken, if none could wait."""
    blocked = 1.0
    for slot in range(1, slots + 1):
        blocked = load * blocked / (slot + load * blocked)
    return blocked


def erlang_c(slots: int, load: float) -> float:
    """The share that has to wait."""
    return 1.0 if load >= slots else _waits(slots, load, erlang_b(slots, load))


def wait_quantile(
    slots: int, load: float, service_seconds: float, cv2: float, *, share: float = 0.95
) -> float | None:
    """What that share of jobs waits at most; None where the line only grows."""
    if load >= slots:
        return None
    return _quantile(erlang_c(slots, load), slots, load, service_seconds * (1 + cv2) / 2, share)


def fewest_slots(
    load: float, service_seconds: float, cv2: float, *, within_seconds: float, share: float = 0.95
) -> tuple[int, float]:
    """The fewest with which that share waits at most so long, and what it waits then."""
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
