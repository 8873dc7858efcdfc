"""Cancel the work for a request when the client disconnects."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Receive

T = TypeVar("T")


async def while_connected(work: Awaitable[T], receive: Receive) -> T:
    """Return the result of `work`, or cancel it and raise ClientDisconnect if the client disconnects."""
    return await run_until(_wait_for_disconnect(receive), work)


async def run_until(disconnected: Awaitable[None], work: Awaitable[T]) -> T:
    """Return the result of `work`, or cancel it and raise ClientDisconnect if `disconnected` ends first.

    If both `work` and `disconnected` have ended, return the result.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(disconnected)
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


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
