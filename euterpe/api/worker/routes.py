"""The routes of remote workers."""

from starlette.routing import Route

from euterpe.api.service import Service
from euterpe.api.worker.call import worker_endpoint
from euterpe.api.worker.claims import ClaimEndpoint
from euterpe.api.worker.reports import ReportEndpoints
from euterpe.api.worker.secrets import SecretEndpoints
from euterpe.api.worker.service import RemoteWorkers

PREFIX = "/internal/worker/"


def worker_routes(service: Service, workers: RemoteWorkers) -> list[Route]:
    reports, secrets = ReportEndpoints(service, workers), SecretEndpoints(service, workers)
    handlers = {
        "claim": ClaimEndpoint(service, workers).claim,
        "heartbeat": reports.heartbeat,
        "advance": reports.advance,
        "complete": reports.complete,
        "fail": reports.fail,
        "release": reports.release,
        "credentials": secrets.credentials,
        "refresh": secrets.refresh,
        "rival": secrets.rival,
    }
    return [
        Route(PREFIX + name, worker_endpoint(service, handle), methods=["POST"])
        for name, handle in handlers.items()
    ]
