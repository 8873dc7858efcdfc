"""ASGI middleware of the gateway: default headers, log, metrics, and a 500 for unhandled exceptions."""

import re
import time
import traceback
from ipaddress import ip_address

import structlog
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from euterpe.gateway.metrics import GatewayMetrics
from euterpe.gateway.problems import problem

_log = structlog.get_logger(__name__)
_HOST = re.compile(r"(\[(?P<address>[^][]+)]|(?P<name>[^][:]+))(:[0-9]*)?")
_CLIENT_LEFT = 499
_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
)


class GatewayMiddleware:
    """The only middleware. With `checks_host`, requests are refused if their `Host` is not a loopback host.

    A gateway without keys trusts all programs on its machine. A web page must not reach such a gateway
    through a host name that resolves to the loopback address (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, *, metrics: GatewayMetrics, checks_host: bool) -> None:
        self._app, self._metrics, self._checks_host = app, metrics, checks_host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                given = {name for name, _ in message["headers"]}
                usual = (pair for pair in _HEADERS if pair[0] not in given)
                message["headers"] = [*message["headers"], *usual]
            await send(message)

        app = self._app
        if self._checks_host and not is_loopback(_host_of(scope)):
            app = problem(
                421, "wrong_host", "this gateway asks for no keys, so it answers to loopback addresses only"
            )
        try:
            await app(scope, receive, send_with_headers)
        except ClientDisconnect:
            pass
        except Exception:
            _log.error("gateway_request_failed", traceback=traceback.format_exc())
            if status:
                raise  # the response has begun: the server closes the connection
            await problem(500, "internal", "an internal error occurred")(scope, receive, send_with_headers)
        finally:
            route = getattr(scope.get("endpoint"), "__qualname__", "unmatched")
            status = status or _CLIENT_LEFT
            self._metrics.count(route, status)
            _log.info(
                "gateway_request",
                method=scope["method"],
                route=route,
                status=status,
                duration_ms=round((time.perf_counter() - began) * 1000, 1),
            )


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _host_of(scope: Scope) -> str:
    """Return the host without its port, or an empty text if the header `Host` is malformed."""
    given = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")
    found = _HOST.fullmatch(given)
    return (found["address"] or found["name"]).lower() if found else ""
