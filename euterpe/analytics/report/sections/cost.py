"""The section on cost: what the jobs cost, and which requester caused it."""

from collections.abc import Sequence
from functools import partial

from euterpe.analytics.report import words
from euterpe.analytics.report.blocks import Section, counted, figure, nothing, table
from euterpe.analytics.report.charts.horizontal import Bar, bars
from euterpe.analytics.report.html import Content, Html, join
from euterpe.analytics.report.results import Results, Row, share, total
from euterpe.analytics.report.top_n import top_n

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


def cost(results: Results) -> Section:
    requesters = results.grouped("costs", ["requester"], SUMS)
    whole = total(requesters, SUMS)
    return Section(
        "cost",
        "What did it cost, and who caused it?",
        _answer(results, requesters, whole),
        _evidence(results, requesters, whole) if requesters else nothing("No attempt has ended yet."),
        ("costs",),
    )


def _answer(results: Results, requesters: Sequence[Row], whole: Row) -> str:
    prices = results.prices
    price = (
        f"Reckoned with {prices.currency} {prices.cpu_hour:g} for an hour of processor time, "
        f"{prices.gib_in:g} for a GiB read and {prices.gib_out:g} for a GiB written."
    )
    if not requesters:
        return price
    most = max(requesters, key=lambda row: row["cost"])
    money = partial(words.money, currency=prices.currency)
    caused, wasted = share(most["cost"], whole["cost"]), share(whole["wasted_cost"], whole["cost"])
    return (
        f"{money(whole['cost'])} for {words.of(whole['jobs'], 'job')}, "
        f"{money(whole['cpu_hours'] * prices.cpu_hour)} of it for processor time. "
        f"{most['requester']} caused {words.percent(caused)}; "
        f"{money(whole['wasted_cost'])} ({words.percent(wasted)}) "
        "is processor time of attempts that did not succeed. "
        f"{_estimated(whole)}{price}"
    )


def _estimated(whole: Row) -> str:
    """Return how much of the processor time is estimated, or an empty string if all of it was measured."""
    hours = whole["estimated_hours"]
    if not hours:
        return ""
    of_all = words.percent(share(hours, whole["cpu_hours"]))
    of_waste = words.percent(share(whole["wasted_estimated_hours"], whole["wasted_cpu_hours"]))
    return (
        f"{words.number(hours)} of {words.number(whole['cpu_hours'])} processor hours ({of_all}) are "
        "estimated: "
        "nothing was measured of attempts such as those that were killed, and the time that they held a slot "
        "stands for it, which is too little where an encode keeps several processors busy. "
        f"{of_waste} of the waste is estimated so. "
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
