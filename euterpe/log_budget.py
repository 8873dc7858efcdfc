"""A rate limit (token bucket) for each kind of log line. The number of suppressed lines is logged.

The limit is needed, because a client that can cause one line can cause a million: 448,385 wrong keys made 117
MB of log in ten minutes. Lines with the same logger, event, response status and requester share a budget. So
the lines of one requester cannot use up the budget of another requester.
"""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

Key = tuple[str, str, int, str]  # logger, event, response status, requester

_LINES_PER_S = 500
_TROUBLE_PER_S = 20
_SUMMARY_AFTER_S = 1.0
_MOST_KEYS = 1_000
_CLIENT_ERROR = 400
_LONGEST_EVENT = 200


@dataclass
class _Budget:
    lines: float
    counted_at: float
    suppressed: int = 0


class LogBudget(logging.Filter):
    """A filter for a log handler. Thread-safe.

    `write_summary` writes a summary record. This function runs in a timer thread, or in the
    thread that calls `flush`.
    """

    def __init__(
        self,
        write_summary: Callable[[logging.LogRecord], None],
        *,
        lines_per_s: float = _LINES_PER_S,
        trouble_per_s: float = _TROUBLE_PER_S,
        summary_after_s: float = _SUMMARY_AFTER_S,
        most_keys: int = _MOST_KEYS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._write_summary, self._clock = write_summary, clock
        self._lines_per_s, self._trouble_per_s = lines_per_s, trouble_per_s
        self._summary_after_s, self._most_keys = summary_after_s, most_keys
        self._guard = threading.Lock()
        self._budgets: OrderedDict[Key, _Budget] = OrderedDict()
        self._timer: threading.Timer | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log the line. A line that is not logged is counted as suppressed."""
        key = _key_of(record)
        is_trouble = key[2] >= _CLIENT_ERROR or record.levelno >= logging.WARNING
        per_s = self._trouble_per_s if is_trouble else self._lines_per_s
        with self._guard:
            budget = self._budget_of(key, per_s)
            now = self._clock()
            budget.lines = min(per_s, budget.lines + (now - budget.counted_at) * per_s)
            budget.counted_at = now
            if budget.lines >= 1:
                budget.lines -= 1
                return True
            budget.suppressed += 1
            self._summarise_later()
            return False

    def flush(self) -> None:
        """Log how many lines of each kind were suppressed since the last flush."""
        with self._guard:
            self._timer = None
            counts = [(key, budget.suppressed) for key, budget in self._budgets.items() if budget.suppressed]
            for budget in self._budgets.values():
                budget.suppressed = 0
        for key, count in counts:
            self._write_summary(_summary(key, count))

    def _budget_of(self, key: Key, per_s: float) -> _Budget:
        budget = self._budgets.get(key)
        if budget is None:
            if len(self._budgets) >= self._most_keys:
                self._evict_one()
            budget = self._budgets[key] = _Budget(per_s, self._clock())
        self._budgets.move_to_end(key)
        return budget

    def _evict_one(self) -> None:
        """Evict the least recently logged kind of line that has no suppressed lines."""
        quiet = next((key for key, budget in self._budgets.items() if not budget.suppressed), None)
        if quiet is not None:
            del self._budgets[quiet]

    def _summarise_later(self) -> None:
        if self._timer is None:
            timer = threading.Timer(self._summary_after_s, self.flush)
            timer.daemon = True
            # No thread can be started while the interpreter shuts down. Then the handler's `close` logs the
            # counts.
            with suppress(RuntimeError):
                timer.start()
                self._timer = timer


def _key_of(record: logging.LogRecord) -> Key:
    """Return the kind of a line.

    The message of a structlog record is a dictionary. For other records, use the message template as the
    event.
    """
    if not isinstance(record.msg, dict):
        return record.name, str(record.msg)[:_LONGEST_EVENT], 0, ""
    line = record.msg
    status, requester = line.get("status"), line.get("requester_id")
    return (
        record.name,
        str(line.get("event"))[:_LONGEST_EVENT],
        status if isinstance(status, int) else 0,
        str(requester or ""),
    )


def _summary(key: Key, count: int) -> logging.LogRecord:
    name, event, status, requester = key
    about: dict[str, object] = {"of": event, "suppressed": count}
    if status:
        about["status"] = status
    if requester:
        about["requester_id"] = requester
    return logging.makeLogRecord(
        {"name": name, "levelno": logging.WARNING, "levelname": "WARNING", "msg": "log_suppressed", **about}
    )
