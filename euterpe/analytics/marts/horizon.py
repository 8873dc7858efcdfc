"""What "now", "last week" and "failed" mean to all marts."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from euterpe.analytics.facts import Facts

DAY_US = 86_400_000_000
# Not its fault: what was canceled, or handed back unharmed.
_EXCUSED = ("canceled", "released")


@dataclass(frozen=True)
class Horizon:
    """The first and the last instant of the history, in microseconds, and when the history was read.

    Windows such as "the last week" count back from `end`; what is still waiting is as old as `now` makes it.
    """

    start: int
    end: int
    now: int

    @property
    def days(self) -> float:
        return (self.end - self.start) / DAY_US

    def within(self, time: str, *, days: int, after: int = 0) -> Column:
        """In that many days before the end of the history, the last `after` of them left out."""
        ago = F.lit(self.end) - F.unix_micros(F.col(time))
        return (ago >= after * DAY_US) & (ago < days * DAY_US)


def horizon(facts: Facts, read_at: datetime | None = None) -> Horizon:
    """Return the span of the facts, with `now` at `read_at`, or at the end of them where that is later."""
    spans = reduce(DataFrame.union, _spans(facts)).agg(F.min("start"), F.max("end"))
    start, end = spans.collect()[0]
    read = round(read_at.timestamp() * 1_000_000) if read_at else 0
    return Horizon(start or 0, end or 0, max(end or 0, read))


def _spans(facts: Facts) -> Iterator[DataFrame]:
    instants = (
        (facts.jobs, ("created_at", "finished_at")),
        (facts.attempts, ("started_at", "ended_at")),
        (facts.deliveries, ("created_at", "delivered_at")),
    )
    for frame, names in instants:
        first, last = F.min(F.least(*names)), F.max(F.greatest(*names))
        yield frame.agg(F.unix_micros(first).alias("start"), F.unix_micros(last).alias("end"))


def has_ended() -> Column:
    """Of an attempt: that it says something of how reliable we are."""
    return ~F.col("outcome").isin("running", *_EXCUSED) & ~F.col("error_code").eqNullSafe("canceled")


def has_failed() -> Column:
    return has_ended() & (F.col("outcome") != "succeeded")


def is_waiting(now: Horizon) -> Column:
    """Return whether a job is due and has not been claimed yet."""
    due = F.unix_micros("due_at") < now.now
    return F.col("waiting_ms").isNull() & (F.col("outcome") == "in_flight") & due


def waited_ms(now: Horizon) -> Column:
    """Return what a job waited for its first claim, or has waited so far; null for one that is not due.

    Of claimed jobs alone, a queue that serves nobody would look fast.
    """
    so_far = (F.lit(now.now) - F.unix_micros("due_at")) / 1000
    return F.coalesce(F.col("waiting_ms").cast("double"), F.when(is_waiting(now), so_far))
