"""GET /metrics of the gateway: requests, open event streams, and whether Redis answers."""

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from redis.asyncio import Redis
from redis.exceptions import RedisError
from starlette.requests import Request
from starlette.responses import Response

from euterpe.gateway.event_hub import EventHub


class GatewayMetrics:
    def __init__(self, redis: Redis, hub: EventHub) -> None:
        self._redis, self._registry = redis, CollectorRegistry()
        self._requests = Counter(
            "euterpe_gateway_requests",
            "Responses by route and status; 499: the client disconnected first.",
            ("route", "status"),
            registry=self._registry,
        )
        self._redis_up = Gauge(
            "euterpe_gateway_redis_up", "1 if Redis answers, and 0 if not.", registry=self._registry
        )
        streams = Gauge("euterpe_gateway_event_streams", "Event streams open now.", registry=self._registry)
        streams.set_function(lambda: hub.open_streams)

    def count(self, route: str, status: int) -> None:
        self._requests.labels(route, str(status)).inc()

    async def get(self, _: Request) -> Response:
        try:
            await self._redis.ping()
        except RedisError:
            self._redis_up.set(0)
        else:
            self._redis_up.set(1)
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)
