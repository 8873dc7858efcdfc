"""Fairness between the requesters of a queue: how long each requester waited, and its share of the work.

Queues have different workers and priorities, so waits in different queues cannot be compared. Within a queue,
the requesters with at least `FEWEST_JOBS` jobs are compared, if there are at least two such requesters.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from euterpe.analytics.facts import Facts, shaped
from euterpe.analytics.marts.horizon import horizon, is_waiting, waited_ms
from euterpe.analytics.marts.mart import Mart, over, percentiles, sum_or_zero
from euterpe.analytics.options import Options
from euterpe.analytics.report import words
from euterpe.analytics.report.blocks import Finding, Section, Severity, counted, figure, nothing, table
from euterpe.analytics.report.charts.horizontal import Bar, bars
from euterpe.analytics.report.html import Content, Html, join
from euterpe.analytics.report.results import Results, Row, top_n, total
from euterpe.analytics.schema import Table, columns
from euterpe.analytics.tables import JOB_FACTS

TABLE = Table(
    "fairness",
    "Tell whether some requesters wait for others in the same queue.",
    ("queue", "requester"),
    columns(
        """
        queue
        requester
        jobs long The requester's jobs in this queue that were claimed, or are due and still wait.
        still_waiting long Number of these jobs that still wait. The percentiles include their wait so far.
        share_of_jobs double jobs divided by the sum of jobs over all requesters of the queue.
        share_of_work double The requester's share of the busy time of the queue.
        mean_priority double Mean priority of these jobs.
        p50_waiting_ms double Median wait of these jobs.
        p95_waiting_ms double 95th percentile of the wait of these jobs.
        waiting_ratio double p95_waiting_ms / p95 wait of all jobs of the queue; null if the divisor is 0.
        is_compared bool Whether this requester and at least one other have 30 jobs or more in this queue.
        jain double Jain's index of mean wait + 1 s, over the compared requesters; null if there are none.
    """,
        JOB_FACTS,
    ),
)

# With fewer jobs than this, the 95th percentile depends almost only on the longest wait.
FEWEST_JOBS = 30
EVEN = 0.8  # below this value of Jain's index, waiting is not shared evenly
# The report mentions a requester whose p95 wait is at least this many times the p95 wait of its queue.
_LONGER = 1.5
# A requester whose mean priority (0 to 100) is this far below its queue's mean is assumed to accept waiting.
_LOWER_PRIORITY = 5
_DRAWN, _LISTED = 20, 8


def make(facts: Facts, options: Options) -> DataFrame:
    now = horizon(facts, options.read_at)
    seen = facts.jobs.withColumn("waited", waited_ms(now)).where("waited IS NOT NULL")
    waits = seen.groupBy("queue", "requester").agg(
        F.count("*").alias("jobs"),
        F.count_if(is_waiting(now)).alias("still_waiting"),
        percentiles("waited", (0.5, 0.95)).alias("shares"),
        F.avg("priority").alias("mean_priority"),
        # Jain's index is computed from waits + 1 s. Without the added second, tiny differences between short
        # waits would look very uneven.
        (F.avg("waited") + 1000).alias("mean_ms"),
    )
    worked = facts.attempts.groupBy("queue", "requester").agg(sum_or_zero("busy_ms").alias("work"))
    everyone = seen.groupBy("queue").agg(F.percentile("waited", 0.95).alias("p95_of_queue"))
    joined = waits.join(worked, ["queue", "requester"], "left").join(F.broadcast(everyone), "queue")
    of_queue = Window.partitionBy("queue")
    has_enough = F.col("jobs") >= FEWEST_JOBS
    comparable = F.count_if(has_enough).over(of_queue)
    mean_ms = F.when(F.col("is_compared"), F.col("mean_ms"))
    columns = {
        "share_of_jobs": over("jobs", F.sum("jobs").over(of_queue)),
        "share_of_work": over("work", F.sum("work").over(of_queue)),
        "p50_waiting_ms": F.col("shares")[0],
        "p95_waiting_ms": F.col("shares")[1],
        "waiting_ratio": over(F.col("shares")[1], "p95_of_queue"),
        "is_compared": has_enough & (comparable > 1),
    }
    index = over(
        F.pow(F.sum(mean_ms).over(of_queue), 2),
        F.count(mean_ms).over(of_queue) * F.sum(F.pow(mean_ms, F.lit(2))).over(of_queue),
    )
    return shaped(joined.withColumns(columns).withColumn("jain", index), TABLE)


@dataclass(frozen=True)
class QueueOfRequesters:
    """The requesters of one queue."""

    name: str
    rows: Sequence[Row]

    @property
    def compared(self) -> list[Row]:
        return [row for row in self.rows if row["is_compared"]]

    @property
    def jain(self) -> float | None:
        """Return Jain's index of the compared requesters, or None if there are fewer than two of them."""
        found: float | None = self.rows[0]["jain"] if len(self.compared) > 1 else None
        return found

    @property
    def jobs(self) -> int:
        return int(total(self.rows, ("jobs",))["jobs"])

    def waits_for_others(self) -> Row | None:
        """Return the requester that waits by far the longest because of other requesters, or None.

        A requester is left out if its share of the work is larger than an equal share, because it waits
        mostly for its own jobs. A requester with a low mean priority is left out too, because it is assumed
        to accept waiting.
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


def by_queue(rows: Iterable[Row]) -> list[QueueOfRequesters]:
    """Return the rows grouped by queue, the queue with the most jobs first."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["queue"], []).append(row)
    queues = [QueueOfRequesters(name, own) for name, own in found.items()]
    return sorted(queues, key=lambda queue: (-queue.jobs, queue.name))


def section(results: Results) -> Section:
    queues = by_queue(results.rows("fairness"))
    return Section(
        "fairness",
        "Is it fair between requesters of the same queue?",
        _answer(queues),
        _evidence(queues) if queues else nothing("No job has been claimed yet."),
        (TABLE,),
    )


def _answer(queues: Sequence[QueueOfRequesters]) -> str:
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


def _comparison(queue: QueueOfRequesters) -> str:
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
    """Return a sentence about the waits of a requester and its share of the work."""
    return (
        f"{row['requester']} waits longest: 95 % of its jobs within "
        f"{words.duration_ms(row['p95_waiting_ms'])}, "
        f"{words.factor(row['waiting_ratio'])} that of all jobs of the queue, with "
        f"{words.percent(row['share_of_work'])} of its work at a mean priority of "
        f"{words.number(row['mean_priority'])}."
    )


def _evidence(queues: Sequence[QueueOfRequesters]) -> Html:
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


def uneven_waiting(results: Results) -> Iterator[Finding]:
    """Yield a finding for each queue in which a requester waits for other requesters."""
    for queue in by_queue(results.rows("fairness")):
        jain, worst = queue.jain, queue.waits_for_others()
        if jain is None or jain >= EVEN or worst is None:
            continue
        yield Finding(
            Severity.warning,
            f"In queue {queue.name}, {worst['requester']} waits for others.",
            f"95 % of its {words.quantity(worst['jobs'], 'job')} there within "
            f"{words.duration_ms(worst['p95_waiting_ms'])}, {words.factor(worst['waiting_ratio'])} that of "
            f"all jobs of the queue, though it has {words.percent(worst['share_of_work'])} of its work; "
            f"Jain's index of {len(queue.compared)} requesters is {jain:.2f}, and 1 is even",
            "fairness",
            weight=1 - jain,
        )


MART = Mart(TABLE, make, section, findings=(uneven_waiting,), needs_everybody=True)
