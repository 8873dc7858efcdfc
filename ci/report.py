"""Render docs/benchmarks.md and docs/benchmarks-analytics.md from the figures of one run."""

from __future__ import annotations

import platform
import sqlite3
import statistics
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ci.figure_tables import table
from euterpe.bench.figures import Figure

BATCHES = (25, 100, 250)
_PACKAGES = ("euterpe-transcode", "SQLAlchemy", "psycopg", "procrastinate", "pgqueuer")
Rounds = Sequence[Mapping[str, Any]]

_HEAD = """# Benchmarks

`ci/bench` writes this page; do not edit it. One run on one machine: all systems, one after the other, on the
same Postgres 18 with its defaults (fsync and synchronous_commit on). Figures are medians of {rounds} rounds.
Absolute figures depend on the machine more than on the software, so read the ratios.

Machine: {machine}. Versions: {versions}.

## Lives

A *life* is enqueue → claimed → fetching → processing → uploading → succeeded. It consists of five fenced
transitions, five pending outbox rows and an attempt row, without work between the transitions. Peers process
no-op jobs with two unfenced writes per job (procrastinate: in two commits; PgQueuer: in batches). For all
systems, *processed* leaves out the time of the enqueue, and `VACUUM (ANALYZE)` runs before the measurement.
Euterpe runs with three workers, with one worker, and with one worker on SQLite, each with 250 jobs per
transaction.

"""


def render(
    rounds: Rounds,
    profiles: Mapping[str, Mapping[str, float]],
    histories: Mapping[str, Mapping[str, float]],
    shares: Mapping[str, Sequence[Figure]],
    service: Mapping[str, Sequence[Figure]],
) -> str:
    def middle(*path: str | int) -> float:
        return statistics.median(_at(figures, path) for figures in rounds)

    head = _HEAD.format(rounds=len(rounds), machine=machine(), versions=versions(_PACKAGES))
    return head + "\n".join(
        (
            _lives(middle),
            _batches(middle),
            _enqueue(middle),
            _idle(middle),
            _history(histories),
            _fair_share(shares),
            _profile(profiles),
            _service(service),
        )
    )


def _lives(middle: Any) -> str:
    plain, hundred = "workers=1 concurrency=1", "workers=1 batch_size=100"
    theirs = {
        "procrastinate, one worker, default settings": ("procrastinate", "processed", "by_setup", plain),
        "procrastinate, best of every setup tried": ("procrastinate", "processed", "per_second"),
        "PgQueuer, one worker, batch 100": ("pgqueuer", "processed", "by_setup", hundred),
        "PgQueuer, best of every setup tried": ("pgqueuer", "processed", "per_second"),
    }
    crews = ("postgres", "postgres, one worker", "sqlite")
    postgres, one, sqlite = (middle(crew, BATCHES[-1], "processed_per_second") for crew in crews)
    lines = ["| | jobs/s | Euterpe on Postgres | with one worker | on SQLite |", "|---|---:|---:|---:|---:|"]
    for name, path in theirs.items():
        rate = middle(*path)
        ratios = " | ".join(f"{ours / rate:.2f} ×" for ours in (postgres, one, sqlite))
        lines.append(f"| {name} | {rate:,.0f} | {ratios} |")
    for crew, rate in zip(crews, (postgres, one, sqlite), strict=True):
        lives = middle(crew, BATCHES[-1], "lives_per_second")
        lines.append(f"| **Euterpe, {crew}**, processed | **{rate:,.0f}** | | | |")
        lines.append(f"| Euterpe, {crew}, whole lives with their enqueue | {lives:,.0f} | | | |")
    targets = "Targets: Postgres ≥ 10 × procrastinate with default settings, and ≥ 0.25 × PgQueuer."
    return "\n".join([*lines, "", targets, ""])


def _batches(middle: Any) -> str:
    lines = [
        "Jobs processed per second, by the number of jobs in one transaction (target: SQLite ≥ Postgres).",
        "Postgres uses both cores. SQLite has only one writer, but needs no round trips.",
        "",
        "| jobs | Postgres, one worker | Postgres, three | SQLite, one | SQLite to three on Postgres |",
        "|---:|---:|---:|---:|---:|",
    ]
    for batch in BATCHES:
        one, three, lite = (
            middle(crew, batch, "processed_per_second")
            for crew in ("postgres, one worker", "postgres", "sqlite")
        )
        lines.append(f"| {batch} | {one:,.0f} | {three:,.0f} | {lite:,.0f} | {lite / three:.2f} × |")
    return "\n".join([*lines, ""])


def _enqueue(middle: Any) -> str:
    theirs = middle("procrastinate", "enqueued", "per_second")
    other = middle("pgqueuer", "enqueued", "per_second")
    lines = [
        "## Enqueue",
        "",
        "64 concurrent callers enqueue one job per call. Each call returns after its commit.",
        "",
        "| | jobs/s | ratio to procrastinate's concurrent defer (target ≥ 2) |",
        "|---|---:|---:|",
        f"| procrastinate, best pool | {theirs:,.0f} | 1 |",
        f"| PgQueuer, best pool | {other:,.0f} | {other / theirs:.2f} |",
    ]
    for engine in ("postgres", "sqlite"):
        rate = middle(engine, "enqueued_per_second")
        lines.append(f"| Euterpe, {engine} | {rate:,.0f} | {rate / theirs:.2f} |")
    return "\n".join([*lines, ""])


