"""Run the part of ci/bench for bridges, the gateway and the queue library.

The arguments name the parts to run; without names, all parts run. With `--quick`, each part handles only a
few jobs, to test this program. Only a run of all parts without `--quick` writes the page.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ci.bench_parts import Bench, Part
from ci.bridges_parts import bullmq_bridge, gateway, native_queue, omniq_bridge, streams_bridge

_PAGE = Path("docs/benchmarks-bridges.md")
_PACKAGES = ("euterpe-transcode", "SQLAlchemy", "redis")
_HEAD = """# Benchmarks of bridges

`ci/bench bridges` writes this page; do not edit it. One run on one machine, on which Redis, the producers,
the [bridges](bridges.md) and a thread in place of our workers share the cores. A job does nothing: its row is
claimed and completed at once. Redis has an append-only file with `everysec`, except where a part says
otherwise. The goal of a bridge is the smaller of 300 jobs/s and 0.8 of the foreign system's own worker. CPU
seconds are those of the kernel's accounting.

Machine: {machine}. Versions: {versions}.
"""


@dataclass(frozen=True)
class Sizes:
    jobs: int
    latencies: int
    clients: int  # SSE clients of the gateway
    seconds: float
    native_jobs: int
    rounds: int


WHOLE = Sizes(jobs=2_000, latencies=100, clients=500, seconds=10, native_jobs=400, rounds=3)
QUICK = Sizes(jobs=50, latencies=3, clients=20, seconds=1, native_jobs=16, rounds=1)


PARTS: Mapping[str, Part[Sizes]] = {
    "bullmq": Part(
        "The bridge to BullMQ",
        "The bridge holds up to 100 jobs, and BullMQ's own worker in Node has a concurrency of 100. All jobs "
        "are in the queue at the begin; a job has ended when the producer sees its event.",
        lambda _, sizes: bullmq_bridge.measure(sizes.jobs, sizes.latencies),
    ),
    "omniq": Part(
        "The bridge to OmniQ",
        "OmniQ's own worker is `consume` of its Python client, which runs one job at a time. OmniQ has no "
        "blocking reserve: the bridge asks every 10 ms while it waits.",
        lambda _, sizes: omniq_bridge.measure(sizes.jobs, sizes.latencies),
    ),
    "streams": Part(
        "The bridge to Redis Streams",
        "The system's own worker is a bare consumer, which writes the status and the event of each begin and "
        "each end, and acknowledges the message.",
        lambda _, sizes: streams_bridge.measure(sizes.jobs, sizes.latencies),
    ),
    "gateway": Part(
        "The event streams of the gateway",
        "100 events a second for 500 SSE clients, each of which watches a job of its own. The time is from "
        "XADD to the frame at the client, with the work of all clients in the same process.",
        lambda _, sizes: gateway.measure(sizes.clients, sizes.seconds),
    ),
    "native": Part(
        native_queue.TITLE,
        native_queue.METHOD,
        lambda databases, sizes: native_queue.measure_native_queue(
            databases, jobs=sizes.native_jobs, rounds=sizes.rounds
        ),
    ),
}


BENCH = Bench(_PAGE, _HEAD, _PACKAGES, PARTS, whole=WHOLE, quick=QUICK)

if __name__ == "__main__":
    os.environ.pop("EUTERPE_DATABASE_URL", None)
    BENCH.main()
