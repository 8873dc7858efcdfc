"""Run jobs that do nothing with OmniQ's own consumer, and print the jobs per second.

This program runs in the virtual environment of OmniQ's client, and imports nothing of Euterpe.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

from omniq import OmniqClient


def main() -> None:
    port, jobs = int(sys.argv[1]), int(sys.argv[2])
    client = OmniqClient(host="127.0.0.1", port=port)
    for number in range(jobs):
        client.publish(queue="bench", payload={"n": number})
    left = jobs

    def handle(_: Any) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGTERM)  # the consumer ends after this job

    began = time.perf_counter()
    client.consume(queue="bench", handler=handle)
    print(jobs / (time.perf_counter() - began))  # noqa: T201


main()
