"""ASGI middleware: request ids, default headers, request log, metrics, and a 500 for unhandled exceptions."""

import re
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any

import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from euterpe.api.metrics import Metrics
from euterpe.api.parameters import is_job_id
from euterpe.api.problems import internal_error

_log = structlog.get_logger(__name__)

_ACCEPTED_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_CLIENT_LEFT = 499
_UNMATCHED = "unmatched"
_DEBUG_LOGGED_ROUTES = ("/healthz", "/readyz", "/metrics")
# Default headers. If a response sets one of these headers itself, that value is sent instead of the default.
_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)


@dataclass
class RequestContext:
    request_id: str
    requester_id: str | None = None
    about: dict[str, object] = field(default_factory=dict)  # further fields of the log line
    status: int | None = None
    began: float = 0.0
    answered: float = 0.0


def context_of(request: Request) -> RequestContext:
    context: RequestContext = request.scope["euterpe.context"]
    return context


class RequestMiddleware:
    """The only middleware. It logs no query strings and no unmatched paths: these can contain API keys."""

    def __init__(self, app: ASGIApp, paths: Mapping[Callable[..., Any], str], metrics: Metrics) -> None:
        self._app, self._paths, self._metrics = app, paths, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        context = RequestContext(_request_id(scope), began=time.perf_counter())
        scope["euterpe.context"] = context
        request_id = (b"x-request-id", context.request_id.encode())

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                context.status, context.answered = message["status"], time.perf_counter()
                given = {name for name, _ in message["headers"]}
                usual = (pair for pair in _HEADERS if pair[0] not in given)
                # Build a new list, because several requests can share the response that owns the old list.
                message["headers"] = [*message["headers"], request_id, *usual]
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        except ClientDisconnect:
            pass
        except Exception:
            _log.error(  # the traceback is text: a rich traceback would show local variables
                "request_failed",
                request_id=context.request_id,
                requester_id=context.requester_id,
                traceback=traceback.format_exc(),
            )
            if context.status is not None:
                raise  # the response has begun: the server closes the connection
            await internal_error()(scope, receive, send_with_headers)
        finally:
            self._record(scope, context)

    def _record(self, scope: Scope, context: RequestContext) -> None:
        path = self._paths.get(scope.get("endpoint", None), _UNMATCHED)
        status = context.status or _CLIENT_LEFT
        now = time.perf_counter()
        self._metrics.count(path, scope["method"], status, (context.answered or now) - context.began)
        write = _log.debug if path in _DEBUG_LOGGED_ROUTES else _log.info
        write(
            "request",
            request_id=context.request_id,
            requester_id=context.requester_id,
            method=scope["method"],
            route=path,
            status=status,
            duration_ms=round((now - context.began) * 1000, 1),
            **_job_in(scope),
            **context.about,
        )


def _job_in(scope: Scope) -> dict[str, str]:
    job_id = scope.get("path_params", {}).get("job_id", "")
    return {"job_id": job_id} if is_job_id(job_id) else {}


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _ACCEPTED_ID.fullmatch(value):
            return str(value.decode())
    return token_hex(16)
