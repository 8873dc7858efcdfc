"""Build the Redis job gateway from the settings. On a loopback address, it needs no database."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from secrets import token_hex

from starlette.requests import Request

from euterpe.api.auth import Authenticator
from euterpe.api.middleware import RequestContext
from euterpe.api.problems import ProblemCode
from euterpe.api.problems import Refused as RefusedByApi
from euterpe.api.server import ApiServer
from euterpe.api.thread_pool import StoreThreadPool
from euterpe.bridges.redis_connection import check_eviction, check_server, connect, place_of, redis_errors
from euterpe.domain.errors import EuterpeError
from euterpe.domain.scopes import Scope
from euterpe.gateway.app import create_app
from euterpe.gateway.middleware import is_loopback
from euterpe.gateway.problems import GatewayRefusal
from euterpe.gateway.service import GatewayLimits
from euterpe.settings import Settings
from euterpe.store.store import Store
from euterpe.wiring.database import LazyKeyProvider, open_store
from euterpe.wiring.services import PortTaken


class RunningGateway:
    """A gateway that answers requests."""

    is_stuck = False

    def __init__(self, url: str) -> None:
        self.url = url


class ApiKeys:
    """Authentication by the API keys of requesters, in the same way as in the HTTP API."""

    def __init__(self, store: Store) -> None:
        self._pool = StoreThreadPool()
        self._authenticator = Authenticator(
            store.requesters.authenticate, store.requesters.still_valid, self._pool
        )

    async def __call__(self, request: Request, scope: Scope) -> str:
        request.scope["euterpe.context"] = RequestContext(token_hex(16))
        try:
            return (await self._authenticator.authenticate(request, scope)).requester_id
        except EuterpeError as error:
            raise _as_gateway_refusal(error) from error

    def stop(self) -> None:
        self._pool.stop()


@contextmanager
def running_gateway(
    settings: Settings, redis_url: str, host: str, port: int, limits: GatewayLimits | None = None
) -> Iterator[RunningGateway]:
    """Yield a gateway that listens on `host`. At the end of the block, finish the running requests.

    Raise `BridgeError` or `ForeignUnavailable` if Redis cannot be used, and `PortTaken` if the port is taken.
    """
    asyncio.run(check_redis(redis_url))
    with ExitStack() as parts:
        keys = None
        if not is_loopback(host):
            store = parts.enter_context(open_store(settings, LazyKeyProvider(settings)))
            keys = ApiKeys(store)
        app = create_app(redis_url, limits=limits, authenticate=keys)
        try:
            server = ApiServer(app, host, port)
        except OSError as error:
            raise PortTaken(f"{host}:{port} cannot be listened on: {error.strerror}") from error
        parts.callback(server.stop)
        server.start()
        yield RunningGateway(server.url)


async def check_redis(redis_url: str) -> str:
    """Return the version and the place of the gateway's Redis.

    Raise `BridgeError` if Redis is too old, is a cluster, or removes jobs when it is full. Raise
    `ForeignUnavailable` if it does not answer.
    """
    client, place = connect(redis_url, connections=1), place_of(redis_url)
    try:
        with redis_errors(place):
            info = await client.info()
    finally:
        await client.aclose()
    check_server(info, place)
    check_eviction(info, place)
    return f"Redis {info['redis_version']} at {place}"


def _as_gateway_refusal(error: EuterpeError) -> GatewayRefusal:
    """Return an error of the HTTP API in the form of the gateway's contract."""
    code = ProblemCode.__members__.get(error.code.upper(), ProblemCode.INTERNAL)
    headers = dict(error.headers) if isinstance(error, RefusedByApi) else {}
    if code.status == 401:
        headers.setdefault("www-authenticate", 'Bearer realm="euterpe", error="invalid_token"')
    if code.status == 503:
        headers.setdefault("retry-after", "2")
    return GatewayRefusal(code.status, code.value, code.public_detail or str(error), headers=headers)
