"""Test the log rate limit: each kind of line has a budget, and suppressed lines are counted."""

import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from euterpe.log_budget import LogBudget


@dataclass
class Log:
    """A budget of 5 problem lines and 10 other lines per second, on a clock that the test can set."""

    now: float = 0.0
    records: list[logging.LogRecord] = field(default_factory=list)
    emitted: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.budget = LogBudget(
            self.emit,
            lines_per_s=10,
            trouble_per_s=5,
            summary_after_s=3600.0,
            most_keys=50,
            clock=lambda: self.now,
        )

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)
        self.emitted.set()

    def write(self, count: int, event: str = "request", level: int = logging.INFO, **line: object) -> int:
        """Write `count` lines. Return the number of lines that passed the rate limit."""
        record = logging.makeLogRecord({"name": "x", "levelno": level, "msg": {"event": event, **line}})
        return sum(bool(self.budget.filter(record)) for _ in range(count))

    def summaries(self) -> list[tuple[object, ...]]:
        self.budget.flush()
        found: list[tuple[object, ...]] = [
            (record.__dict__["of"], record.__dict__["suppressed"], record.__dict__.get("status"))
            for record in self.records
        ]
        self.records.clear()
        return found


@pytest.fixture
def log() -> Iterator[Log]:
    log = Log()
    yield log
    if log.budget._timer is not None:
        log.budget._timer.cancel()


def test_lines_beyond_the_budget_are_counted_and_the_count_is_logged(log: Log) -> None:
    assert log.write(1_000, status=401) == 5
    assert log.summaries() == [("request", 995, 401)]
    assert log.summaries() == []


def test_a_budget_refills_with_time(log: Log) -> None:
    assert log.write(20, status=401) == 5
    log.now += 0.4
    assert log.write(20, status=401) == 2
    log.now += 100
    assert log.write(20, status=401) == 5
    assert log.summaries() == [("request", 48, 401)]


def test_lines_without_trouble_have_the_larger_budget(log: Log) -> None:
    assert log.write(100, status=202) == 10
    assert log.write(100, event="broke", level=logging.ERROR) == 5


def test_the_lines_of_one_requester_or_status_crowd_out_no_others(log: Log) -> None:
    log.write(1_000, status=401)
    log.write(1_000, status=422, requester_id="a")
    assert log.write(1, status=422, requester_id="b") == 1
    assert log.write(1, status=500) == 1
    assert log.write(1, event="request_failed", level=logging.ERROR) == 1


def test_lines_of_the_standard_library_are_counted_by_their_template(log: Log) -> None:
    records = [
        logging.makeLogRecord({"name": "lib", "levelno": logging.WARNING, "msg": "to %s", "args": (n,)})
        for n in range(100)
    ]
    assert sum(bool(log.budget.filter(record)) for record in records) == 5
    assert log.summaries() == [("to %s", 95, None)]


def test_kinds_of_lines_are_remembered_up_to_a_bound_and_no_count_is_lost(log: Log) -> None:
    log.write(100, event="first")
    for n in range(1_000):
        log.write(1, event=f"event {n}")
    assert len(log.budget._budgets) == 50
    assert log.summaries() == [("first", 90, None)]


def test_a_summary_is_logged_by_a_timer(log: Log) -> None:
    budget = LogBudget(log.emit, trouble_per_s=1, summary_after_s=0.01)
    record = logging.makeLogRecord({"name": "x", "levelno": logging.WARNING, "msg": {"event": "e"}})
    for _ in range(10):
        budget.filter(record)
    assert log.emitted.wait(30)
    assert log.records[0].__dict__["of"] == "e"
