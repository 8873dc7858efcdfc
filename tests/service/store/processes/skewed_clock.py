"""A child process with a skewed wall clock.

The process skews the clock before it imports any module of Euterpe.
"""

import datetime
import importlib
import time
from multiprocessing.connection import Connection
from typing import Any


def serve_with_skew(name: str, url: str, pipe: Connection, options: dict[str, Any], skew_s: int) -> None:
    skew_clock(skew_s)
    importlib.import_module("tests.service.store.processes.child_process").serve(name, url, pipe, options)


def skew_clock(skew_s: int) -> None:
    """Patch every wall clock of Python. `monotonic` is not a wall clock, and stays unchanged."""
    true_time, true_time_ns = time.time, time.time_ns

    class Datetime(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> "Datetime":
            return cls.fromtimestamp(true_time() + skew_s, tz)

        @classmethod
        def today(cls) -> "Datetime":
            return cls.now()

        @classmethod
        def utcnow(cls) -> "Datetime":
            return cls.now(datetime.UTC).replace(tzinfo=None)

    time.time = lambda: true_time() + skew_s
    time.time_ns = lambda: true_time_ns() + skew_s * 1_000_000_000
    datetime.datetime = Datetime  # type: ignore[misc]  # mypy forbids this replacement of a class
