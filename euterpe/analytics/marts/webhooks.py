"""Webhook deliveries by requester: latency, attempts, and whether the objective (SLO) was met.

The objective is that a given share of events is delivered within a given time. A pending event (never tried,
or to be retried) counts as missed if it was older than that time when the history was read; a younger pending
event is not judged. Events for which no webhook is sent (`skipped`) do not count.
"""

from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from euterpe.analytics.facts import Facts, shaped
from euterpe.analytics.marts.horizon import horizon
from euterpe.analytics.marts.ratios import over, percentiles
from euterpe.analytics.marts.schema import WEBHOOKS


@dataclass(frozen=True)
class Objective:
    within_seconds: float = 60
    share: float = 0.99


def webhooks(facts: Facts, objective: Objective = Objective(), read_at: datetime | None = None) -> DataFrame:
    outcome = F.col("outcome")
    is_untried = F.col("tries") == 0
    is_delivered = outcome == "delivered"
    age_ms = (F.lit(horizon(facts, read_at).now) - F.unix_micros("created_at")) / 1000
    is_judged = (outcome != "pending") | (age_ms > objective.within_seconds * 1000)
    in_time = is_delivered & (F.col("latency_ms") <= objective.within_seconds * 1000)
    grouped = facts.deliveries.groupBy("requester").agg(
        F.count("*").alias("events"),
        *(F.count_if(outcome == each).alias(each) for each in ("delivered", "pending", "dead_letter")),
        F.count_if(is_untried).alias("untried"),
        over(F.sum("tries"), F.count_if(~is_untried)).alias("tries_per_event"),
        percentiles(F.when(is_delivered, F.col("latency_ms")), (0.5, 0.95, 0.99)).alias("shares"),
        F.count_if(is_judged).alias("judged"),
        over(F.count_if(in_time), F.count_if(is_judged)).alias("within_slo"),
        F.mode("error_code", deterministic=True).alias("worst_error"),
    )
    columns = {f"p{share}_ms": F.col("shares")[place] for place, share in enumerate((50, 95, 99))}
    columns["meets_slo"] = F.col("within_slo") >= objective.share
    return shaped(grouped.withColumns(columns), WEBHOOKS)
