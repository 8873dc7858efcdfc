"""Sample results for reports: a plausible month (seeded), a single job, and no rows at all."""

import random
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa

from euterpe.analytics.marts import TABLES
from euterpe.analytics.options import Forecast, Objective, Prices
from euterpe.analytics.report.results import Results, Totals
from euterpe.analytics.schema import arrow_schema

Rows = list[dict[str, Any]]

UNTIL = datetime(2026, 11, 16, 9, 30, tzinfo=UTC)
NAMES = (
    *("Northlight Studios", "Marigold News", "Harbour TV", "campus-lectures", "Oriel Sport", "podfarm"),
    *("Tidewater Archive", "kino.club", "Bramble Kids", "Lantern Courses", "city-council", "Quay Radio"),
)
# For each profile: share of jobs, real-time factor, ratio of sizes, VMAF, and minutes of the source.
PROFILES = {
    "h264-720p": (0.40, 3.1, 0.31, 94.8, 11.0),
    "hls-ladder": (0.22, 0.95, 0.88, 95.9, 24.0),
    "hevc-1080p": (0.14, 0.82, 0.24, 95.1, 18.0),
    "audio-aac": (0.12, 61.0, 0.12, None, 32.0),
    "av1-1080p": (0.07, 0.41, 0.19, 97.4, 14.0),
    "custom": (0.05, 1.4, 1.12, 93.0, 7.0),
}
PRICES = Prices()


