"""Alive, and ready: for whoever starts this process and sends it requests. Neither needs a key."""

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from euterpe.api.answers import json_answer
from euterpe.api.service import Service
from euterpe.store.errors import StoreUnavailable
from euterpe.store.migrate import require_current

_PATIENCE_S = 5.0


class Health:
    def __init__(self, service: Service) -> None:
        self._database, self._calls = service.store.database, service.calls

    async def alive(self, _: Request) -> Response:
        return json_answer({"status": "ok"})

    async def ready(self, _: Request) -> Response:
        """The database answers in time, and its schema is this program's."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._calls.run(lambda: require_current(self._database))
        except TimeoutError:
            raise StoreUnavailable(f"the database has not answered for {_PATIENCE_S} s") from None
        return json_answer({"status": "ready"})
