"""Costs by requester and profile: the usage of all attempts at the operator's prices.

The usage of an attempt is the processor time of ffmpeg. If this time is unknown, for example because the
worker was killed, the usage is the time for which the attempt held its slot. The report calls
this usage estimated.
"""

from collections.abc import Iterator, Sequence
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from euterpe.analytics.facts import Facts, shaped
from euterpe.analytics.marts.mart import Mart, minutes, over, sum_or_zero
from euterpe.analytics.options import Options
from euterpe.analytics.report import words
from euterpe.analytics.report.blocks import Finding, Section, Severity, counted, figure, nothing, table
from euterpe.analytics.report.charts.horizontal import Bar, bars
from euterpe.analytics.report.html import Content, Html, join
from euterpe.analytics.report.results import Results, Row, share, top_n, total
from euterpe.analytics.schema import Table, columns
from euterpe.analytics.tables import JOB_FACTS

TABLE = Table(
    "costs",
    "Show the cost of each requester and profile.",
    ("requester", "profile"),
    columns(
        """
        requester
        profile
        jobs long Jobs with at least one ended attempt.
        cpu_hours double Processor time; if it is unknown, the time for which the attempt held its slot.
        estimated_hours double cpu_hours of the attempts whose processor time is unknown.
        wasted_cpu_hours double cpu_hours of the attempts that did not succeed.
        wasted_estimated_hours double estimated_hours of the attempts that did not succeed.
        gib_in double GiB read.
        gib_out double GiB written.
        output_minutes double Minutes of media in the outputs.
        cost double The sum of cpu_hours, gib_in and gib_out, each multiplied by its price.
        wasted_cost double wasted_cpu_hours multiplied by the price of a processor hour.
        cost_per_output_minute double cost / output_minutes; null if output_minutes is 0.
    """,
        JOB_FACTS,
    ),
)

_GIB = 1 << 30


def make(facts: Facts, options: Options) -> DataFrame:
    used, is_estimate = F.col("used_seconds"), F.col("used_from") == "slot"
    is_wasted = F.col("outcome") != "succeeded"
    ended = facts.attempts.where("ended_at IS NOT NULL")
    spent = ended.groupBy(*TABLE.key).agg(
        F.count_distinct("job_id").alias("jobs"),
        _hours(used).alias("cpu_hours"),
        _hours(F.when(is_estimate, used)).alias("estimated_hours"),
        _hours(F.when(is_wasted, used)).alias("wasted_cpu_hours"),
        _hours(F.when(is_wasted & is_estimate, used)).alias("wasted_estimated_hours"),
        (sum_or_zero("bytes_in") / _GIB).alias("gib_in"),
        (sum_or_zero("bytes_out") / _GIB).alias("gib_out"),
    )
    succeeded = facts.jobs.where("outcome = 'succeeded'")
    made = succeeded.groupBy(*TABLE.key).agg(minutes("output_seconds").alias("output_minutes"))
    priced = {
        "cost": F.col("cpu_hours") * options.prices.cpu_hour
        + F.col("gib_in") * options.prices.gib_in
        + F.col("gib_out") * options.prices.gib_out,
        "wasted_cost": F.col("wasted_cpu_hours") * options.prices.cpu_hour,
    }
    joined = spent.join(made, list(TABLE.key), "left").fillna(0, ["output_minutes"]).withColumns(priced)
    return shaped(joined.withColumn("cost_per_output_minute", over("cost", "output_minutes")), TABLE)


def _hours(seconds: Column) -> Column:
    return sum_or_zero(seconds) / 3600


SUMS = (
    *("jobs", "cpu_hours", "estimated_hours", "wasted_cpu_hours", "wasted_estimated_hours"),
    *("gib_in", "gib_out", "output_minutes", "cost", "wasted_cost"),
)
_HEADS = (
    "#jobs",
    "#processor hours",
    "#estimated",
    "#wasted",
    "#GiB out",
    "#output minutes",
    "#cost",
    "#share",
    "#per minute",
)


def section(results: Results) -> Section:
    requesters = results.grouped("costs", ["requester"], SUMS)
    whole = total(requesters, SUMS)
    return Section(
        "cost",
        "What did it cost, and who caused it?",
        _answer(results, requesters, whole),
        _evidence(results, requesters, whole) if requesters else nothing("No attempt has ended yet."),
        (TABLE,),
    )


