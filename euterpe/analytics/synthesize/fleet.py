"""Who runs what: each attempt in the first slot that is free, on workers of four slots."""

from heapq import heappop, heappush

import numpy as np

from euterpe.analytics.synthesize.arrivals import Ints

_SLOTS = 4
# A block knows nothing of the slots that its neighbours still hold: every other one has workers of its own,
# as after a roll-out.
_ROLLS = ("blue", "green")


def slots(started: Ints, ended: Ints) -> Ints:
    held: list[tuple[int, int]] = []
    free: list[int] = []
    found = np.zeros(len(started), dtype=np.int64)
    opened = 0
    for at in np.argsort(started, kind="stable").tolist():
        while held and held[0][0] <= started[at]:
            heappush(free, heappop(held)[1])
        if free:
            slot = heappop(free)
        else:
            slot, opened = opened, opened + 1
        heappush(held, (int(ended[at]), slot))
        found[at] = slot
    return found


def worker_names(index: int, most: int) -> list[str]:
    """Of the slots of this block, by their numbers."""
    return [f"encoder-{_ROLLS[index % 2]}-{slot // _SLOTS + 1:02}" for slot in range(most + 1)]
