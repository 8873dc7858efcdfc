"""Capacity: how busy the workers are, and how many slots are needed next month."""

from collections.abc import Iterator, Sequence

from euterpe.analytics.marts.forecast import TABLE, make
from euterpe.analytics.marts.mart import Mart
from euterpe.analytics.marts.utilisation import TABLE as UTILISATION
from euterpe.analytics.marts.utilisation import busy_days, busy_sentence, busy_workers
from euterpe.analytics.report import words
from euterpe.analytics.report.blocks import Finding, Section, Severity, badge, counted, nothing, table
from euterpe.analytics.report.html import Content, Html, join, tag
from euterpe.analytics.report.results import Results, Row, total

DISAGREEMENT = 3  # if the observed and the modelled wait differ by a larger factor, do not trust the model


def section(results: Results) -> Section:
    queues = sorted(results.rows("capacity"), key=lambda row: (-(row["forecast_load"] or 0), row["queue"]))
    days = busy_days(results)
    return Section(
        "capacity",
        "How busy are the workers, and how many slots does next month need?",
        _answer(results, queues, days),
        join(
            busy_workers(results, days) if days else nothing("No worker has done anything yet."),
            _needed(queues) if queues else nothing("There are no arrivals yet."),
        ),
        (UTILISATION, TABLE),
    )


def _answer(results: Results, queues: Sequence[Row], days: Sequence[Row]) -> str:
    sentences = []
    if days:
        sentences.append(busy_sentence(days))
    (needed,) = total(queues, ("slots_needed",)).values()
    if needed:
        target = words.duration(results.forecast.p95_wait_seconds)
        sentences.append(
            f"In {results.forecast.days_ahead} days, {words.quantity(needed, 'slot')} would keep 95 % of the "
            f"waits in each queue's busiest hour within {target}, if the queues share no slots."
        )
    if doubtful := disagreeing(queues):
        sentences.append(
            f"Do not trust this forecast for {words.listed(doubtful)}: there, the model and the measured "
            f"waits differ by more than a factor of {DISAGREEMENT}."
        )
    return " ".join(sentences) or "Nothing has run yet."


def _needed(queues: Sequence[Row]) -> Html:
    models = dict.fromkeys(row["model"] for row in queues if row["model"])
    return join(
        tag("ul", *(tag("li", _forecast(row)) for row in queues)),
        *(tag("p", f"The model: {model}.", class_="note") for model in models),
        table(
            "Slots by queue",
            (
                "queue",
                "#jobs an hour",
                "#service",
                "#variation",
                "#load",
                "#growth a week",
                "#load then",
                "#slots now",
                "#slots needed",
                "#p95 wait then",
                "#p95 wait then, slots of now",
            ),
            [_cells(row) for row in queues],
        ),
        _observations(queues),
    )


def _forecast(row: Row) -> str:
    if not row["slots_needed"]:
        return f"{row['queue']}: too few jobs have run for a forecast."
    growth = row["weekly_growth"] or 0.0
    growing = "growing" if growth > 0 else "shrinking"
    grown = f"{growing} {words.percent(abs(growth))} a week" if growth else "without growth"
    return (
        f"{row['queue']}: the busiest hour brought {words.quantity(round(row['arrivals_per_hour']), 'job')} "
        f"of {words.duration(row['service_seconds'])} each, which keep {words.number(row['load'])} slots "
        f"busy; {grown}, that becomes {words.number(row['forecast_load'])}. "
        f"It takes {words.quantity(row['slots_needed'], 'slot')} "
        f"({words.count(row['slots_now'])} were seen in use), and then 95 % would wait at most "
        f"{words.duration(row['p95_wait_seconds'])}. {observed(row)}".rstrip()
    )


def disagreeing(queues: Sequence[Row]) -> list[str]:
    """Return the queues whose modelled wait and observed wait differ by more than `DISAGREEMENT`."""
    return [row["queue"] for row in queues if _is_judged(row) and not _agrees(row)]


def _is_judged(row: Row) -> bool:
    return bool(row["slots_needed"]) and row["p95_busiest_seconds"] is not None


