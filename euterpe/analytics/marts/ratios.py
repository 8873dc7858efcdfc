"""Arithmetic that the marts share: division by zero gives null, and an empty sum is 0."""

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F


def over(part: Column | str, whole: Column | str) -> Column:
    return F.try_divide(part, whole)


def total(values: Column | str) -> Column:
    return F.coalesce(F.sum(values), F.lit(0))


def minutes(seconds: Column | str) -> Column:
    return total(seconds) / 60


def percentiles(values: Column | str, shares: Sequence[float]) -> Column:
    """Return exact percentiles, as an array."""
    return F.percentile(values, F.array(*(F.lit(share) for share in shares)))
