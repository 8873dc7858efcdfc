"""Publish a job with OmniQ's client, and print each state of the job. Only OmniQ's client is needed.

usage: python omniq_producer.py REDIS_PORT SOURCE_URL
"""

import sys
import time

from omniq import OmniqClient, QueueMonitor


def main() -> None:
    port, source = sys.argv[1:]
    omniq = OmniqClient(host="127.0.0.1", port=int(port))
    job_id = omniq.publish(
        queue="clips",
        payload={"type": "transcode", "source": source},
        max_attempts=3,
        timeout_ms=30_000,
    )
    state = "wait"
    while state not in ("completed", "failed"):
        time.sleep(0.1)
        job = QueueMonitor(omniq).get_job("clips", job_id)
        if job.state != state:
            state = job.state
            print(state, job_id)  # noqa: T201
    sys.exit(state != "completed")


main()