def _idle(middle: Any) -> str:
    lines = [
        "## Idle",
        "",
        "One idle worker. The time is from the enqueuing call to the claim that returns the job.",
        "",
        "| | p50 (target ≤ 20 ms) | p99 (≤ 100 ms) | cost of waiting (< 1 % of a core) |",
        "|---|---:|---:|---:|",
    ]
    for engine in ("postgres", "sqlite"):
        p50, p99 = (middle(engine, f"claimed_after_ms_{p}") for p in ("p50", "p99"))
        idle = middle(engine, "idle_percent_of_a_core")
        lines.append(f"| {engine} | {p50:.1f} ms | {p99:.1f} ms | {idle:.2f} % |")
    return "\n".join([*lines, ""])


def _history(histories: Mapping[str, Mapping[str, float]]) -> str:
    lines = [
        "## History and backlog",
        "",
        "Claims of one row alternate between a small database (1,000 waiting rows) and a large database",
        "(1,000,000 finished and 50,000 waiting rows). The target is p99 ≤ 1.5 ×.",
        "",
        "| | p50 small | p50 large | p99 small | p99 large | p99 ratio |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for engine, found in histories.items():
        for queue in ("inbox", "outbox"):
            p50, small, p50_large, large = (
                found[f"{queue}_{size}_{p}_ms"] for size in ("small", "large") for p in ("p50", "p99")
            )
            shown = " | ".join(f"{value:.2f} ms" for value in (p50, p50_large, small, large))
            lines.append(f"| {engine}, {queue} | {shown} | {large / small:.2f} |")
    return "\n".join([*lines, ""])


def _fair_share(found: Mapping[str, Sequence[Figure]]) -> str:
    lines = [
        "## Fair share",
        "",
        "A small requester submits jobs while a large requester has a backlog: ten slots and jobs of 20 s,",
        "simulated on the real store. *Bare* is the same store with jobs in the order of their enqueue.",
        "Each transaction enqueues 100 jobs of one requester. With ten requesters, the jobs of one claim",
        "are stored in ten different places, so each commit on SQLite writes more pages. This is the cost",
        "of fair shares.",
    ]
    return "\n".join([*lines, *_tables(found), ""])


def _profile(profiles: Mapping[str, Mapping[str, float]]) -> str:
    lines = [
        "## Where the time goes",
        "",
        "Microseconds of one worker per life, with batches of 100, measured in the worker: the time of a",
        "statement is the server's time plus the round trip. `Python` is the rest of the worker's time.",
    ]
    for engine, spent in profiles.items():
        whole = sum(spent.values())
        lines += ["", f"| {engine} | µs a life | share |", "|---|---:|---:|"]
        for what, micros in sorted(spent.items(), key=lambda item: -item[1]):
            if micros / whole >= 0.005:
                lines.append(f"| {what} | {micros:.1f} | {100 * micros / whole:.0f} % |")
    return "\n".join([*lines, ""])


def _service(found: Mapping[str, Sequence[Figure]]) -> str:
    lines = [
        "## The service",
        "",
        "Each program is compared with a bare program that does the same work in the same run, with the same",
        "database, receiver and number of threads. All figures, including ratios, are medians of the rounds.",
        "",
        "- *Bare* of the API: a Starlette handler on the same server that runs one INSERT of the body, or",
        "  one SELECT by key, in a thread. The API of Euterpe also authenticates, checks idempotency keys",
        "  and encrypts credentials. Both serve 64 connections.",
        "- *Bare* of webhooks: a loop around httpx, with as many threads as the dispatcher has.",
        "- Black holes: 10 % of 50 destinations accept connections and never answer. *Bare* is the same",
        "  load without black holes.",
        "- *Bare* of jobs: the same ffmpeg command on local files, run by `xargs -P` for the clips.",
    ]
    return "\n".join([*lines, *_tables(found), ""])


_ANALYTICS = """# Benchmarks of analytics

`ci/bench` writes this page; do not edit it. One run on one machine, with Spark on `local[2]`. Figures are
medians of the rounds, including the ratios. Histories come from `euterpe analytics synthesize`.

Machine: {machine}. Versions: {versions}.

- *Bare* of an ingest: one `COPY (SELECT …) TO STDOUT` of the same columns for each table. pyarrow reads the
  CSV and writes one Parquet file per table, without positions, days, a commit or a second process.
- *Bare* of new events: the same ingest into a lake that has only the position and no rows. Spark is already
  running for both sides.
- *Bare* of marts: the same facts and marts as SQL in DuckDB with two threads, on the same Parquet files.
  This SQL computes no p-values and no forecast. Memory is the peak of the sum over all processes.
"""


def render_analytics(found: Mapping[str, Sequence[Figure]]) -> str:
    packages = ("euterpe-transcode", "pyspark", "pyarrow", "duckdb", "pandas")
    head = _ANALYTICS.format(machine=machine(), versions=versions(packages))
    return "\n".join([head, *_tables(found)[1:], ""])


def _tables(found: Mapping[str, Sequence[Figure]]) -> list[str]:
    return [line for where, figures in found.items() for line in ("", *table(figures, name=where))]


def _at(figures: Any, path: Sequence[str | int]) -> float:
    for name in path:
        figures = figures[name]
    return float(figures)


def machine() -> str:
    models = [
        line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")
    ]
    return f"{len(models)} × {models[0].partition(':')[2].strip()}, Linux {platform.release()}"


def versions(packages: Sequence[str]) -> str:
    python = f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    return ", ".join([python, *(f"{name} {version(name)}" for name in packages)])
