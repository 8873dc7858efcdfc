"""The marts: pure functions from facts to the tables of marts/schema.py, one module for each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pyspark.sql import DataFrame

from euterpe.analytics.facts import Facts
from euterpe.analytics.marts.capacity import Forecast, capacity
from euterpe.analytics.marts.costs import Prices, costs
from euterpe.analytics.marts.failures import failures
from euterpe.analytics.marts.fairness import fairness
from euterpe.analytics.marts.latency import latency
from euterpe.analytics.marts.refreshes import refreshes
from euterpe.analytics.marts.regressions import regressions
from euterpe.analytics.marts.sizes import sizes
from euterpe.analytics.marts.speed import speed
from euterpe.analytics.marts.throughput import throughput
from euterpe.analytics.marts.utilisation import utilisation
from euterpe.analytics.marts.webhooks import Objective, webhooks

__all__ = ["Forecast", "Objective", "Options", "Prices", "all_marts"]


@dataclass(frozen=True)
class Options:
    """The inputs of marts besides the facts: the operator's settings, and when the history was read."""

    prices: Prices = field(default_factory=Prices)
    objective: Objective = field(default_factory=Objective)
    forecast: Forecast = field(default_factory=Forecast)
    read_at: datetime | None = None


# Some makers run Spark jobs as soon as they are called, so callers that show progress call each separately.
MAKERS: Mapping[str, Callable[[Facts, Options], DataFrame]] = {
    "throughput": lambda facts, _: throughput(facts),
    "latency": lambda facts, _: latency(facts),
    "speed": lambda facts, _: speed(facts),
    "failures": lambda facts, _: failures(facts),
    "refreshes": lambda facts, _: refreshes(facts),
    "webhooks": lambda facts, options: webhooks(facts, options.objective, options.read_at),
    "sizes": lambda facts, _: sizes(facts),
    "costs": lambda facts, options: costs(facts, options.prices),
    "utilisation": lambda facts, _: utilisation(facts),
    "capacity": lambda facts, options: capacity(facts, options.forecast, options.read_at),
    "regressions": lambda facts, _: regressions(facts),
    "fairness": lambda facts, options: fairness(facts, options.read_at),
}


def all_marts(facts: Facts, options: Options) -> dict[str, DataFrame]:
    """Return all marts by name, in the order of MARTS."""
    return {name: make(facts, options) for name, make in MAKERS.items()}
