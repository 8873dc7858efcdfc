"""Run the part of ci/bench for remote workers.

The arguments select parts. The page is written only if all parts run. With `--quick`, a small fleet runs for
a few seconds, to check the benchmark itself.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ci.bench_parts import Bench, Part
from ci.workers_parts import claims, clips, restarts
from ci.workers_parts.sizes import QUICK, WHOLE, Sizes

_PAGE = Path("docs/benchmarks-workers.md")
_PACKAGES = ("euterpe-transcode", "SQLAlchemy", "psycopg", "uvicorn")
_HEAD = """# Benchmarks of remote workers

`ci/bench workers` writes this page; do not edit it. One run on one machine: 1,000 simulated workers in one
process call the API over loopback, each with a key of its own; the database is Postgres 18 with its defaults
(fsync and synchronous_commit on). A simulated worker has one slot and sends the calls of the
[contract](contract-workers.md) that every worker needs: claim (a long poll of 25 s), a heartbeat every 15 s
at most, and complete. In place of the work it waits for a drawn time. API, Postgres, the workers and the
process that enqueues share the cores, so latencies are upper bounds. CPU seconds are those of the kernel's
accounting.

Machine: {machine}. Versions: {versions}.
"""


PARTS: Mapping[str, Part[Sizes]] = {
    "idle": Part(
        "Claims of an idle fleet",
        "10 jobs a second at random times, of half a second on average. The time is from the enqueuing call "
        "to the answer of the claim, so it contains the commit of the job.",
        claims.measure_idle,
    ),
    "busy": Part(
        "Claims of a busy fleet",
        "100 jobs a second at random times, whose length is exponential with a mean of 6 s. Transactions "
        "are all commits of the database (`xact_commit`), with those of the enqueue, of the keys and of the "
        "sweeps. Requests are answered calls of workers. *Bare* of two API processes is one process.",
        claims.measure_busy,
    ),
    "waiting": Part(
        "A waiting fleet",
        "All workers wait and no job comes. The claims are counted in the log of Postgres, which logs all "
        "statements in this part only.",
        claims.measure_waiting,
    ),
    "restarts": Part(
        "The API is restarted",
        "20 jobs a second of 3 s. The API ends by the signal and is started again at once on the same port. "
        "A failed call is repeated after a random part of 0.5 s, which doubles up to 2 s (30 s for our own "
        "workers), so that all workers come back at once.",
        restarts.measure_restarts,
    ),
    "clips": Part(
        "A remote worker and a local worker",
        "`euterpe worker` with as many slots as cores encodes copies of one clip of 720p, from S3 to S3 "
        "(`rclone serve s3`). *Bare* is the local worker, on the same database. Each has two turns.",
        clips.measure_clips,
    ),
}


BENCH = Bench(_PAGE, _HEAD, _PACKAGES, PARTS, whole=WHOLE, quick=QUICK)

if __name__ == "__main__":
    os.environ.pop("EUTERPE_DATABASE_URL", None)
    BENCH.main()