def _agrees(row: Row) -> bool:
    return row["model_gap"] is not None and row["model_gap"] <= DISAGREEMENT


def observed(row: Row) -> str:
    """Return a sentence that compares the observed wait of the busiest hour with the model's wait."""
    seen, model = row["p95_busiest_seconds"], row["p95_model_seconds"]
    if seen is None:
        return ""
    modelled = "would grow without end" if model is None else f"was at most {words.duration(model)}"
    sentence = (
        f"In that hour 95 % really waited at most {words.duration(seen)}; "
        f"the model says that the wait {modelled}"
    )
    if _agrees(row):
        return f"{sentence}."
    return f"{sentence}: do not trust its forecast for this queue."


def _observations(queues: Sequence[Row]) -> Html:
    return join(
        table(
            "Waiting: seen and modelled",
            (
                "queue",
                "#p50 seen, 28 days",
                "#p95 seen, 28 days",
                "#still waiting",
                "#p50 seen, busiest hour",
                "#p95 seen, busiest hour",
                "#p50 model, that hour",
                "#p95 model, that hour",
                "the model",
            ),
            [_seen(row) for row in queues],
        ),
        tag(
            "p",
            "The model disagrees where the two 95th percentiles (plus 1 s each) are more than "
            f"{DISAGREEMENT}× apart. It does not include priorities, fair shares, limits of groups and "
            "requesters, paused queues, jobs that come in batches rather than at random, a backlog from the "
            "hour before, or workers that were idle because they lacked a resource that a job needed.",
            class_="note",
        ),
    )


def _verdict(row: Row) -> Content:
    if not _is_judged(row):
        return words.UNKNOWN
    return badge("agrees", "good") if _agrees(row) else badge("disagrees", "warning")


def _seen(row: Row) -> list[Content]:
    unknown = not _is_judged(row)
    model = [
        words.UNKNOWN if unknown else "without end" if row[name] is None else words.duration(row[name])
        for name in ("p50_model_seconds", "p95_model_seconds")
    ]
    return [
        row["queue"],
        words.duration(row["p50_waited_seconds"]),
        words.duration(row["p95_waited_seconds"]),
        counted(row["still_waiting"]),
        words.duration(row["p50_busiest_seconds"]),
        words.duration(row["p95_busiest_seconds"]),
        *model,
        _verdict(row),
    ]


def _cells(row: Row) -> list[Content]:
    return [
        row["queue"],
        words.number(row["arrivals_per_hour"]),
        words.duration(row["service_seconds"]),
        words.number(row["service_cv2"]),
        words.number(row["load"]),
        words.UNKNOWN if row["weekly_growth"] is None else words.change(row["weekly_growth"]),
        words.number(row["forecast_load"]),
        counted(row["slots_now"]),
        counted(row["slots_needed"]),
        words.duration(row["p95_wait_seconds"]),
        "without end" if row["p95_wait_now_seconds"] is None else words.duration(row["p95_wait_now_seconds"]),
    ]


def missing_slots(results: Results) -> Iterator[Finding]:
    for row in results.rows("capacity"):
        needed, now = row["slots_needed"], row["slots_now"]
        if not now or needed <= now:
            continue
        wait = row["p95_wait_now_seconds"]
        outlook = (
            "those cannot keep up"
            if wait is None
            else f"with those, 95 % would wait up to {words.duration(wait)}"
        )
        yield Finding(
            Severity.bad if wait is None else Severity.warning,
            f"Queue {row['queue']} needs {words.quantity(needed, 'slot')} "
            f"in {results.forecast.days_ahead} days.",
            f"at most {words.count(now)} were seen in use: {outlook}{_beside(row)}",
            "capacity",
            weight=(needed - now) / needed,
        )


def _beside(row: Row) -> str:
    """Return a sentence that compares the modelled wait with the observed wait, to append to a forecast."""
    comparison = observed(row)
    return f". {comparison}" if comparison else ""


MART = Mart(TABLE, make, section, findings=(missing_slots,), needs_everybody=True)
