"""A program that runs `euterpe` with a wall clock that is wrong by the seconds in its first argument.

The monotonic clocks stay as they are: a wrong wall clock does not change how fast time passes. Modules that
are imported later see the wrong time in `time` and in `datetime`.
"""

import datetime
import sys
import time
from typing import Self

_REAL_TIME, _REAL_TIME_NS, _REAL_GETTIME = time.time, time.time_ns, time.clock_gettime


def set_clock(wrong_by_s: int) -> None:
    """Let this process read a wrong wall clock from now on."""

    def wall_time() -> float:
        return _REAL_TIME() + wrong_by_s

    class WrongDatetime(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Self:
            return cls.fromtimestamp(wall_time(), tz)

        @classmethod
        def utcnow(cls) -> Self:
            return cls.now(datetime.UTC).replace(tzinfo=None)

    time.time = wall_time
    time.time_ns = lambda: _REAL_TIME_NS() + wrong_by_s * 10**9
    time.clock_gettime = lambda clock: wall_time() if clock == time.CLOCK_REALTIME else _REAL_GETTIME(clock)
    datetime.datetime = WrongDatetime  # type: ignore[misc]


if __name__ == "__main__":
    set_clock(int(sys.argv.pop(1)))
    from euterpe.cli import main

    sys.exit(main())
