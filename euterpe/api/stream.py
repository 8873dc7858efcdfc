"""One open event stream: from `hello` to the terminal event, as long as the client stays and keeps up."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from functools import partial

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from euterpe.api.departure import unless, while_connected
from euterpe.api.news import BEAT, News, hello
from euterpe.api.watcher import Watch
from euterpe.store.errors import StoreUnavailable

_BEAT_S = 15.0
# A client that takes nothing for so long is let go, and after an hour its key is looked at again.
_SLOWEST_S = 30.0
_LONGEST_S = 3600.0
_DATABASE_AWAY_S = 1.0


class EventStream(Response):
    media_type = "text/event-stream"

    def __init__(
        self,
        job_id: str,
        told: int,
        read: Callable[[int], Awaitable[News]],
        seat: Callable[[], AbstractContextManager[None]],
        watch: Callable[[], AbstractContextManager[Watch]],
        *,
        beat_s: float = _BEAT_S,
    ) -> None:
        self.status_code = 200
        self.init_headers({"cache-control": "no-cache, no-transform", "x-accel-buffering": "no"})
        self._job_id, self._told, self._read = job_id, told, read
        self._seat, self._watch, self._beat_s = seat, watch, beat_s
        self._figures: tuple[float, ...] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        with self._seat(), self._watch() as watch:
            await while_connected(self._tell(send, watch), receive)

    async def _tell(self, send: Send, watch: Watch) -> None:
        loop = asyncio.get_running_loop()
        end_at = loop.time() + _LONGEST_S
        push = partial(_push, send, watch)
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await push(hello(self._job_id))
        while not watch.ended and loop.time() < end_at:
            news = await self._news()
            if news is not None:
                if fresh := self._fresh(news):
                    await push(fresh)
                if news.is_last:
                    break
                if news.is_full:
                    continue
            if not await watch.changed(_DATABASE_AWAY_S if news is None else self._beat_s):
                await push(BEAT)
        await push(b"", more=False)

    async def _news(self) -> News | None:
        try:
            return await self._read(self._told)
        except StoreUnavailable:
            return None  # the client need not notice

    def _fresh(self, news: News) -> bytes:
        self._told = news.now_told
        figures = news.figures
        if figures is None or figures == self._figures:
            return news.frames()
        self._figures = figures
        return news.frames() + news.progress()


async def _push(send: Send, watch: Watch, frames: bytes, *, more: bool = True) -> None:
    """ClientDisconnect when nobody takes them: after a while, or at once when the service is stopping."""
    sending = send({"type": "http.response.body", "body": frames, "more_body": more})
    try:
        async with asyncio.timeout(_SLOWEST_S):
            await unless(watch.over(), sending)
    except TimeoutError:
        raise ClientDisconnect from None
