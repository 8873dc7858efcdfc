"""Read JSON request bodies, with limits on size and time, and write JSON responses, with ETags."""

import asyncio
import json
from collections.abc import Mapping
from hashlib import blake2b

from starlette.requests import Request
from starlette.responses import Response

from euterpe.api.problems import ProblemCode, Refused

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


async def read_json_bytes(request: Request, max_bytes: int, timeout_s: float) -> bytes:
    """Return the raw body. Raise Refused for a body that is too large, too slow or not declared as JSON."""
    _require_json(request)
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared[:20]) > max_bytes:
        raise _too_large(max_bytes)
    read = bytearray()
    try:
        async with asyncio.timeout(timeout_s):
            async for chunk in request.stream():
                read += chunk
                if len(read) > max_bytes:
                    raise _too_large(max_bytes)
    except TimeoutError:
        raise Refused(ProblemCode.BODY_TIMEOUT, "the body did not arrive in time", headers=_CLOSE) from None
    return bytes(read)


_CLOSE = {"connection": "close"}  # close the connection, because the rest of the body is not read


def _too_large(max_bytes: int) -> Refused:
    return Refused(
        ProblemCode.REQUEST_TOO_LARGE, f"the body may take at most {max_bytes} bytes", headers=_CLOSE
    )


def _require_json(request: Request) -> None:
    kind, _, parameters = request.headers.get("content-type", "").partition(";")
    charset = parameters.strip().lower().replace('"', "")
    plain = request.headers.get("content-encoding", "identity").strip().lower() == "identity"
    if kind.strip().lower() != "application/json" or charset not in ("", "charset=utf-8") or not plain:
        raise Refused(
            ProblemCode.UNSUPPORTED_MEDIA_TYPE, "the body must be application/json in UTF-8, not compressed"
        )


def json_response(document: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(encoded(document), status, headers, media_type="application/json")


def encoded(document: object) -> bytes:
    return _encode(document).encode()


def etag_of(body: bytes) -> str:
    return f'"{blake2b(body, digest_size=12).hexdigest()}"'


def known_etags(request: Request) -> frozenset[str]:
    """Return the ETags in `If-None-Match`, without the prefix `W/` of weak ETags."""
    given = ",".join(request.headers.getlist("if-none-match"))
    return frozenset(tag.strip().removeprefix("W/") for tag in given.split(",") if tag.strip())


def etag_response(body: bytes, etag: str, known: frozenset[str]) -> Response:
    """Return a response with the body, or a 304 if the client already has the body."""
    headers = {"etag": etag, "cache-control": "private, no-cache"}
    if etag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type="application/json")
