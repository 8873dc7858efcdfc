import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from euterpe.client import AsyncClient, Client
from euterpe.client.connection import OnOutage
from euterpe.crypto import apikeys
from tests.client.scripted_server import Server, running


@pytest.fixture
def server() -> Iterator[Server]:
    with running() as started:
        yield started


@pytest.fixture(scope="session")
def api_key() -> str:
    return apikeys.mint().plaintext


@pytest.fixture
def outages() -> list[str]:
    """The codes of those that the client told of."""
    return []


class Asynchronous:
    """`AsyncClient` behind the methods of `Client`, so that a test is written once for both."""

    def __init__(self, url: str, api_key: str, *, on_outage: OnOutage | None = None) -> None:
        self._loop = asyncio.Runner()
        self._client = self._run(_made(url, api_key, on_outage))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            made = method(*args, **kwargs)
            return self._items(made) if isinstance(made, AsyncGenerator) else self._run(made)

        return call

    def _items(self, made: AsyncGenerator[Any]) -> Iterator[Any]:
        end = object()
        try:
            while (item := self._run(anext(made, end))) is not end:
                yield item
        finally:
            self._run(made.aclose())

    def _run(self, made: Awaitable[Any]) -> Any:
        async def awaited() -> Any:
            return await made

        return self._loop.run(awaited())

    def __repr__(self) -> str:
        return repr(self._client)

    def close(self) -> None:
        self._run(self._client.aclose())
        self._loop.close()


async def _made(url: str, api_key: str, on_outage: OnOutage | None) -> AsyncClient:
    return AsyncClient(url, api_key, on_outage=on_outage)


@pytest.fixture(params=[Client, Asynchronous], ids=["sync", "async"])
def client(
    request: pytest.FixtureRequest, server: Server, api_key: str, outages: list[str]
) -> Iterator[Client]:
    """Each test runs with both clients."""
    made = request.param(server.url, api_key, on_outage=lambda error: outages.append(error.code))
    yield made
    made.close()
