"""Detect rows with impossible dates. These rows are counted, and are excluded from every mart.

In one history, a single job dated 2037 moved the end of the history. Then "the last 28 days" were empty, and
every failure had the trend "gone". The database's clock sets the dates, so an impossible date means that this
clock was wrong when the row was written.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from euterpe.analytics.facts import Facts

# No installation is older than this date. A machine whose clock has no battery starts in 1970, or in the year
# in which its board was made.
EARLIEST = datetime(2020, 1, 1, tzinfo=UTC)
# After a failover, the clock of the new database server can differ from the old clock by this much.
CLOCK_SKEW = timedelta(minutes=5)
# The columns that record when something happened. `due_at` is not included, because a requester can ask for a
# start next year.
_INSTANTS: Mapping[str, tuple[str, ...]] = {
    "jobs": ("created_at", "first_claimed_at", "finished_at"),
    "attempts": ("started_at", "ended_at"),
    "deliveries": ("created_at", "first_tried_at", "delivered_at"),
}


@dataclass(frozen=True)
class Dates:
    """The numbers of a table's rows with possible dates (`sound`) and with impossible dates.

    `future` rows are dated after the read of the history. `past` rows are dated before `EARLIEST`.
    """

    sound: int
    future: int
    past: int


def in_time(facts: Facts, read_at: datetime) -> Facts:
    """Return the facts without rows dated after `read_at` + `CLOCK_SKEW` or before `EARLIEST`."""
    return Facts(
        *(frame.where(~_is_future(name, read_at) & ~_is_past(name)) for name, frame in _named(facts))
    )


def count_dates(facts: Facts, read_at: datetime) -> dict[str, Dates]:
    """Return the counts of each table, computed in one pass over the table."""
    return {name: _counted(frame, name, read_at) for name, frame in _named(facts)}


def _counted(frame: DataFrame, name: str, read_at: datetime) -> Dates:
    future, past = _is_future(name, read_at), _is_past(name)
    row = frame.agg(F.count("*"), F.count_if(future), F.count_if(past & ~future)).collect()[0]
    return Dates(sound=row[0] - row[1] - row[2], future=row[1], past=row[2])


def _named(facts: Facts) -> list[tuple[str, DataFrame]]:
    return list(facts._asdict().items())


def _is_future(name: str, read_at: datetime) -> Column:
    latest = F.unix_micros(F.greatest(*_INSTANTS[name]))  # `greatest` ignores nulls
    return F.coalesce(latest > _micros(read_at + CLOCK_SKEW), F.lit(False))


def _is_past(name: str) -> Column:
    return F.coalesce(F.unix_micros(F.least(*_INSTANTS[name])) < _micros(EARLIEST), F.lit(False))


def _micros(instant: datetime) -> int:
    return round(instant.timestamp() * 1_000_000)