def _answer(results: Results, requesters: Sequence[Row], whole: Row) -> str:
    prices = results.prices
    price = (
        f"Computed with {prices.currency} {prices.cpu_hour:g} for an hour of processor time, "
        f"{prices.gib_in:g} for a GiB read and {prices.gib_out:g} for a GiB written."
    )
    if not requesters:
        return price
    most = max(requesters, key=lambda row: row["cost"])
    money = partial(words.money, currency=prices.currency)
    caused, wasted = share(most["cost"], whole["cost"]), share(whole["wasted_cost"], whole["cost"])
    return (
        f"{money(whole['cost'])} for {words.quantity(whole['jobs'], 'job')}, "
        f"{money(whole['cpu_hours'] * prices.cpu_hour)} of it for processor time. "
        f"{most['requester']} caused {words.percent(caused)}; "
        f"{money(whole['wasted_cost'])} ({words.percent(wasted)}) "
        "is processor time of attempts that did not succeed. "
        f"{_estimated(whole)}{price}"
    )


def _estimated(whole: Row) -> str:
    """Return how much of the processor time is estimated, or an empty string if nothing is estimated."""
    hours = whole["estimated_hours"]
    if not hours:
        return ""
    of_all = words.percent(share(hours, whole["cpu_hours"]))
    of_waste = words.percent(share(whole["wasted_estimated_hours"], whole["wasted_cpu_hours"]))
    return (
        f"{words.number(hours)} of {words.number(whole['cpu_hours'])} processor hours ({of_all}) are "
        "estimated: "
        "some attempts, such as killed ones, have no measurement. For these, the time that they held a slot "
        "is counted, which is too little if an encode keeps several processors busy. "
        f"{of_waste} of the waste is estimated in this way. "
    )


def _evidence(results: Results, requesters: Sequence[Row], whole: Row) -> Html:
    profiles = results.grouped("costs", ["profile"], SUMS)
    fold = partial(total, names=SUMS)
    shown = top_n(requesters, "requester", "cost", fold)
    currency = results.prices.currency
    return join(
        figure(
            "Cost by requester",
            partial(bars, [_bar(row, whole, currency) for row in shown], "Cost by requester"),
            legend=(
                ("work", "attempts that succeeded, and data"),
                ("waste", "processor time of attempts that did not"),
            ),
        ),
        *(
            table(
                f"Cost by {by}",
                (by, *_HEADS),
                [_cells(row, by, whole, currency) for row in top_n(rows, by, "cost", fold)],
                _cells({**whole, by: "all"}, by, whole, currency),
            )
            for by, rows in (("requester", requesters), ("profile", profiles))
        ),
    )


def _bar(row: Row, whole: Row, currency: str) -> Bar:
    spent, caused = words.money(row["cost"], currency), words.percent(share(row["cost"], whole["cost"]))
    wasted = words.money(row["wasted_cost"], currency)
    parts = ((row["cost"] - row["wasted_cost"], "work"), (row["wasted_cost"], "waste"))
    return Bar(
        row["requester"], parts, spent, f"{row['requester']}: {spent} ({caused}), of which {wasted} wasted"
    )


def _cells(row: Row, by: str, whole: Row, currency: str) -> list[Content]:
    return [
        row[by],
        counted(row["jobs"]),
        words.number(row["cpu_hours"]),
        words.percent(share(row["estimated_hours"], row["cpu_hours"])),
        words.percent(share(row["wasted_cpu_hours"], row["cpu_hours"])),
        words.number(row["gib_out"]),
        counted(row["output_minutes"]),
        words.money(row["cost"], currency),
        words.percent(share(row["cost"], whole["cost"])),
        words.money(share(row["cost"], row["output_minutes"]), currency),
    ]


def wasted_work(results: Results) -> Iterator[Finding]:
    names = ("cost", "wasted_cost", "wasted_cpu_hours", "wasted_estimated_hours")
    rows = results.grouped("costs", ["requester"], names)
    whole = total(rows, names)
    wasted = share(whole["wasted_cost"], whole["cost"]) or 0.0
    if wasted < 0.05:
        return
    worst = max(rows, key=lambda row: (row["wasted_cost"], row["requester"]))
    estimated = share(whole["wasted_estimated_hours"], whole["wasted_cpu_hours"])
    currency = results.prices.currency
    yield Finding(
        Severity.warning,
        f"{words.percent(wasted)} of the cost is processor time of attempts that did not succeed.",
        f"{words.money(whole['wasted_cost'], currency)} of {words.money(whole['cost'], currency)}, "
        f"{words.money(worst['wasted_cost'], currency)} of it for {worst['requester']}"
        + (f"; {words.percent(estimated)} of it is estimated" if estimated else ""),
        "cost",
        weight=wasted,
    )


MART = Mart(TABLE, make, section, findings=(wasted_work,))
