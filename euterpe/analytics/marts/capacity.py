"""How many worker slots next month needs, by queue, if the last 28 days go on.

Jobs arrive as in the busiest hour of those days, grown to the day of the forecast, and each takes a slot for
as long as all its attempts did together. How long the line then is, queueing.py says. Growth is that of the
last whole weeks, eight at most, back from the end of the history; an empty week counts as one job, and more
than halving or doubling a week is not believed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from euterpe.analytics.facts import Facts
from euterpe.analytics.marts.handful import Row, given, taken
from euterpe.analytics.marts.horizon import DAY_US, Horizon, horizon
from euterpe.analytics.marts.occupancy import most_at_once, parts
from euterpe.analytics.marts.schema import CAPACITY
from euterpe.analytics.queueing import MODEL, fewest_slots, wait_quantile
from euterpe.analytics.statistics import slope

_DAYS, _WEEKS, _FEWEST_WEEKS = 28, 8, 3


@dataclass(frozen=True)
class Forecast:
    days_ahead: int = 30
    p95_wait_seconds: float = 60


def capacity(facts: Facts, forecast: Forecast = Forecast()) -> DataFrame:
    now = horizon(facts)
    arrivals, services = _arrivals(facts.jobs, now), _services(facts.attempts, now)
    seen = arrivals.join(services, "queue", "left").join(_slots(facts.attempts, now), "queue", "left")
    rows = (_row(row, forecast) for row in taken(seen))
    return given(facts.jobs.sparkSession, rows, CAPACITY)


def _arrivals(jobs: DataFrame, now: Horizon) -> DataFrame:
    """`busiest` hour of the last days, jobs by week back from the end, and how many whole weeks there are."""
    recent = jobs.where(now.within("created_at", days=_DAYS))
    by_hour = recent.groupBy("queue", F.date_trunc("hour", "created_at").alias("hour")).count()
    busiest = by_hour.groupBy("queue").agg(F.max("count").alias("busiest"))
    weeks = (F.count_if(now.within("created_at", days=7 * (ago + 1), after=7 * ago)) for ago in range(_WEEKS))
    age = F.lit(now.end) - F.min(F.unix_micros("created_at"))
    weekly = jobs.groupBy("queue").agg(
        F.array(*weeks).alias("by_week"), F.floor(age / (7 * DAY_US)).alias("whole_weeks")
    )
    return busiest.join(weekly, "queue")


def _services(attempts: DataFrame, now: Horizon) -> DataFrame:
    ended = attempts.where(F.col("ended_at").isNotNull() & now.within("started_at", days=_DAYS))
    by_job = ended.groupBy("queue", "job_id").agg((F.sum("busy_ms") / 1000).alias("seconds"))
    spent = by_job.groupBy("queue")
    return spent.agg(F.avg("seconds").alias("mean"), F.var_pop("seconds").alias("variance"))


def _slots(attempts: DataFrame, now: Horizon) -> DataFrame:
    since = F.lit(now.end - _DAYS * DAY_US)
    known = parts(attempts, now).where(F.col("ends") > since)
    recent = known.withColumn("begins", F.greatest("begins", since))
    return most_at_once(recent, "queue", "day").groupBy("queue").agg(F.max("peak").alias("slots"))


def _row(seen: Row, forecast: Forecast) -> dict[str, Any]:
    growth = weekly_growth(seen["by_week"][: seen["whole_weeks"]])
    row = dict.fromkeys(CAPACITY.names) | {
        "queue": seen["queue"],
        "arrivals_per_hour": float(seen["busiest"]),
        "weekly_growth": growth,
        "slots_now": seen["slots"] or 0,
        "model": MODEL,
    }
    if seen["mean"]:
        row |= _needed(seen, growth, forecast)
    return row


def _needed(seen: Row, growth: float, forecast: Forecast) -> dict[str, float | int | None]:
    service, cv2 = seen["mean"], seen["variance"] / seen["mean"] ** 2
    load = seen["busiest"] * service / 3600
    grown = load * (1 + growth) ** (forecast.days_ahead / 7)
    slots, wait = fewest_slots(grown, service, cv2, within_seconds=forecast.p95_wait_seconds)
    return {
        "service_seconds": service,
        "service_cv2": cv2,
        "load": load,
        "forecast_load": grown,
        "slots_needed": slots,
        "p95_wait_seconds": wait,
        "p95_wait_now_seconds": wait_quantile(seen["slots"], grown, service, cv2),
    }


def weekly_growth(latest_first: Sequence[int]) -> float:
    if len(latest_first) < _FEWEST_WEEKS:
        return 0.0
    growth = math.expm1(slope([math.log(max(jobs, 1)) for jobs in reversed(latest_first)]))
    return min(1.0, max(-0.5, growth))
