"""A process whose wall clock is off. Imports nothing of Euterpe before the clock is bent."""

import datetime
import importlib
import time
from multiprocessing.connection import Connection
from typing import Any


def serve_with_skew(name: str, url: str, pipe: Connection, options: dict[str, Any], skew_s: int) -> None:
    bend_clock(skew_s)
    importlib.import_module("tests.service.store.processes.child_process").serve(name, url, pipe, options)


def bend_clock(skew_s: int) -> None:
    """Everything in Python that tells the time of day. `monotonic` is no wall clock."""
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
    datetime.datetime = Datetime  # type: ignore[misc]  # that it is a class and not a name is the point
