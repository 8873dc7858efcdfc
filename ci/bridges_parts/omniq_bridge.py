"""Measure the bridge to OmniQ, and OmniQ's own consumer on the same Redis.

OmniQ's consumer runs one job at a time. Run it alone with `python -m ci.bridges_parts.omniq_bridge`.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ci.bridges_parts.noop_jobs import SOURCE, figures_of_bridge
from euterpe.bench.figures import Figure
from tests.bridges.bridge_process import python_of
from tests.bridges.omniq_producer import OmniqProducer, producing
from tests.redis_server import RedisServer, running_redis

_CONSUMER = Path(__file__).with_name("omniq_noop.py")


class OmniqQueue:
    def __init__(self, producer: OmniqProducer, redis: RedisServer) -> None:
        self._producer, self._client, self._last = producer, redis.client(), ""

    def add(self, count: int) -> None:
        for _ in range(count):
            self._last = self._producer.publish({"type": "transcode", "source": SOURCE})

    def is_empty(self) -> bool:
        base = f"{{{self._producer.queue}}}"
        return not self._client.llen(f"{base}:wait") and not self._client.zcard(f"{base}:active")

    def added_ms(self) -> float:
        return float((self._producer.job(self._last) or {})["created_ms"])


def measure(jobs: int, latencies: int) -> Sequence[Figure]:
    with tempfile.TemporaryDirectory() as folder, running_redis(Path(folder)) as redis:
        command = [python_of("omniq"), str(_CONSUMER), str(redis.port), str(jobs)]
        own = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        with producing(redis.port) as producer:
            return figures_of_bridge(
                Path(folder),
                redis.url,
                OmniqQueue(producer, redis),
                jobs=jobs,
                latencies=latencies,
                own_per_second=float(own),
                kind="omniq",
            )


if __name__ == "__main__":
    for figure in measure(2_000, 100):
        print(json.dumps(figure.document()))  # noqa: T201
