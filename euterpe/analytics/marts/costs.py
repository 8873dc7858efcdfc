"""Costs by requester and profile: the usage of all attempts at the operator's prices.

Usage is the processor time of ffmpeg. If that is unknown, for example because the worker was killed, usage is
the time for which the attempt held its slot, and is also counted as estimated.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from euterpe.analytics.errors import AnalyticsError
from euterpe.analytics.facts import Facts, shaped
from euterpe.analytics.marts.ratios import minutes, over, total
from euterpe.analytics.marts.schema import COSTS

_GIB = 1 << 30


@dataclass(frozen=True)
class Prices:
    cpu_hour: float = 0.04
    gib_in: float = 0.0
    gib_out: float = 0.09
    currency: str = "USD"


def costs(facts: Facts, prices: Prices = Prices()) -> DataFrame:
    used, is_estimate = F.col("used_seconds"), F.col("used_from") == "slot"
    is_wasted = F.col("outcome") != "succeeded"
    ended = facts.attempts.where("ended_at IS NOT NULL")
    spent = ended.groupBy(*COSTS.key).agg(
        F.count_distinct("job_id").alias("jobs"),
        _hours(used).alias("cpu_hours"),
        _hours(F.when(is_estimate, used)).alias("estimated_hours"),
        _hours(F.when(is_wasted, used)).alias("wasted_cpu_hours"),
        _hours(F.when(is_wasted & is_estimate, used)).alias("wasted_estimated_hours"),
        (total("bytes_in") / _GIB).alias("gib_in"),
        (total("bytes_out") / _GIB).alias("gib_out"),
    )
    succeeded = facts.jobs.where("outcome = 'succeeded'")
    made = succeeded.groupBy(*COSTS.key).agg(minutes("output_seconds").alias("output_minutes"))
    priced = {
        "cost": F.col("cpu_hours") * prices.cpu_hour
        + F.col("gib_in") * prices.gib_in
        + F.col("gib_out") * prices.gib_out,
        "wasted_cost": F.col("wasted_cpu_hours") * prices.cpu_hour,
    }
    joined = spent.join(made, list(COSTS.key), "left").fillna(0, ["output_minutes"]).withColumns(priced)
    return shaped(joined.withColumn("cost_per_output_minute", over("cost", "output_minutes")), COSTS)


def _hours(seconds: Column) -> Column:
    return total(seconds) / 3600


_Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid")

    cpu_hour: _Price = Prices.cpu_hour
    gib_in: _Price = Prices.gib_in
    gib_out: _Price = Prices.gib_out
    currency: Annotated[str, Field(min_length=1, max_length=8)] = Prices.currency


def read_prices(path: Path) -> Prices:
    """Read the prices from a JSON file; a price that the file omits has its default."""
    try:
        document = _Document.model_validate_json(path.read_bytes())
    except OSError as error:
        raise AnalyticsError(f"the prices in {path} cannot be read: {error.strerror}") from error
    except ValidationError as invalid:
        first = invalid.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise AnalyticsError(f"the prices in {path} are not usable: {where}: {first['msg']}") from invalid
    return Prices(**document.model_dump())
