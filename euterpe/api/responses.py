"""Successful responses: compact JSON, with an ETag computed from the body."""

import json
from collections.abc import Mapping
from hashlib import blake2b

from starlette.requests import Request
from starlette.responses import Response

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


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
    """Return the body, or 304 if the client has it already."""
    headers = {"etag": etag, "cache-control": "private, no-cache"}
    if etag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type="application/json")
