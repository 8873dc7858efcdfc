"""Measure the bridge to BullMQ, and BullMQ's own worker in Node on the same Redis.

Run it alone with `python -m ci.bridges_parts.bullmq_bridge`.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ci.bridges_parts.noop_jobs import CONCURRENCY, SOURCE, figures_of_bridge
from euterpe.bench.figures import Figure
from tests.bridges.node_producer import NodeProducer, producing
from tests.node import run_node
from tests.redis_server import running_redis

_WORKER = Path(__file__).with_name("noop_worker.js")


class BullMqQueue:
    def __init__(self, producer: NodeProducer) -> None:
        self._producer, self._added, self._last = producer, 0, ""

    def add(self, count: int) -> None:
        self._last = self._producer.add_all([("transcode", {"source": SOURCE}, {})] * count)[-1]
        self._added += count

    def is_empty(self) -> bool:
        return self._producer.count("completed") >= self._added

    def added_ms(self) -> float:
        return float((self._producer.job(self._last) or {})["timestamp"])


def measure(jobs: int, latencies: int) -> Sequence[Figure]:
    with tempfile.TemporaryDirectory() as folder, running_redis(Path(folder)) as redis:
        own = json.loads(run_node(_WORKER, str(jobs), str(CONCURRENCY), env={"VIDEOS_URL": redis.url}))
        with producing(redis.url) as producer:
            return figures_of_bridge(
                Path(folder),
                redis.url,
                BullMqQueue(producer),
                jobs=jobs,
                latencies=latencies,
                own_per_second=own["per_second"],
            )


if __name__ == "__main__":
    for figure in measure(2_000, 100):
        print(json.dumps(figure.document()))  # noqa: T201
