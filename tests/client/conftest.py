import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from euterpe.client import AsyncClient, Client, RetryPolicy
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
    """Return a list to which `client` adds the error code of each outage that it reports."""
    return []


class Asynchronous:
    """`AsyncClient` with the blocking methods of `Client`, so that the same test runs with both clients."""

    def __init__(self, url: str, api_key: str, *, on_outage: OnOutage | None, retry: RetryPolicy) -> None:
        self._loop = asyncio.Runner()
        self._client = self._run(_made(url, api_key, on_outage, retry))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            result = method(*args, **kwargs)
            return self._items(result) if isinstance(result, AsyncGenerator) else self._run(result)

        return call

    def _items(self, generator: AsyncGenerator[Any]) -> Iterator[Any]:
        end = object()
        try:
            while (item := self._run(anext(generator, end))) is not end:
                yield item
        finally:
            self._run(generator.aclose())

    def _run(self, awaitable: Awaitable[Any]) -> Any:
        async def awaited() -> Any:
            return await awaitable

        return self._loop.run(awaited())

    def __repr__(self) -> str:
        return repr(self._client)

    def close(self) -> None:
        self._run(self._client.aclose())
        self._loop.close()


async def _made(url: str, api_key: str, on_outage: OnOutage | None, retry: RetryPolicy) -> AsyncClient:
    return AsyncClient(url, api_key, on_outage=on_outage, retry=retry)


@pytest.fixture
def retry() -> RetryPolicy:
    """Return the retry policy of `client`. A test can parametrize this fixture to reduce the retries."""
    return RetryPolicy()


@pytest.fixture(params=[Client, Asynchronous], ids=["sync", "async"])
def client(
    request: pytest.FixtureRequest, server: Server, api_key: str, outages: list[str], retry: RetryPolicy
) -> Iterator[Client]:
    """Yield a client. Each test runs with the synchronous client and with the asynchronous client."""
    client = request.param(
        server.url, api_key, on_outage=lambda error: outages.append(error.code), retry=retry
    )
    yield client
    client.close()