def arrow(mart: str, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Return a table of the mart. Columns that are missing in a row are null."""
    columns = TABLES[mart].columns
    return pa.Table.from_pylist(
        [{column.name: row.get(column.name) for column in columns} for row in rows],
        schema=arrow_schema(columns),
    )


def results(
    *, until: datetime | None = UNTIL, days: int = 28, jobs: int = 0, **marts: Iterable[Mapping[str, Any]]
) -> Results:
    """Return results with these marts. All other marts are empty."""
    return Results(
        marts={name: arrow(name, marts.get(name, ())) for name in TABLES},
        since=until and until - timedelta(days=days),
        until=until,
        filters={},
        prices=PRICES,
        objective=Objective(),
        forecast=Forecast(),
        totals=Totals(jobs=jobs, attempts=jobs, deliveries=0),
        generated_at=UNTIL + timedelta(minutes=4),
        version="0.1.0",
    )


def empty() -> Results:
    return results(until=None)


def one_job() -> Results:
    day, who = UNTIL.date(), {"requester": "Quay Radio", "profile": "audio-aac", "queue": "default"}
    return results(
        days=0,
        jobs=1,
        throughput=[
            {
                **who,
                "day": day,
                "jobs": 1,
                "succeeded": 0,
                "failed": 0,
                "dead_letter": 0,
                "canceled": 0,
                "in_flight": 1,
                "output_minutes": 0.0,
            }
        ],
        refreshes=[
            {
                **who,
                "jobs": 1,
                "refreshed_jobs": 0,
                "refreshes": 0,
                "refreshed_share": 0.0,
                "credential_failures": 0,
            }
        ],
        capacity=[{**who, "arrivals_per_hour": 1.0, "weekly_growth": 0.0}],
    )


def month(seed: int = 4, *, requesters: int = 12, days: int = 28) -> Results:
    rng = random.Random(seed)
    throughput = _throughput(rng, requesters, days)
    costs = _costs(rng, throughput)
    made = results(
        days=days,
        jobs=sum(row["jobs"] for row in throughput),
        throughput=throughput,
        latency=_latency(rng, throughput),
        speed=_speed(),
        failures=_failures(),
        refreshes=_refreshes(rng, throughput),
        webhooks=_webhooks(rng, throughput),
        sizes=_sizes(throughput),
        costs=costs,
        utilisation=_utilisation(rng, days),
        capacity=_capacity(),
        regressions=_regressions(),
        fairness=_fairness(rng, throughput),
    )
    jobs = made.totals.jobs
    return replace(made, totals=Totals(jobs=jobs, attempts=round(jobs * 1.07), deliveries=round(jobs * 4.6)))


def requester(n: int) -> str:
    return NAMES[n] if n < len(NAMES) else f"tenant-{n:03d}"


def _throughput(rng: random.Random, requesters: int, days: int) -> Rows:
    rows = []
    first = (UNTIL - timedelta(days=days - 1)).date()
    for day in (first + timedelta(days=n) for n in range(days)):
        for n in range(requesters):
            busy = 340 / (n + 1.4) * (0.45 if day.weekday() > 4 else 1) * (1 + 0.008 * (day - first).days)
            for profile, (part, *_) in PROFILES.items():
                jobs = round(busy * part * rng.uniform(0.75, 1.25) * (0.4 if day == UNTIL.date() else 1))
                if jobs:
                    rows.append(_day(rng, day, requester(n), profile, jobs))
    return rows


def _day(rng: random.Random, day: date, who: str, profile: str, jobs: int) -> dict[str, Any]:
    bad = 0.055 if (UNTIL.date() - day).days < 8 else 0.028
    failed = sum(rng.random() < bad for _ in range(jobs))
    dead, canceled = failed // 3, sum(rng.random() < 0.012 for _ in range(jobs - failed))
    in_flight = min(jobs - failed - canceled, jobs // 6) if day == UNTIL.date() else 0
    succeeded = jobs - failed - canceled - in_flight
    ended = succeeded + failed
    return {
        "day": day,
        "requester": who,
        "profile": profile,
        "queue": "bulk" if profile == "av1-1080p" else "default",
        "jobs": jobs,
        "succeeded": succeeded,
        "failed": failed - dead,
        "dead_letter": dead,
        "canceled": canceled,
        "in_flight": in_flight,
        "success_rate": succeeded / ended if ended else None,
        "output_minutes": succeeded * PROFILES[profile][4] * rng.uniform(0.9, 1.1),
    }


def _added(rows: Rows, *by: str) -> dict[tuple[str, ...], dict[str, float]]:
    sums: dict[tuple[str, ...], dict[str, float]] = {}
    for row in rows:
        into = sums.setdefault(
            tuple(row[name] for name in by), {"jobs": 0, "succeeded": 0, "output_minutes": 0}
        )
        for name in into:
            into[name] += row[name]
    return sums


def _costs(rng: random.Random, throughput: Rows) -> Rows:
    rows = []
    for (who, profile), made in _added(throughput, "requester", "profile").items():
        _, speed, ratio, _, minutes = PROFILES[profile]
        hours = made["jobs"] * minutes / speed / 60 * 3.4
        wasted = hours * rng.uniform(0.02, 0.09)
        gib_in = made["jobs"] * minutes * 0.045
        gib_out = made["succeeded"] * minutes * 0.045 * ratio
        spent = hours * PRICES.cpu_hour + gib_out * PRICES.gib_out
        rows.append(
            {
                "requester": who,
                "profile": profile,
                "jobs": made["jobs"],
                "cpu_hours": hours,
                "wasted_cpu_hours": wasted,
                "gib_in": gib_in,
                "gib_out": gib_out,
                "output_minutes": made["output_minutes"],
                "cost": spent,
                "wasted_cost": wasted * PRICES.cpu_hour,
                "cost_per_output_minute": spent / made["output_minutes"] if made["output_minutes"] else None,
            }
        )
    return rows


def _latency(rng: random.Random, throughput: Rows) -> Rows:
    rows = []
    for (profile, queue), made in _added(throughput, "profile", "queue").items():
        _, speed, ratio, _, minutes = PROFILES[profile]
        medians = {
            "waiting": 2_400 if queue == "default" else 48_000,
            "fetch": minutes * 700,
            "encode": minutes * 60_000 / speed,
            "upload": minutes * 900 * ratio,
        }
        medians["total"] = sum(medians.values())
        for stage, p50 in medians.items():
            tail = 9.0 if stage == "waiting" else 3.2
            p95 = p50 * tail * rng.uniform(0.9, 1.1)
            row = {
                "profile": profile,
                "queue": queue,
                "stage": stage,
                "count": made["succeeded"],
                "p50_ms": p50,
            }
            rows.append({**row, "p95_ms": p95, "p99_ms": p95 * 1.9, "max_ms": p95 * 6})
    return rows


def _speed() -> Rows:
    rows = []
    for profile, (part, factor, _, _, minutes) in PROFILES.items():
        for version, slower in (("8.1.2", 1.0), ("9.0.2", 0.88 if profile == "hevc-1080p" else 1.004)):
            attempts = round(24_000 * part)
            rows.append(
                {
                    "profile": profile,
                    "ffmpeg": version,
                    "attempts": attempts,
                    "media_minutes": attempts * minutes,
                    "factor": factor * slower,
                    "p05_factor": factor * slower * 0.61,
                    "p50_factor": factor * slower * 1.03,
                    "cpu_per_media_second": 3.4 / factor / slower,
                }
            )
    return rows


def _failures() -> Rows:
    week = timedelta(days=7)
    rows = (
        ("source_not_found", "fetching", 402, 402, 11, 0.02, 101, 97, "steady", 4.0),
        ("source_unreachable", "fetching", 371, 240, 9, 0.86, 164, 71, "rising", 4.0),
        ("encode_failed", "processing", 214, 180, 8, 0.05, 48, 57, "steady", 3.9),
        ("output_forbidden", "uploading", 131, 120, 1, 0.21, 131, 0, "new", 0.7),
        ("lease_expired", "processing", 96, 91, 10, 0.97, 9, 32, "falling", 3.8),
        ("source_not_media", "fetching", 77, 77, 5, 0.0, 19, 20, "steady", 3.7),
        ("disk_full", "processing", 44, 40, 6, 0.9, 0, 41, "gone", 1.9),
    )
    names = (
        "error_code",
        "error_phase",
        "attempts",
        "jobs",
        "requesters",
        "recovered",
        "last_week",
        "week_before",
        "trend",
    )
    return [
        {
            **dict(zip(names, row[:-1], strict=True)),
            "first_seen": UNTIL - week * row[-1],
            "last_seen": UNTIL - (week * 1.2 if row[8] == "gone" else timedelta(hours=3)),
        }
        for row in rows
    ]


def _refreshes(rng: random.Random, throughput: Rows) -> Rows:
    rows = []
    for n, ((who,), made) in enumerate(_added(throughput, "requester").items()):
        renewed = round(made["jobs"] * rng.uniform(0.0, 0.09))
        rows.append(
            {
                "requester": who,
                "jobs": made["jobs"],
                "refreshed_jobs": renewed,
                "refreshes": round(renewed * 1.2),
                "refreshed_share": renewed / made["jobs"],
                "succeeded_after": rng.uniform(0.93, 1.0) if renewed else None,
                "credential_failures": 131 if n == 3 else rng.randrange(3),
            }
        )
    return rows


def _webhooks(rng: random.Random, throughput: Rows) -> Rows:
    rows = []
    for n, ((who,), made) in enumerate(_added(throughput, "requester").items()):
        slow, dead = (24.0 if n == 4 else 1.0), n == 9
        events = round(made["jobs"] * 4.3)
        lost = events if dead else round(events * rng.uniform(0, 0.0004))
        within = 0.0 if dead else 0.871 if n == 4 else 1 - lost / events - rng.uniform(0, 0.002)
        p50 = rng.uniform(120, 420) * slow
        times = {"p50_ms": p50, "p95_ms": p50 * 8, "p99_ms": p50 * 30} if not dead else {}
        rows.append(
            {
                "requester": who,
                "events": events,
                "delivered": events - lost,
                "pending": 0,
                "dead_letter": lost,
                "tries_per_event": 12.0 if dead else rng.uniform(1.0, 1.2) + (n == 4) * 0.6,
                **times,
                "judged": events,
                "within_slo": within,
                "meets_slo": within >= 0.99,
                "worst_error": "connect_refused" if dead else "timeout" if lost or n == 4 else None,
            }
        )
    return rows


def _sizes(throughput: Rows) -> Rows:
    rows = []
    for (profile,), made in _added(throughput, "profile").items():
        _, _, ratio, vmaf, minutes = PROFILES[profile]
        read = round(made["succeeded"] * minutes * 48_000_000)
        measured = round(made["succeeded"] / 3) if vmaf else 0
        rows.append(
            {
                "profile": profile,
                "jobs": made["succeeded"],
                "bytes_in": read,
                "bytes_out": round(read * ratio),
                "ratio": ratio,
                "p50_ratio": ratio * 0.94,
                "larger_than_source": round(made["succeeded"] * (0.61 if ratio > 1 else 0.02 * ratio)),
                "kbit_per_second": 6_400 * ratio,
                "measured": measured,
                "p05_vmaf": vmaf and vmaf - 4.1,
                "p50_vmaf": vmaf,
                "generous": round(measured * (0.64 if vmaf and vmaf > 97 else 0.08)),
            }
        )
    return rows


def _utilisation(rng: random.Random, days: int) -> Rows:
    rows = []
    for n in range(days):
        day = (UNTIL - timedelta(days=days - 1 - n)).date()
        quiet = (0.5 if day.weekday() > 4 else 1.0) * (0.4 if day == UNTIL.date() else 1.0)
        for worker in range(4):
            peak, present = 4, 86_000 * (0.4 if day == UNTIL.date() else 1.0)
            busy = 86_400 * min(3.9, 2.3 * quiet * rng.uniform(0.8, 1.2) * (1 + 0.008 * n))
            rows.append(
                {
                    "day": day,
                    "worker_id": f"worker-{worker}",
                    "attempts": round(busy / 610),
                    "busy_seconds": busy,
                    "present_seconds": present,
                    "mean_busy": busy / present,
                    "peak_busy": peak,
                    "utilisation": busy / present / peak,
                }
            )
    return rows


def _capacity() -> Rows:
    model = (
        "M/G/c (Erlang C, Allen-Cunneen): random arrivals at the busiest hour's rate, one queue, "
        "positive waits exponentially distributed, identical slots"
    )
    names = (
        *(
            "queue",
            "arrivals_per_hour",
            "service_seconds",
            "service_cv2",
            "load",
            "weekly_growth",
            "forecast_load",
        ),
        *("slots_now", "slots_needed", "p95_wait_seconds", "p95_wait_now_seconds"),
        *("p50_model_seconds", "p95_model_seconds", "p50_busiest_seconds", "p95_busiest_seconds"),
        *("p50_waited_seconds", "p95_waited_seconds", "still_waiting", "model_gap"),
    )
    model_says = (
        (0.0, 166.0, 4.0, 118.0, 2.4, 22.0, 3, 167 / 119),
        (0.0, 1_130.0, 9.0, 64.0, 48.0, 430.0, 0, 17.4),
    )
    rows = (
        ("default", 71.0, 608.0, 1.9, 11.99, 0.053, 14.96, 16, 20, 41.0, 1_960.0, *model_says[0]),
        ("bulk", 4.0, 2_080.0, 0.8, 2.31, 0.0, 2.31, 4, 6, 22.0, 1_130.0, *model_says[1]),
    )
    return [{**dict(zip(names, row, strict=True)), "model": model} for row in rows]


def _regressions() -> Rows:
    rows = []
    for profile, (part, factor, _, _, _) in PROFILES.items():
        worse = profile == "hevc-1080p"
        share = {"before": 0.019, "after": 0.041 if profile == "custom" else 0.0195}
        count = {"count_before": round(24_000 * part), "count_after": round(12_000 * part)}
        versions = {"profile": profile, "ffmpeg": "9.0.2", "baseline": "8.1.2"}
        after = factor * (0.88 if worse else 1.004)
        speed = {"before": factor, "after": after, "change": after / factor - 1}
        rows += [
            {
                **versions,
                **count,
                **speed,
                "measure": "speed",
                "p_value": 2e-9 if worse else 0.41,
                "verdict": "worse" if worse else "no evidence",
            },
            {
                **versions,
                **count,
                **share,
                "measure": "failure_rate",
                "change": share["after"] - share["before"],
                "p_value": 0.002 if profile == "custom" else 0.87,
                "verdict": "no evidence" if profile != "custom" else "worse",
            },
        ]
    return rows


def _fairness(rng: random.Random, throughput: Rows) -> Rows:
    made = _added(throughput, "queue", "requester")
    rows = []
    for n, ((queue, who), sums) in enumerate(made.items()):
        whole = sum(own["jobs"] for (name, _), own in made.items() if name == queue)
        ratio = 2.6 if n == 6 else rng.uniform(0.8, 1.15)
        share = sums["jobs"] / whole
        rows.append(
            {
                "queue": queue,
                "requester": who,
                "jobs": sums["jobs"],
                "still_waiting": 0,
                "share_of_jobs": share,
                "share_of_work": share * rng.uniform(0.85, 1.15),
                "mean_priority": 50.0,
                "p50_waiting_ms": 2_400 * ratio * (20 if queue == "bulk" else 1),
                "p95_waiting_ms": 22_000 * ratio * (20 if queue == "bulk" else 1),
                "waiting_ratio": ratio,
                "is_compared": sums["jobs"] >= 30,
                "jain": 0.87,
            }
        )
    return rows
