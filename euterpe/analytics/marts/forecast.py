"""Capacity forecast: the worker slots that each queue needs next month, if demand continues as before.

The model takes the arrivals of the busiest hour of the last 28 days, multiplied by the growth until the day
of the forecast. Each job is assumed to hold a slot for the time that all its attempts take. queueing.py
computes the wait (Erlang C). Growth is measured over the last whole weeks before the end of the history, at
most eight. For the fit, a week without jobs counts as a week with one job, because log(0) is undefined. The
weekly growth is limited: the number of jobs at most halves or doubles in a week.

For the busiest hour, the report shows two waits: the wait that the model expects with the present slots, and
the observed wait. If the model's wait and the observed wait are far apart, the forecast is unreliable,
because the forecast uses this model.
"""

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from euterpe.analytics.facts import Facts
from euterpe.analytics.marts.horizon import DAY_US, Horizon, horizon, is_waiting, waited_ms
from euterpe.analytics.marts.mart import from_rows, percentiles, to_rows
from euterpe.analytics.marts.utilisation import most_at_once, parts
from euterpe.analytics.options import Forecast, Options
from euterpe.analytics.queueing import MODEL, fewest_slots, wait_quantile
from euterpe.analytics.report.results import Row
from euterpe.analytics.schema import Table, columns
from euterpe.analytics.statistics import slope
from euterpe.analytics.tables import JOB_FACTS

TABLE = Table(
    "capacity",
    "Show how many worker slots each queue needs next month.",
    ("queue",),
    columns(
        """
        queue
        arrivals_per_hour double Jobs in the busiest hour of the last 28 days.
        service_seconds double Mean of the time that all attempts of a job take together.
        service_cv2 double Squared coefficient of variation of the time that all attempts of a job take.
        load double Slots kept busy in the busiest hour: arrivals_per_hour x service_seconds / 3600.
        weekly_growth double Weekly growth of arrivals, from three to eight whole weeks; 0 if fewer are known.
        forecast_load double load on the day of the forecast (in 30 days), if load grows by weekly_growth.
        slots_now long Largest number of attempts at once in the last 28 days.
        slots_needed long Fewest slots that keep the p95 wait within the target at forecast_load.
        p95_wait_seconds double The model's p95 wait with slots_needed at forecast_load.
        p95_wait_now_seconds double The model's p95 wait with slots_now at forecast_load; null if unbounded.
        p50_model_seconds double The model's p50 wait with slots_now in the busiest hour; null if unbounded.
        p95_model_seconds double The model's p95 wait with slots_now in the busiest hour; null if unbounded.
        p50_busiest_seconds double Observed median wait of the jobs of the busiest hour.
        p95_busiest_seconds double Observed p95 wait of the jobs of the busiest hour.
        p50_waited_seconds double Observed median wait of the jobs of the last 28 days.
        p95_waited_seconds double Observed p95 wait of the jobs of the last 28 days.
        still_waiting long Jobs of the last 28 days that still wait. Their waits so far are observed waits.
        model_gap double The larger of the model's and the observed p95 (each + 1 s) divided by the smaller.
        model string The name of the model and its assumptions.
    """,
        JOB_FACTS,
    ),
)

_DAYS, _WEEKS, _FEWEST_WEEKS = 28, 8, 3
_SHARES = (0.5, 0.95)


def make(facts: Facts, options: Options) -> DataFrame:
    now = horizon(facts, options.read_at)
    arrivals, services = _arrivals(facts.jobs, now), _services(facts.attempts, now)
    parts_of_it = (services, _slots(facts.attempts, now), _waits(facts.jobs, arrivals, now))
    seen = reduce(lambda known, part: known.join(part, "queue", "left"), parts_of_it, arrivals)
    rows = (_row(row, options.forecast) for row in to_rows(seen))
    return from_rows(facts.jobs.sparkSession, rows, TABLE)


def _arrivals(jobs: DataFrame, now: Horizon) -> DataFrame:
    """Return each queue's busiest hour, its jobs by week (latest first), and its number of whole weeks."""
    recent = jobs.where(now.within("created_at", days=_DAYS))
    by_hour = recent.groupBy("queue", _hour().alias("hour")).count()
    largest = F.max(F.struct("count", "hour"))  # the later hour, if two hours are equally busy
    busiest = by_hour.groupBy("queue").agg(
        largest["count"].alias("busiest"), largest["hour"].alias("busiest_hour")
    )
    weeks = (F.count_if(now.within("created_at", days=7 * (ago + 1), after=7 * ago)) for ago in range(_WEEKS))
    age = F.lit(now.end) - F.min(F.unix_micros("created_at"))
    weekly = jobs.groupBy("queue").agg(
        F.array(*weeks).alias("by_week"), F.floor(age / (7 * DAY_US)).alias("whole_weeks")
    )
    return busiest.join(weekly, "queue")


def _hour() -> Column:
    return F.date_trunc("hour", "created_at")


def _waits(jobs: DataFrame, arrivals: DataFrame, now: Horizon) -> DataFrame:
    """Return the observed waits of each queue: in the last `_DAYS` days, and in its busiest hour."""
    recent = jobs.where(now.within("created_at", days=_DAYS)).join(
        arrivals.select("queue", "busiest_hour"), "queue"
    )
    seconds = waited_ms(now) / 1000
    in_busiest = F.when(_hour() == F.col("busiest_hour"), seconds)
    return recent.groupBy("queue").agg(
        percentiles(seconds, _SHARES).alias("waited"),
        percentiles(in_busiest, _SHARES).alias("waited_in_busiest"),
        F.count_if(is_waiting(now)).alias("still_waiting"),
    )


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
    row = dict.fromkeys(TABLE.names) | {
        "queue": seen["queue"],
        "arrivals_per_hour": float(seen["busiest"]),
        "weekly_growth": growth,
        "slots_now": seen["slots"] or 0,
        "still_waiting": seen["still_waiting"],
        "model": MODEL,
    }
    for name, shares in (("waited", seen["waited"]), ("busiest", seen["waited_in_busiest"])):
        row |= {f"p50_{name}_seconds": shares and shares[0], f"p95_{name}_seconds": shares and shares[1]}
    if seen["mean"]:
        row |= _needed(seen, growth, forecast)
        row["model_gap"] = gap(row["p95_model_seconds"], row["p95_busiest_seconds"])
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
        **{
            f"p{round(share * 100)}_model_seconds": wait_quantile(
                seen["slots"], load, service, cv2, share=share
            )
            for share in _SHARES
        },
    }


def gap(model: float | None, observed: float | None) -> float | None:
    """Return (larger wait + 1 s) / (smaller wait + 1 s), so that differences below 1 s hardly count."""
    if model is None or observed is None:
        return None
    return (max(model, observed) + 1) / (min(model, observed) + 1)


def weekly_growth(latest_first: Sequence[int]) -> float:
    """Return the weekly growth from a log-linear fit, limited to -0.5 to 1.0.

    Return 0 if there are fewer than three weeks.
    """
    if len(latest_first) < _FEWEST_WEEKS:
        return 0.0
    growth = math.expm1(slope([math.log(max(jobs, 1)) for jobs in reversed(latest_first)]))
    return min(1.0, max(-0.5, growth))
