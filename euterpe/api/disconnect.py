"""Work that nobody waits for any more ends at once."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Receive

T = TypeVar("T")


async def while_connected(work: Awaitable[T], receive: Receive) -> T:
    """What `work` returns; ClientDisconnect, once it is canceled, when the client leaves first."""
    return await unless(_left(receive), work)


async def unless(departure: Awaitable[None], work: Awaitable[T]) -> T:
    """The same with any other reason to leave. What can be done at once is done all the same."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(departure)
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        left = not working.done()
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)
    if left:
        raise ClientDisconnect
    return working.result()


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
