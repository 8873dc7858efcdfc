"""The httpx configuration of both clients, and conversion between httpx types and the client's types."""

import platform
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx

import euterpe
from euterpe.client.errors import ClientError, Unreachable
from euterpe.client.requests import ApiRequest, ApiResponse
from euterpe.crypto import apikeys

OnOutage = Callable[[ClientError], object]

_CONNECT_TIMEOUT_S = 10.0
# Idle connections expire earlier here than on usual servers (uvicorn: 5 s), so that no request uses a
# connection that the server is closing.
_LIMITS = httpx.Limits(keepalive_expiry=3.0)
# These errors mean that the request was not sent.
_UNDONE = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


def options(url: str, api_key: str) -> Mapping[str, Any]:
    """Return the arguments of an httpx client. Raise MalformedApiKey for a key with a wrong checksum."""
    apikeys.parse(api_key)
    _check(url)
    agent = f"euterpe-client/{euterpe.__version__} python/{platform.python_version()}"
    return {
        "base_url": url,
        "headers": {"authorization": f"Bearer {api_key}", "user-agent": agent},
        "follow_redirects": False,  # the key must not go to another server
        "limits": _LIMITS,
    }


def _check(url: str) -> None:
    try:
        httpx.URL(url)
        parts = urlsplit(url)
        port = parts.port
    except (httpx.InvalidURL, ValueError) as error:
        raise ValueError(f"url must be a valid URL: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or "@" in parts.netloc:
        raise ValueError("url must be http:// or https:// and a host, without a user name or password")
    if parts.query or parts.fragment:
        raise ValueError("url must have no query and no fragment")


def request(call: ApiRequest) -> Mapping[str, Any]:
    """Return the arguments of `httpx.Client.request` or `stream`."""
    return {
        "method": call.method,
        "url": call.path,
        "params": list(call.query),
        "headers": call.headers,
        "content": call.body,
        "timeout": httpx.Timeout(call.timeout_s, connect=_CONNECT_TIMEOUT_S),
    }


def answer_of(response: httpx.Response) -> ApiResponse:
    return ApiResponse(response.status_code, response.headers, response.content)


def is_stream(response: httpx.Response) -> bool:
    kind = response.headers.get("content-type", "")
    return response.status_code == 200 and kind.partition(";")[0].strip() == "text/event-stream"


def unreachable(error: httpx.RequestError) -> Unreachable:
    host = error.request.url.netloc.decode("ascii")
    reason = str(error) or type(error).__name__  # the text of a timeout error is empty
    return Unreachable(f"no answer from {host}: {reason}", not_applied=isinstance(error, _UNDONE))
