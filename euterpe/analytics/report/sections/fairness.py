"""The section on fairness: whether some requesters of a queue wait for other requesters."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from euterpe.analytics.marts.fairness import FEWEST_JOBS
from euterpe.analytics.report import words
from euterpe.analytics.report.blocks import Section, counted, figure, nothing, table
from euterpe.analytics.report.charts.horizontal import Bar, bars
from euterpe.analytics.report.html import Content, Html, join
from euterpe.analytics.report.results import Results, Row, total
from euterpe.analytics.report.top_n import top_n

EVEN = 0.8  # below this value of Jain's index, waiting is not shared evenly
# The report mentions a requester whose wait is this many times the wait of its queue.
_LONGER = 1.5
# In points of 0 to 100: a requester whose priority is lower than its queue's by this much chose to wait.
_LOWER_PRIORITY = 5
_DRAWN, _LISTED = 20, 8


@dataclass(frozen=True)
class Queue:
    """The requesters of one queue."""

    name: str
    rows: Sequence[Row]

    @property
    def compared(self) -> list[Row]:
        return [row for row in self.rows if row["is_compared"]]

    @property
    def jain(self) -> float | None:
        """Return Jain's index of the compared requesters, or None where there are fewer than two."""
        found: float | None = self.rows[0]["jain"] if len(self.compared) > 1 else None
        return found

    @property
    def jobs(self) -> int:
        return int(total(self.rows, ("jobs",))["jobs"])

    def waits_for_others(self) -> Row | None:
        """Return the compared requester that waits far longer than its queue for no reason of its own.

        A requester with more than an equal share of the work waits mostly for its own jobs, and a requester
        that asked for a lower priority chose to wait.
        """
        usual = sum(row["jobs"] * (row["mean_priority"] or 0) for row in self.compared)
        usual /= max(1, sum(row["jobs"] for row in self.compared))
        found = [
            row
            for row in self.compared
            if (row["waiting_ratio"] or 0) >= _LONGER
            and (row["share_of_work"] or 0) <= 1 / len(self.compared)
            and (row["mean_priority"] or 0) > usual - _LOWER_PRIORITY
        ]
        return max(found, key=lambda row: (row["waiting_ratio"], row["requester"]), default=None)


def by_queue(rows: Iterable[Row]) -> list[Queue]:
    """Return the rows grouped by queue, the queue with most jobs first."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["queue"], []).append(row)
    queues = [Queue(name, own) for name, own in found.items()]
    return sorted(queues, key=lambda queue: (-queue.jobs, queue.name))


def fairness(results: Results) -> Section:
    queues = by_queue(results.rows("fairness"))
    return Section(
        "fairness",
        "Is it fair between requesters of the same queue?",
        _answer(queues),
        _evidence(queues) if queues else nothing("No job has been claimed yet."),
        ("fairness",),
    )


def _answer(queues: Sequence[Queue]) -> str:
    compared = [queue for queue in queues if queue.jain is not None]
    if not compared:
        return (
            "There is nobody to compare: it takes a queue in which two requesters have at least "
            f"{FEWEST_JOBS} jobs each."
        )
    rest = [queue.name for queue in queues if queue.jain is None]
    sentences = [_comparison(queue) for queue in compared[:_LISTED]]
    if len(compared) > _LISTED:
        sentences.append(f"{len(compared) - _LISTED} smaller queues are in report.json.")
    if rest:
        sentences.append(f"Nobody is compared in {words.listed(rest[:_LISTED])}{_more(rest)}.")
    return " ".join(sentences)


def _more(names: Sequence[str]) -> str:
    return f" and {len(names) - _LISTED} other queues" if len(names) > _LISTED else ""


def _comparison(queue: Queue) -> str:
    jain, count = queue.jain or 0.0, len(queue.compared)
    evenly = (
        f"Queue {queue.name}: between {count} requesters waiting is shared "
        f"{'evenly' if jain >= EVEN else 'unevenly'} (Jain's index {jain:.2f}, where 1 is even and "
        f"{1 / count:.2g} is one requester who waits for all)."
    )
    waited = [row for row in queue.compared if (row["waiting_ratio"] or 0) >= _LONGER]
    if not waited:
        return evenly
    worst = max(waited, key=lambda row: (row["waiting_ratio"], row["requester"]))
    return f"{evenly} {waiting(worst)}"


def waiting(row: Row) -> str:
    """Return a sentence on how long a requester waits, beside its share of the work."""
    return (
        f"{row['requester']} waits longest: 95 % of its jobs within "
        f"{words.duration_ms(row['p95_waiting_ms'])}, "
        f"{words.factor(row['waiting_ratio'])} that of all jobs of the queue, with "
        f"{words.percent(row['share_of_work'])} of its work at a mean priority of "
        f"{words.number(row['mean_priority'])}."
    )


def _evidence(queues: Sequence[Queue]) -> Html:
    title = "Waiting of the 95th percentile, by queue and requester"
    listed = queues[:_LISTED]
    each = max(3, _DRAWN // len(listed))
    shown = [row for queue in listed for row in top_n(queue.rows, "requester", "jobs", _together, each)]
    rest = f", the {_LISTED} largest queues of {len(queues)}" if len(queues) > _LISTED else ""
    drawn = [_bar(row) for row in shown if row["is_compared"] and row["p95_waiting_ms"] is not None][:_DRAWN]
    return join(
        figure(
            title,
            lambda width: bars(drawn, title, width),
            note=f"Of at least {FEWEST_JOBS} jobs each; bars of different queues say nothing of each other.",
        )
        if drawn
        else "",
        table(
            f"Work and waiting by queue and requester{rest}",
            (
                "queue",
                "requester",
                "#jobs",
                "#still waiting",
                "#share of jobs",
                "#share of work",
                "#priority",
                "#p50 waiting",
                "#p95 waiting",
                "#against its queue",
            ),
            [_cells(row) for row in shown],
        ),
    )


def _bar(row: Row) -> Bar:
    p95 = words.duration_ms(row["p95_waiting_ms"])
    return Bar(
        f"{row['queue']} · {row['requester']}",
        ((row["p95_waiting_ms"], "work"),),
        p95,
        f"{row['requester']} in queue {row['queue']}: 95 % within {p95}, half within "
        f"{words.duration_ms(row['p50_waiting_ms'])}; {words.percent(row['share_of_jobs'])} of the jobs",
    )


def _together(rows: Sequence[Row]) -> dict[str, Any]:
    unknown = dict.fromkeys(
        ("p50_waiting_ms", "p95_waiting_ms", "waiting_ratio", "mean_priority", "is_compared")
    )
    sums = total(rows, ("jobs", "still_waiting", "share_of_jobs", "share_of_work"))
    return {**sums, **unknown, "queue": rows[0]["queue"]}


def _cells(row: Row) -> list[Content]:
    few = row["is_compared"] is False
    return [
        row["queue"],
        row["requester"],
        counted(row["jobs"]),
        counted(row["still_waiting"]),
        words.percent(row["share_of_jobs"]),
        words.percent(row["share_of_work"]),
        words.number(row["mean_priority"]),
        words.duration_ms(row["p50_waiting_ms"]),
        words.duration_ms(row["p95_waiting_ms"]),
        "not compared" if few else words.factor(row["waiting_ratio"]),
    ]
