"""UUIDv7 strings: sortable, minted once, ascending within a process even inside one millisecond."""

import os
import threading
import time

_lock = threading.Lock()
_last = 0


def new_id() -> str:
    global _last  # noqa: PLW0603  one sequence for the process is the point
    stamp = time.time_ns() // 1_000_000 << 12
    with _lock:
        # 48 bits of milliseconds, then a 12-bit counter that carries into them when it overflows;
        # a clock that steps back changes nothing until it has caught up.
        _last = stamp = max(stamp, _last + 1)
    value = (stamp >> 12) << 80 | 0x7 << 76 | (stamp & 0xFFF) << 64
    value |= 0b10 << 62 | int.from_bytes(os.urandom(8), "big") >> 2
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
