"""Build the Starlette app of the gateway: routes, middleware, error handlers and lifespan."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from redis.exceptions import RedisError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import Route

from euterpe.bridges.redis_connection import ANSWER_S, connect
from euterpe.bridges.stream_jobs import StreamQueue
from euterpe.bridges.stream_scripts import StreamScripts
from euterpe.gateway.event_hub import BLOCK_S, EventHub
from euterpe.gateway.events import StreamEventsEndpoint
from euterpe.gateway.jobs import StreamJobsEndpoint
from euterpe.gateway.metrics import GatewayMetrics
from euterpe.gateway.middleware import GatewayMiddleware
from euterpe.gateway.problems import GatewayRefusal, answer_outage, answer_refusal, answer_routing_error
from euterpe.gateway.service import Authenticate, Gateway, GatewayLimits, NoKeys

_CONNECTIONS = 2  # to Redis, in addition to the event hub's connection


def create_app(
    redis_url: str,
    *,
    limits: GatewayLimits | None = None,
    authenticate: Authenticate | None = None,
    queue: StreamQueue | None = None,
) -> Starlette:
    """Return the gateway. Without `authenticate`, it requires no API keys and serves only loopback addresses.

    `app.state.end_waits()` ends all event streams; any thread may call it.
    """
    limits = limits or GatewayLimits()
    client = connect(redis_url, connections=_CONNECTIONS)
    reader = connect(redis_url, connections=1, answer_s=BLOCK_S + ANSWER_S)
    hub = EventHub(
        reader,
        client,
        max_streams=limits.max_streams,
        max_of_requester=limits.share_of(limits.max_streams),
        check_every_s=limits.check_every_s,
    )
    scripts = StreamScripts(client, queue or StreamQueue())
    gateway = Gateway(client, scripts, hub, limits, authenticate or NoKeys())
    metrics = GatewayMetrics(client, hub)
    loops: list[asyncio.AbstractEventLoop] = []

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        loops.append(asyncio.get_running_loop())
        hub.start()
        try:
            yield
        finally:
            await hub.stop()
            await client.aclose()
            await reader.aclose()
            gateway.authenticate.stop()

    def end_waits() -> None:
        for loop in loops:
            with suppress(RuntimeError):  # the event loop is closed, so nothing waits
                loop.call_soon_threadsafe(hub.end_all)

    app = Starlette(
        routes=_routes(gateway, metrics),
        middleware=[Middleware(GatewayMiddleware, metrics=metrics, checks_host=authenticate is None)],
        exception_handlers={
            HTTPException: answer_routing_error,
            GatewayRefusal: answer_refusal,
            RedisError: answer_outage,
        },
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.end_waits = end_waits
    return app


def _routes(gateway: Gateway, metrics: GatewayMetrics) -> list[Route]:
    jobs = StreamJobsEndpoint(gateway)
    events = Route("/v1/jobs/{job_id}/events", StreamEventsEndpoint(gateway).get)
    events.methods = {"GET"}  # Starlette adds HEAD to GET, but a HEAD request would start the stream
    return [
        Route("/v1/jobs", jobs.post, methods=["POST"]),
        Route("/v1/jobs/{job_id}", jobs.get),
        events,
        Route("/v1/jobs/{job_id}/cancel", jobs.cancel, methods=["POST"]),
        Route("/health", jobs.health),
        Route("/metrics", metrics.get),
    ]
