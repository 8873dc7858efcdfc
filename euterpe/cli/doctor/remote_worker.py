"""The checks of a remote worker: its machine, its server, its key, and the versions of worker and server."""

import json
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from uuid import uuid4

import euterpe
from euterpe.cli.doctor.findings import CheckResult, DoctorFinding, check
from euterpe.cli.doctor.machine import examine_media, examine_reach
from euterpe.client import worker_answers, worker_calls
from euterpe.client.requests import ApiRequest
from euterpe.domain.leased_job import Unavailable
from euterpe.settings import Settings, worker_id
from euterpe.wiring.remote_worker import open_connection
from euterpe.worker.remote.server_connection import ServerConnection
from euterpe.worker.remote.server_errors import (
    AttemptOver,
    ProtocolNotSupported,
    ServerUnavailable,
    WorkerKeyRefused,
)

_TIMEOUT_S = 10.0


def examine(settings: Settings) -> Iterator[CheckResult]:
    yield from examine_media(settings)
    yield from examine_reach(settings)
    with closing(open_connection(settings, connections=1)) as server:
        # Each of these checks is useful only if the check before it has passed.
        for name, step in (
            ("server", partial(_server, server, settings)),
            ("worker key", partial(_key, server, settings)),
            ("versions", partial(_versions, server)),
        ):
            finding = check(name, step)
            yield finding
            if not finding.ok:
                return


def _server(server: ServerConnection, settings: Settings) -> str:
    try:
        server.send(ApiRequest("GET", "/healthz", timeout_s=_TIMEOUT_S))
    except Unavailable as error:
        raise DoctorFinding(
            f"{error}; start the server, or correct EUTERPE_SERVER ({settings.server})"
        ) from None
    return f"{settings.server} answers"


def _key(server: ServerConnection, settings: Settings) -> str:
    """Check the API key by releasing a claim that was never made.

    The release of an unknown claim changes nothing. The server refuses the release if the key lacks the scope
    `worker`.
    """
    call = worker_calls.release_claim(worker_id(), str(uuid4()))
    try:
        server.ask(call, worker_answers.accepted)
    except (WorkerKeyRefused, ProtocolNotSupported):
        raise
    except (ServerUnavailable, AttemptOver) as error:
        raise DoctorFinding(
            f"the server does not take the calls of workers: {error}; upgrade it, or correct EUTERPE_SERVER"
        ) from None
    return f"is accepted; the worker serves {', '.join(settings.worker_queues)}"


def _versions(server: ServerConnection) -> str:
    answer = server.send(ApiRequest("GET", "/openapi.json", timeout_s=_TIMEOUT_S))
    try:
        theirs = str(json.loads(answer.body)["info"]["version"])
    except (ValueError, KeyError, TypeError):
        theirs = "unknown"
    return f"Euterpe {euterpe.__version__} here, {theirs} on the server; protocol {worker_calls.PROTOCOL}"
