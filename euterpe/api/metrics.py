"""Prometheus metrics: HTTP requests of this process, current queue depth, sandbox layers, released jobs."""

import time
from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from euterpe.api.thread_pool import StoreThreadPool
from euterpe.domain.errors import EuterpeError
from euterpe.domain.rows import BacklogRow

_log = structlog.get_logger(__name__)

_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_DEPTH_CACHED_S = 2.0
# Requesters choose queue names, so the number of series needs a limit.
_MOST_QUEUES = 200

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})
Backlog = Callable[[], list[BacklogRow]]
# A function that returns, by the name of the layer, whether the layer is in force. The function returns None
# if this process runs no worker.
SandboxLayers = Callable[[], Mapping[str, bool] | None]

# A function that returns how many jobs this process has released without a charge, by error code.
Releases = Callable[[], Mapping[str, int]]


class Metrics:
    def __init__(
        self, backlog: Backlog, pool: StoreThreadPool, sandbox_layers: SandboxLayers, releases: Releases
    ) -> None:
        self._pool = pool
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "euterpe_http_requests",
            "Responses by route, method and status; 499: the client disconnected first.",
            ("route", "method", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "euterpe_http_request_seconds",
            "Time until the response began, including the wait of long polls.",
            ("route",),
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self.waits = Gauge(
            "euterpe_http_waits", "Event streams and long polls open now.", registry=self._registry
        )
        self._registry.register(Depth(backlog))
        self._registry.register(SandboxIsolation(sandbox_layers))
        self._registry.register(ReleasedJobs(releases))
        self._children: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def count(self, route: str, method: str, status: int, seconds: float) -> None:
        # Clients can send any method name, and the registry would keep a series for each name for ever. So
        # unknown methods share the name `other`.
        method = method if method in _METHODS else "other"
        key = route, method, status
        child = self._children.get(key)
        if child is None:  # cache the child: looking up the labels takes longer than counting
            child = self._requests.labels(route, method, str(status)), self._seconds.labels(route)
            self._children[key] = child
        child[0].inc()
        child[1].observe(seconds)

    async def get(self, _: Request) -> Response:
        text = await self._pool.run(lambda: generate_latest(self._registry))
        return Response(text, media_type=CONTENT_TYPE_PLAIN_0_0_4)


class Depth(Collector):
    """The queue depth. Scrapes read the depth from the database at most every two seconds.

    If the database is unavailable, the scrape succeeds with `euterpe_database_up` 0.
    """

    def __init__(self, backlog: Backlog, clock: Callable[[], float] = time.monotonic) -> None:
        self._backlog, self._clock = backlog, clock
        self._rows: list[BacklogRow] | None = None
        self._valid_until = 0.0

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Yield nothing, so that a registry with `auto_describe` does not call `collect` on registration."""
        yield from ()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        if self._clock() >= self._valid_until:
            self._rows, self._valid_until = self._read_backlog(), self._clock() + _DEPTH_CACHED_S
        up = int(self._rows is not None)
        yield GaugeMetricFamily("euterpe_database_up", "Whether the database answers.", value=up)
        if self._rows is not None:
            depth = GaugeMetricFamily(
                "euterpe_jobs", "Unfinished jobs, by queue and lane.", labels=("queue", "lane")
            )
            for (queue, lane), jobs in _summed(self._rows).items():
                depth.add_metric((queue, lane), jobs)
            yield depth

    def _read_backlog(self) -> list[BacklogRow] | None:
        try:
            return self._backlog()
        except EuterpeError as error:
            _log.warning("backlog_unknown", code=error.code)
            return None


class SandboxIsolation(Collector):
    """The sandbox layers of this process's worker. A process without a worker has no such metric."""

    def __init__(self, layers: SandboxLayers) -> None:
        self._layers = layers

    def collect(self) -> Iterator[GaugeMetricFamily]:
        if (layers := self._layers()) is None:
            return
        isolated = GaugeMetricFamily(
            "euterpe_sandbox_isolated",
            "1 where a layer of the worker's sandbox holds, 0 where the kernel or the container refuses it.",
            labels=("from",),
        )
        for name, holds in layers.items():
            isolated.add_metric((name,), int(holds))
        yield isolated


class ReleasedJobs(Collector):
    """The jobs that workers of this process, or remote workers, released without a charge."""

    def __init__(self, releases: Releases) -> None:
        self._releases = releases

    def describe(self) -> Iterator[CounterMetricFamily]:
        """Yield nothing, so that a registry with `auto_describe` does not call `collect` on registration."""
        yield from ()

    def collect(self) -> Iterator[CounterMetricFamily]:
        released = CounterMetricFamily(
            "euterpe_releases", "Jobs that a worker released without a charge, by reason.", labels=("code",)
        )
        for code, count in self._releases().items():
            released.add_metric((str(code),), count)
        yield released


def _summed(rows: list[BacklogRow]) -> dict[tuple[str, str], int]:
    """Return the number of jobs by queue and lane.

    The 200 longest queues are listed by name. All other queues are added up as `(others)`.
    """
    lengths = Tally[str]()
    for row in rows:
        lengths[row.queue] += row.jobs
    named = {queue for queue, _ in lengths.most_common(_MOST_QUEUES)}
    depth = Tally[tuple[str, str]]()
    for row in rows:
        depth[row.queue if row.queue in named else "(others)", row.lane] += row.jobs
    return depth
