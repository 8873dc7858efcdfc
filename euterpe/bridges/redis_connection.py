"""Connections to a foreign Redis, limited in number and in time. Their errors quote no values."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import redis
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, AuthorizationError, NoPermissionError, RedisError
from redis.retry import Retry as BlockingRetry

from euterpe.bridges.adapter import BridgeError, ForeignUnavailable

ANSWER_S = 5.0
_SCHEMES = ("redis", "rediss", "unix")
REFUSED = (AuthenticationError, AuthorizationError, NoPermissionError)


def connect(url: str, *, connections: int, answer_s: float = ANSWER_S) -> Redis:
    """Return a client with at most `connections` connections. The client opens each connection on demand.

    Raise `BridgeError` if the URL is not a Redis URL. A call without an answer within `answer_s` fails. The
    client repeats no call, because only the caller knows whether a repeat is safe.
    """
    try:
        pool = BlockingConnectionPool.from_url(
            url, retry=Retry(NoBackoff(), 0), **_options(url, connections, answer_s)
        )
    except ValueError:
        raise _malformed(url) from None  # the text of the error may contain a part of the password
    return Redis.from_pool(pool)


def connect_blocking(url: str, *, connections: int, answer_s: float = ANSWER_S) -> redis.Redis:
    """Return a client like that of `connect`, but with blocking calls, for use in threads."""
    try:
        pool = redis.BlockingConnectionPool.from_url(
            url, retry=BlockingRetry(NoBackoff(), 0), **_options(url, connections, answer_s)
        )
    except ValueError:
        raise _malformed(url) from None  # the text of the error may contain a part of the password
    return redis.Redis.from_pool(pool)


def _options(url: str, connections: int, answer_s: float) -> dict[str, Any]:
    scheme = urlsplit(url).scheme
    if scheme not in _SCHEMES:
        raise BridgeError("the address of Redis must begin with redis://, rediss:// or unix://")
    return {
        **({} if scheme == "unix" else {"socket_keepalive": True}),  # only TCP has keepalives
        "max_connections": connections,
        "timeout": answer_s,  # the longest wait for a free connection
        "socket_timeout": answer_s,
        "socket_connect_timeout": answer_s,
        "decode_responses": True,
        "encoding_errors": "replace",  # a producer's text that is not UTF-8 must not stop the bridge
        "protocol": 2,
    }


def _malformed(url: str) -> BridgeError:
    return BridgeError(f"the address of Redis at {place_of(url)} is malformed")


def place_of(url: str) -> str:
    """Return host and port, or the path of the socket, without a password that the URL may contain."""
    try:
        parts = urlsplit(url)
    except ValueError:  # the text of this error contains the password
        return "an address that is no URL"
    # An unescaped `@` or `/` in a password makes a part of the password look like the host.
    if url.count("@") > 1 or ("@" in url and "@" not in parts.netloc):
        return "an address whose password has unescaped characters"
    return parts.path if parts.scheme == "unix" else parts.netloc.rpartition("@")[2]


@contextmanager
def redis_errors(place: str) -> Iterator[None]:
    """Turn errors of Redis into `ForeignUnavailable`, and a refused login into `BridgeError`."""
    try:
        yield
    except REFUSED as error:
        raise BridgeError(f"Redis at {place} refuses the login or a command: {word(error)}") from None
    except RedisError as error:
        raise ForeignUnavailable(f"Redis at {place} did not do its work: {word(error)}") from error


def word(error: Exception) -> str:
    """Return the class of an error and the first word of its text. The other words may contain values."""
    code = str(error).partition(" ")[0]
    return f"{type(error).__name__} {code}" if code.isupper() else type(error).__name__


async def require_single_server(client: Redis, place: str) -> None:
    """Raise `BridgeError` if Redis is too old, or is a cluster."""
    with redis_errors(place):
        check_server(await client.info("server"), place)


def check_server(info: Mapping[str, Any], place: str) -> None:
    """Raise `BridgeError` if the section `server` of INFO shows that Redis is too old or is a cluster."""
    version = tuple(int(part) for part in str(info["redis_version"]).split(".")[:2])
    if version < (6, 2):
        raise BridgeError(f"Redis at {place} has version {info['redis_version']}, and must have 6.2 or newer")
    if info.get("redis_mode") == "cluster":
        raise BridgeError(f"Redis at {place} is a cluster, where the keys of one job are on several servers")


def check_eviction(info: Mapping[str, Any], place: str) -> None:
    """Raise `BridgeError` if Redis removes keys when it is full, because it could remove the keys of jobs."""
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        raise BridgeError(
            f"Redis at {place} evicts jobs when it is full: set maxmemory-policy noeviction, not {policy}"
        )
