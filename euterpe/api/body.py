"""Read a JSON request body, limited in size and time."""

import asyncio

from starlette.requests import Request

from euterpe.api.problems import Refused

_SLOWEST_S = 30.0


async def read_json_bytes(request: Request, max_bytes: int) -> bytes:
    """Return the raw body. Raise Refused if it is not declared as JSON, too large or too slow."""
    _require_json(request)
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared[:20]) > max_bytes:
        raise _too_large(max_bytes)
    read = bytearray()
    try:
        async with asyncio.timeout(_SLOWEST_S):
            async for chunk in request.stream():
                read += chunk
                if len(read) > max_bytes:
                    raise _too_large(max_bytes)
    except TimeoutError:
        raise Refused("body_timeout", "the body did not arrive in time", headers=_CLOSE) from None
    return bytes(read)


_CLOSE = {"connection": "close"}  # the rest of the body is not read


def _too_large(max_bytes: int) -> Refused:
    return Refused("request_too_large", f"the body may take at most {max_bytes} bytes", headers=_CLOSE)


def _require_json(request: Request) -> None:
    kind, _, parameters = request.headers.get("content-type", "").partition(";")
    charset = parameters.strip().lower().replace('"', "")
    plain = request.headers.get("content-encoding", "identity").strip().lower() == "identity"
    if kind.strip().lower() != "application/json" or charset not in ("", "charset=utf-8") or not plain:
        raise Refused("unsupported_media_type", "the body must be application/json in UTF-8, not compressed")
