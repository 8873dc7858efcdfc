"""Build the Starlette app: routes, middleware, error handlers and lifespan."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import Route

from euterpe.api.backpressure import ApiLimits
from euterpe.api.control import ControlEndpoints
from euterpe.api.docs_page import docs_routes
from euterpe.api.enqueue import EnqueueEndpoint
from euterpe.api.health import HealthEndpoints
from euterpe.api.listing import JobsEndpoint, ProfilesEndpoint
from euterpe.api.metrics import SandboxLayers
from euterpe.api.middleware import RequestMiddleware
from euterpe.api.problems import answer_known_error, answer_routing_error
from euterpe.api.service import DEFAULT_TIMINGS, ApiTimings, DryRun, Service, SpecPolicy, new_service
from euterpe.api.sse import EventsEndpoint
from euterpe.api.status import StatusEndpoint
from euterpe.api.worker.routes import worker_routes
from euterpe.api.worker.service import RemoteWorkers, WorkerSettings
from euterpe.domain.errors import EuterpeError
from euterpe.domain.profiles import Profiles, built_in_profiles
from euterpe.domain.storage_profiles import StorageProfiles
from euterpe.net.policy import EgressPolicy
from euterpe.store.store import Store

DEFAULT_WORKERS = WorkerSettings()


def create_app(
    store: Store,
    limits: ApiLimits,
    policy: SpecPolicy,
    egress: EgressPolicy,
    *,
    profiles: Profiles | None = None,
    storage_profiles: StorageProfiles | None = None,
    sandbox_layers: SandboxLayers = lambda: None,
    dry_run: DryRun | None = None,
    timings: ApiTimings = DEFAULT_TIMINGS,
    workers: WorkerSettings = DEFAULT_WORKERS,
) -> Starlette:
    """Return the HTTP API over an open store, which the caller closes.

    `profiles` are the profiles that a job can name, by default the built-in ones. Without `dry_run`, the API
    answers 503 to dry runs.

    `app.state.end_waits()` ends all event streams and long polls, including those of remote workers. Any
    thread may call `end_waits`. Call `end_waits` before the server waits for its connections to end, because
    a stream may last for an hour.
    """
    service = new_service(
        store,
        limits,
        policy,
        egress,
        profiles=built_in_profiles() if profiles is None else profiles,
        storage_profiles=storage_profiles or {},
        sandbox_layers=sandbox_layers,
        dry_run=dry_run,
        timings=timings,
    )
    remote = RemoteWorkers(store, egress, workers)
    routes = [*_routes(service), *worker_routes(service, remote)]

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        service.watcher.start()
        remote.start()
        try:
            yield
        finally:
            service.watcher.stop()
            remote.stop()
            service.read_pool.stop()
            service.write_pool.stop()
            service.sealing_pool.stop()
            service.dry_run_pool.stop()

    paths = {route.endpoint: route.path for route in routes}
    app = Starlette(
        routes=routes,
        middleware=[Middleware(RequestMiddleware, paths, service.metrics)],
        exception_handlers={HTTPException: answer_routing_error, EuterpeError: answer_known_error},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False

    def end_waits() -> None:
        remote.end_waits()
        service.watcher.end_all()

    app.state.end_waits = end_waits
    return app


def _routes(service: Service) -> list[Route]:
    controls, health = ControlEndpoints(service), HealthEndpoints(service)
    events = Route("/transcode/{job_id}/events", EventsEndpoint(service).get)
    events.methods = {"GET"}  # Starlette adds HEAD to GET, but a HEAD request would start the stream
    return [
        Route("/transcode", EnqueueEndpoint(service).post, methods=["POST"]),
        Route("/transcode/status", StatusEndpoint(service).get),
        Route("/transcode/jobs", JobsEndpoint(service).get),
        Route("/transcode/profiles", ProfilesEndpoint(service).get),
        events,
        Route("/transcode/{job_id}/cancel", controls.cancel, methods=["POST"]),
        Route("/transcode/{job_id}/retry", controls.retry, methods=["POST"]),
        Route("/transcode/{job_id}/credentials", controls.put_credentials, methods=["PUT"]),
        Route("/healthz", health.alive),
        Route("/readyz", health.ready),
        Route("/metrics", service.metrics.get),
        *docs_routes(service.limits),
    ]
