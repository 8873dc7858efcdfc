"""Error responses of the gateway: `{"detail": {"code": …, "message": …, "details": …}}`."""

import json
from collections.abc import Mapping

import structlog
from redis.exceptions import RedisError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from euterpe.bridges.redis_connection import word
from euterpe.domain.errors import EuterpeError

_log = structlog.get_logger(__name__)
_RETRY_S = "2"


class GatewayRefusal(EuterpeError):
    """Raised to refuse a request."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        details: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.details, self.headers = status, code, details, headers


def not_found(job_id: str) -> GatewayRefusal:
    return GatewayRefusal(404, "not_found", "Job not found", {"job_id": job_id})


def problem(
    status: int, code: str, message: str, details: object = None, headers: Mapping[str, str] | None = None
) -> Response:
    detail = {"code": code, "message": message, "details": {} if details is None else details}
    body = json.dumps({"detail": detail}, ensure_ascii=False).encode()
    return Response(body, status, headers, media_type="application/json")


async def answer_refusal(_: Request, error: Exception) -> Response:
    assert isinstance(error, GatewayRefusal)  # noqa: S101  the handler is registered for this type
    return problem(error.status, error.code, str(error), error.details, error.headers)


async def answer_outage(_: Request, error: Exception) -> Response:
    """Answer 503. The error of Redis is only logged, without the values that it may contain."""
    assert isinstance(error, RedisError)  # noqa: S101  the handler is registered for this type
    _log.warning("redis_unavailable", error=word(error))
    headers = {"retry-after": _RETRY_S}
    return problem(503, "redis_unavailable", "Redis does not answer right now; try again", headers=headers)


async def answer_routing_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101  the handler is registered for this type
    code = "method_not_allowed" if error.status_code == 405 else "not_found"
    return problem(error.status_code, code, error.detail, headers=error.headers)
