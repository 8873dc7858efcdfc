"""UUIDv7 strings: sortable, minted once, ascending within a process even inside one millisecond."""

import os
import threading
import time

_lock = threading.Lock()
_last = 0


def new_id() -> str:
    return new_ids(1)[0]


def new_ids(count: int) -> list[str]:
    """So many ids, in ascending order: a batch of them costs a third of as many single ones."""
    global _last  # noqa: PLW0603  one sequence for the process is the point
    with _lock:
        # 48 bits of milliseconds, then a 12-bit counter that carries into them when it overflows;
        # a clock that steps back changes nothing until it has caught up.
        first = max(time.time_ns() // 1_000_000 << 12, _last + 1)
        _last = first + count - 1
    noise = os.urandom(8 * count).hex()
    return [_text(first + n, noise[16 * n : 16 * n + 16]) for n in range(count)]


def _text(stamp: int, noise: str) -> str:
    time_part = f"{stamp >> 12:012x}"
    # The variant bits are 10: the first random digit becomes one of 8, 9, a, b.
    variant = "89ab"[int(noise[0], 16) & 3]
    return f"{time_part[:8]}-{time_part[8:]}-7{stamp & 0xFFF:03x}-{variant}{noise[1:4]}-{noise[4:]}"
