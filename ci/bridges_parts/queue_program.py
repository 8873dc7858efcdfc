"""Publish jobs to a queue, then reserve and ack them, and print the seconds of each of the two phases.

The program measures `euterpe.queue` or OmniQ's client with the same calls. OmniQ's client is installed in a
separate virtual environment. So apart from the measured client, this program imports only the standard
library.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

_QUEUE = "bench"


def main() -> None:
    kind, address, name, jobs, threads = sys.argv[1:]
    with client_of(kind, address) as client:
        drive(client, name, int(jobs), int(threads))


def client_of(kind: str, address: str) -> Any:
    if kind == "omniq":
        from omniq.client import OmniqClient  # type: ignore[import-not-found]  # noqa: PLC0415

        return OmniqClient(host="127.0.0.1", port=int(address))
    from euterpe.queue import Queue  # noqa: PLC0415

    return Queue(address)


def drive(client: Any, name: str, jobs: int, threads: int) -> None:
    """Wait for a line before each phase, so that all programs begin at the same time.

    Before the measurement, publish and consume a few jobs on a separate queue. This warm-up opens the
    connections, and compiles or loads what a call needs.
    """
    for phase in (publish, consume):
        in_threads(phase, client, name, f"warm-{name}".replace(" ", "-"), threads, threads)
    for phase in (publish, consume):
        print("ready", flush=True)  # noqa: T201
        sys.stdin.readline()
        print(in_threads(phase, client, name, _QUEUE, jobs, threads), flush=True)  # noqa: T201


def in_threads(phase: Any, client: Any, name: str, queue: str, jobs: int, threads: int) -> float:  # noqa: PLR0917
    """Run a phase in all threads, and return its seconds."""
    began = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(
            pool.map(lambda number: phase(client, queue, f"{name} {number}", jobs // threads), range(threads))
        )
    return time.perf_counter() - began


def publish(client: Any, queue: str, name: str, jobs: int) -> None:
    for number in range(jobs):
        client.publish(queue=queue, payload={"program": name, "number": number}, timeout_ms=600_000)


def consume(client: Any, queue: str, _: str, jobs: int) -> None:
    for _ in range(jobs):
        while (job := client.reserve(queue=queue)) is None:
            pass
        client.ack_success(queue=queue, job_id=job.job_id, lease_token=job.lease_token)


if __name__ == "__main__":
    main()
