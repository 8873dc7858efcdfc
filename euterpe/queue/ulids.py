"""ULIDs: 26 characters, of which the first ten encode the time. The ULIDs of a process always ascend."""

import os
import threading
import time

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's base 32: without I, L, O and U
_RANDOM_BITS = 80


class _Last:
    def __init__(self) -> None:
        self._lock, self._value = threading.Lock(), 0

    def next(self) -> int:
        random = int.from_bytes(os.urandom(_RANDOM_BITS // 8))
        with self._lock:
            # In the same millisecond, or after the clock was set back, use at least the last value plus one.
            self._value = max(time.time_ns() // 1_000_000 << _RANDOM_BITS | random, self._value + 1)
            return self._value


_last = _Last()


def _reset_last() -> None:
    global _last  # noqa: PLW0603  a process has one sequence
    _last = _Last()


# Without this reset, a forked child would continue from the last value of its parent and make the same ids.
os.register_at_fork(after_in_child=_reset_last)


def ulid() -> str:
    value = _last.next()
    return "".join(_ALPHABET[value >> shift & 31] for shift in range(125, -1, -5))
