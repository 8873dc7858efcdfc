"""The shared code of the benchmarks of peers: other queues that are compared with Euterpe.

`python -m ci.peers.NAME URI` measures one peer on an empty database, in a separate process with its own event
loop. The command prints one line of JSON with the versions. For `processed` and `enqueued`, the line also has
the best rate per second, the setup with this rate, and the rate of every setup.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from importlib.metadata import version

import uvloop

Rates = dict[str, float]
Measure = Callable[[str, int], Coroutine[None, None, Rates]]

BULK = 1_000
CALLERS = 64


@dataclass(frozen=True)
class Peer:
    """A queue to compare with Euterpe. `processed` and `enqueued` return the jobs per second by setup."""

    packages: tuple[str, ...]
    processed: Measure
    processed_jobs: int
    enqueued: Measure
    enqueued_jobs: int = 8_192


async def calls_per_second(call: Callable[[], Awaitable[object]], calls: int) -> float:
    """Return the calls per second of CALLERS concurrent callers, each of which makes one call at a time."""
    share = calls // CALLERS

    async def caller() -> None:
        for _ in range(share):
            await call()

    started = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    return share * CALLERS / (time.perf_counter() - started)


def require(found: int, expected: int, what: str) -> None:
    """Raise `RuntimeError` if `found` differs from `expected`, because then the measured rate is wrong."""
    if found != expected:
        raise RuntimeError(f"{found} {what}, expected {expected}: the rate would be wrong")


def main(peer: Peer) -> None:
    arguments = argparse.ArgumentParser(description="Measure one peer; print one line of JSON.")
    arguments.add_argument("uri", help="libpq URI of an empty database")
    arguments.add_argument("--processed-jobs", type=int, default=peer.processed_jobs)
    arguments.add_argument("--enqueued-jobs", type=int, default=peer.enqueued_jobs)
    asked = arguments.parse_args()
    figures = {
        "peer": peer.packages[0],
        "versions": {package: version(package) for package in (*peer.packages, "uvloop")},
        "processed": _best(uvloop.run(peer.processed(asked.uri, asked.processed_jobs))),
        "enqueued": _best(uvloop.run(peer.enqueued(asked.uri, asked.enqueued_jobs))),
    }
    sys.stdout.write(json.dumps(figures) + "\n")


def _best(rates: Rates) -> dict[str, object]:
    setup = max(rates, key=rates.__getitem__)
    by_setup = {name: round(rate, 1) for name, rate in rates.items()}
    return {"per_second": by_setup[setup], "setup": setup, "by_setup": by_setup}
