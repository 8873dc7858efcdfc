"""Show the progress of a long command: a bar, the first 20 messages, and rate-limited outage notices."""

import threading
from contextlib import AbstractContextManager
from time import monotonic
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import MofNCompleteColumn
from rich.progress import Progress as Bars

from euterpe.cli.output import note
from euterpe.client import ClientError

_MOST_SHOWN = 20
_REMIND_S = 60.0  # the minimum time between two notices of one outage
_STEPS = 10  # the number of progress lines without a terminal


class FirstLines:
    """A printer that prints the first 20 lines, and counts all further lines without printing them."""

    def __init__(self) -> None:
        self._count = 0

    def line(self, line: str) -> None:
        self._count += 1
        if self._count <= _MOST_SHOWN:
            note(line)

    def rest(self, where: str) -> None:
        if self._count > _MOST_SHOWN:
            note(f"and {self._count - _MOST_SHOWN} more{where}")


class OutageNotice:
    """An outage notice for many requests: each error code is printed at most once a minute. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._noted_at: dict[str, float] = {}

    def begin(self, outage: ClientError) -> None:
        with self._lock:
            now = monotonic()
            if now - self._noted_at.get(outage.code, -_REMIND_S) < _REMIND_S:
                return
            self._noted_at[outage.code] = now
        note(f"{outage}; trying again")


class ProgressBar(AbstractContextManager["ProgressBar"]):
    """A bar on a terminal, otherwise a line after each tenth of the work."""

    def __init__(self, what: str, rows: int) -> None:
        self._what, self._rows, self._step = what, max(1, rows), 0
        console = Console(stderr=True)
        self._bars = Bars(*Bars.get_default_columns(), MofNCompleteColumn(), console=console)
        self._task = self._bars.add_task(what, total=rows)
        self._is_shown = console.is_terminal

    def at(self, done: int) -> None:
        self._bars.update(self._task, completed=done)
        step = done * _STEPS // self._rows
        if not self._is_shown and step > self._step:
            note(f"{done} of {self._rows} {self._what}")
        self._step = step

    def __enter__(self) -> Self:
        if self._is_shown:
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_shown:
            self._bars.stop()
