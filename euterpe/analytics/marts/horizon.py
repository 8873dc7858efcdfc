"""Definitions that the marts share: "now", "last week", "failed" and "waiting"."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from euterpe.analytics.facts import Facts

DAY_US = 86_400_000_000
# An attempt that was canceled or released is not a failure.
_EXCUSED = ("canceled", "released")


@dataclass(frozen=True)
class Horizon:
    """The first and the last instant of the history, and the instant of its read (`now`), in microseconds.

    A period such as "the last week" ends at `end`. A wait that has not ended is counted up to `now`.
    """

    start: int
    end: int
    now: int

    @property
    def days(self) -> float:
        return (self.end - self.start) / DAY_US

    def within(self, time: str, *, days: int, after: int = 0) -> Column:
        """Return whether an instant is before `end`, by at least `after` days and less than `days` days."""
        ago = F.lit(self.end) - F.unix_micros(F.col(time))
        return (ago >= after * DAY_US) & (ago < days * DAY_US)


def horizon(facts: Facts, read_at: datetime | None = None) -> Horizon:
    """Return the time range of the facts; `now` is the later of `read_at` and the end of the facts."""
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
    """Return whether an attempt counts for reliability: it has ended, and was not canceled or released."""
    return ~F.col("outcome").isin("running", *_EXCUSED) & ~F.col("error_code").eqNullSafe("canceled")


def has_failed() -> Column:
    return has_ended() & (F.col("outcome") != "succeeded")


def is_waiting(now: Horizon) -> Column:
    """Return whether a job is due and has not been claimed yet."""
    due = F.unix_micros("due_at") < now.now
    return F.col("waiting_ms").isNull() & (F.col("outcome") == "in_flight") & due


def waited_ms(now: Horizon) -> Column:
    """Return how long a job waited for its first claim, or has waited so far; null if it is not due.

    Unclaimed jobs are included, because a queue without workers would otherwise look fast.
    """
    so_far = (F.lit(now.now) - F.unix_micros("due_at")) / 1000
    return F.coalesce(F.col("waiting_ms").cast("double"), F.when(is_waiting(now), so_far))
